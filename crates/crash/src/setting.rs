//! Settings: the environment of a workload. A cell of the matrix, and the properties of its world.
//!
//! In text: `ordered,internal`, on ext4 `ext4,ordered,internal`, `inline,ordered,internal`,
//! `bigalloc,ordered,internal`, `quota,ordered,internal`, `mmp,ordered,internal` or
//! `uninit_bg,ordered,internal`, followed by the values that differ from the default, as in
//! `journal,external,fua=0,log=64,tid=4294967280,pct=3`.

mod cell;

use core::fmt;
use core::str::FromStr;

use crate::crowd::Crowd;
use crate::fault::Fault;
use crate::mode::{OrderedScope, Structures};
use crate::mutant;
pub use cell::{
    CELLS, CELLS_ASYNC, CELLS_ASYNC_EXT4, CELLS_ASYNC_FAST, CELLS_ASYNC_IGNORED, CELLS_CLUSTERED,
    CELLS_EXT4, CELLS_FAST, CELLS_GROUP_CHECKSUMS, CELLS_INLINE, CELLS_MULTI_MOUNT, CELLS_QUOTA,
    Cell, CellError, JournalPlace, NO_JOURNAL, all_cells, journaled_cells,
};

/// The choice of the task that runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// First come, first served.
    Fair,
    /// Any task, at every point, with this seed.
    Random(u64),
    /// Priorities that change a few times, with this seed.
    Pct(u64),
}

/// Number of blocks in a cluster, where clusters are larger than blocks; as many times larger are
/// groups, and volumes by as many groups of the others.
pub(crate) const CLUSTER_BLOCKS: u32 = 4;
/// Minimum number of free clusters: each directory of a workload has one before it starts.
const CLUSTERS_FREE_MIN: u32 = 8;

/// Maximum total delay of a due event in milliseconds: a thread can lose its processor at every
/// point, for ten milliseconds each time.
const DELAY_MS: u64 = 500;

impl Schedule {
    /// Returns the possible delay of a due event in milliseconds.
    pub(crate) fn delay_ms(self) -> u64 {
        match self {
            Self::Fair => 0,
            Self::Random(_) | Self::Pct(_) => DELAY_MS,
        }
    }
}

/// The operations that are durable when they return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Synchronous {
    /// Only sync calls.
    No,
    /// Those that change names: the mount option `dirsync`.
    Directories,
    /// All operations: the mount option `sync`.
    All,
}

/// The checksums of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checksums {
    /// None.
    None,
    /// One for each transaction.
    V1,
    /// One for each block, of which tags store 16 bits.
    V2,
    /// One for each block.
    V3,
}

/// All versions of checksums.
pub const CHECKSUMS: [Checksums; 4] =
    [Checksums::None, Checksums::V1, Checksums::V2, Checksums::V3];

/// The environment of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The cell.
    pub cell: Cell,
    /// The data that ordered mode orders.
    pub ordered: OrderedScope,
    /// True if blocks are allocated when data is written back: `delalloc`.
    pub is_delayed: bool,
    /// True if the devices can force a write; if not, the journal flushes twice.
    pub can_force: bool,
    /// Number of blocks of the log in use.
    pub log_blocks: u32,
    /// Transaction number at which the journal continues. Near the end of the range, numbers wrap.
    pub tid: u32,
    /// Interval of commits without a request in milliseconds; 0 for never.
    pub commit_ms: u64,
    /// Interval of the background writer in milliseconds; 0 for never.
    pub writer_ms: u64,
    /// Approximate number of free blocks; 0 for an empty volume.
    pub free_blocks: u32,
    /// Number of clients, each in separate directories.
    pub lanes: u32,
    /// The operations that are durable when they return.
    pub synchronous: Synchronous,
    /// The journal's checksums.
    pub checksums: Checksums,
    /// True if the journal's block numbers have 64 bits.
    pub is_wide: bool,
    /// True if the power failed after the preparation, so that the recording starts with a
    /// recovery.
    pub is_dirty: bool,
    /// Every n-th handle that requests more credits restarts in another transaction; 0 to restart
    /// only if the log requires it.
    pub restart_every: u32,
    /// True if a failed write of data ends all commits: the mount option `data_err=abort`.
    pub is_abort: bool,
    /// Tasks beside the clients.
    pub crowd: Option<Crowd>,
    /// True if freed blocks are discarded: the mount option `discard`.
    pub is_discarding: bool,
    /// The failing device commands.
    pub fault: Option<Fault>,
    /// The broken rule of the engine; builds with the feature `mutants` break it.
    pub mutant: Option<&'static str>,
    /// The choice of the task that runs next.
    pub schedule: Schedule,
}

/// Length of the log in most worlds, in blocks: a few transactions of the largest operations.
const LOG_BLOCKS: u32 = 256;
/// The same on ext4, whose trees may be deeper.
const LOG_BLOCKS_EXT4: u32 = 320;
/// Length of the log on ext4 that is just long enough.
pub const LOG_BLOCKS_EXT4_MIN: u32 = 259;
/// The same with quotas.
pub const LOG_BLOCKS_QUOTA_MIN: u32 = 307;
/// Maximum number of clients: each has a digit.
pub const LANES_MAX: u32 = 36;
/// Depth of [`Schedule::Pct`].
pub const PCT_DEPTH: u32 = 3;

impl Setting {
    /// Creates the usual setting of a cell: nothing runs in the background.
    pub const fn new(cell: Cell) -> Self {
        let is_wide = cell.structures.is_ext4();
        let log_blocks = if is_wide { LOG_BLOCKS_EXT4 } else { LOG_BLOCKS };
        let checksums = if cell.structures.has_checksums() {
            Checksums::V3
        } else if cell.is_async {
            Checksums::V1
        } else {
            Checksums::None
        };
        Self {
            cell,
            ordered: OrderedScope::All,
            is_delayed: cell.may_delay(),
            can_force: true,
            log_blocks,
            tid: 1,
            commit_ms: 0,
            writer_ms: 0,
            free_blocks: 0,
            lanes: 1,
            synchronous: Synchronous::No,
            checksums,
            is_wide,
            is_dirty: false,
            restart_every: 0,
            is_abort: false,
            crowd: None,
            is_discarding: false,
            fault: None,
            mutant: None,
            schedule: Schedule::Fair,
        }
    }

    /// Returns the setting with what the cell requires: ext4 sets the format of its log, which has
    /// to be long enough, and a volume without a journal does not recover from a power cut.
    #[must_use]
    pub fn fitting(self) -> Self {
        let usual = Self::new(self.cell);
        let mut fitting = Self {
            is_dirty: self.is_dirty && self.cell.has_journal(),
            ..self
        };
        if self.cell.is_async || self.cell.structures.has_checksums() {
            // The format of the log follows from it.
            fitting.checksums = usual.checksums;
        }
        if self.cell.structures == Structures::Clustered && self.free_blocks > 0 {
            fitting.free_blocks = self.free_blocks.max(CLUSTERS_FREE_MIN * CLUSTER_BLOCKS);
        }
        if self.cell.structures.is_ext4() {
            let least = match self.cell.structures {
                Structures::Quota => LOG_BLOCKS_QUOTA_MIN,
                _ => LOG_BLOCKS_EXT4_MIN,
            };
            fitting.log_blocks = self.log_blocks.max(least);
            fitting.is_wide = usual.is_wide;
        }
        fitting
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::new(self.cell);
        write!(out, "{}", self.cell)?;
        let numbers = [
            ("allocated", self.ordered as u64, usual.ordered as u64),
            (
                "delalloc",
                u64::from(self.is_delayed),
                u64::from(usual.is_delayed),
            ),
            ("fua", u64::from(self.can_force), u64::from(usual.can_force)),
            ("log", self.log_blocks.into(), usual.log_blocks.into()),
            ("tid", self.tid.into(), usual.tid.into()),
            ("commit", self.commit_ms, usual.commit_ms),
            ("writer", self.writer_ms, usual.writer_ms),
            ("free", self.free_blocks.into(), usual.free_blocks.into()),
            ("lanes", self.lanes.into(), usual.lanes.into()),
            ("sync", self.synchronous as u64, usual.synchronous as u64),
            ("csum", self.checksums as u64, usual.checksums as u64),
            ("wide", u64::from(self.is_wide), u64::from(usual.is_wide)),
            (
                "restart",
                self.restart_every.into(),
                usual.restart_every.into(),
            ),
            ("abort", u64::from(self.is_abort), u64::from(usual.is_abort)),
            ("dirty", u64::from(self.is_dirty), u64::from(usual.is_dirty)),
            (
                "discard",
                u64::from(self.is_discarding),
                u64::from(usual.is_discarding),
            ),
        ];
        for (name, value, usual) in numbers {
            if value != usual {
                write!(out, ",{name}={value}")?;
            }
        }
        if let Some(crowd) = self.crowd {
            write!(out, ",crowd={crowd}")?;
        }
        if let Some(fault) = self.fault {
            write!(out, ",fault={fault}")?;
        }
        if let Some(name) = self.mutant {
            write!(out, ",mutant={name}")?;
        }
        match self.schedule {
            Schedule::Fair => Ok(()),
            Schedule::Random(seed) => write!(out, ",random={seed}"),
            Schedule::Pct(seed) => write!(out, ",pct={seed}"),
        }
    }
}

/// The error of a text that is not a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a setting: a cell, then KEY=VALUE with commas between")]
pub struct SettingError(pub String);

impl FromStr for Setting {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        parse(text).ok_or_else(|| SettingError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Setting> {
    let of_setting = text.find('=').and_then(|at| text[..at].rfind(','));
    let (cell, rest) = text.split_at(of_setting.unwrap_or(text.len()));
    let mut setting = Setting::new(cell.parse().ok()?);
    for part in rest.split(',').skip(1) {
        let (name, value) = part.split_once('=')?;
        match name {
            "crowd" => {
                setting.crowd = Some(value.parse().ok()?);
                continue;
            }
            "fault" => {
                setting.fault = Some(value.parse().ok()?);
                continue;
            }
            "mutant" => {
                setting.mutant = Some(mutant::named(value)?.name);
                continue;
            }
            _ => {}
        }
        let value: u64 = value.parse().ok()?;
        let narrow = u32::try_from(value).ok();
        match name {
            "allocated" => {
                setting.ordered = match value {
                    0 => OrderedScope::All,
                    1 => OrderedScope::Allocated,
                    _ => return None,
                }
            }
            "delalloc" => setting.is_delayed = value != 0 && setting.cell.may_delay(),
            "fua" => setting.can_force = value != 0,
            "log" => setting.log_blocks = narrow?,
            "tid" => setting.tid = narrow?,
            "commit" => setting.commit_ms = value,
            "writer" => setting.writer_ms = value,
            "free" => setting.free_blocks = narrow?,
            "lanes" => setting.lanes = narrow.filter(|lanes| (1..=4).contains(lanes))?,
            "sync" => {
                setting.synchronous = match value {
                    1 => Synchronous::Directories,
                    2 => Synchronous::All,
                    _ => return None,
                }
            }
            "csum" => setting.checksums = *CHECKSUMS.get(value as usize)?,
            "wide" => setting.is_wide = value != 0,
            "abort" => setting.is_abort = value != 0,
            "restart" => setting.restart_every = narrow?,
            "dirty" => setting.is_dirty = value != 0,
            "discard" => setting.is_discarding = value != 0,
            "random" => setting.schedule = Schedule::Random(value),
            "pct" => setting.schedule = Schedule::Pct(value),
            _ => return None,
        }
    }
    Some(setting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        let texts = [
            "ordered,internal",
            "journal,external,fua=0,log=64,tid=4294967280,commit=5,writer=7,free=30,lanes=3,pct=3",
            "writeback,external,random=18446744073709551615",
            "journal,internal,csum=3,wide=1,restart=2,abort=1,dirty=1,discard=1",
            "writeback,none,free=30,lanes=2,random=4",
            "ext4,journal,external",
            "ext4,ordered,internal,fast,delalloc=0,fua=0",
            "ext4,writeback,none,free=30,pct=4",
            "quota,journal,internal,log=307",
            "bigalloc,writeback,none,free=30",
            "bigalloc,ordered,external,delalloc=0",
            "uninit_bg,ordered,internal,csum=2",
            "uninit_bg,writeback,internal,fast,async,fua=0",
            "ext4,journal,internal,async",
            "ordered,external,allocated=1,fua=0",
            "journal,internal,lanes=2,crowd=names.7.12,pct=3",
            "ordered,internal,sync=2,fault=torn.1.17,mutant=escape/skipped,pct=3",
        ];
        for text in texts {
            let setting: Setting = text.parse().expect("a setting");
            assert_eq!(setting.to_string(), text);
        }
        for text in [
            "ordered",
            "none,internal",
            "ordered,none",
            "ordered,internal,x=1",
            "ordered,internal,sync=3",
            "ordered,internal,csum=4",
            "ordered,internal,allocated=2",
            "ordered,internal,fault=torn.1",
            "ordered,internal,crowd=names.7",
            "ordered,internal,mutant=nothing",
            "ordered,internal,lanes=9",
            "ext4,internal",
            "ext4,ordered,external,fast",
            "ordered,internal,fast",
            "uninit_bg,ordered,internal,async",
            "quota,ordered,external",
            "ext3,ordered,internal",
            "ext4,ordered,internal,",
        ] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
    }
}
