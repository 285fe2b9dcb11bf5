//! The engine of this project as the file system under test.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::BlockDevice;
use ext::options;
use ext::options::{AccessTime, Memory};
use ext::tuning::{MemoryAccounting, Tuning};
use ext::volume::{FileKind, OpenFlags};
use ext::{Error, MountOptions, Volume};
use fsck::ProblemKind;
use layout::InodeNr;
use layout::device::DeviceNumber;
use rt::Nanos;

use crate::engine::{Engine, Recovery, Soundness};
use crate::epilogue;
use crate::mode::{DataMode, OrderedScope};
use crate::observe::{Contents, Entry, Seen, Subject};
use crate::op::Special;
use crate::rule::{Broken, Rule};

/// The file system that the explorer recovers.
pub type Tested = Volume;

impl From<DataMode> for options::DataMode {
    fn from(mode: DataMode) -> Self {
        match mode {
            DataMode::Journal => Self::Journal,
            DataMode::Ordered => Self::Ordered,
            DataMode::Writeback => Self::Writeback,
        }
    }
}

impl From<OrderedScope> for options::OrderedScope {
    fn from(scope: OrderedScope) -> Self {
        match scope {
            OrderedScope::All => Self::All,
            OrderedScope::Allocated => Self::Allocated,
        }
    }
}

/// Returns mount options under which nothing runs in the background.
pub fn quiet(data: DataMode) -> MountOptions {
    let never = Nanos::from_secs(100_000);
    MountOptions {
        data: data.into(),
        commit_interval: never,
        access_time: AccessTime::Never,
        memory: Memory {
            writer_interval: never,
            budget_bytes: 1 << 24,
            ..Memory::default()
        },
        tuning: Tuning {
            memory_accounting: MemoryAccounting::Contents,
            ..Tuning::default()
        },
        privileged: true,
        ..MountOptions::default()
    }
}

impl Special {
    /// Returns the engine's kind, and the number of the device.
    pub fn parts(self) -> (FileKind, DeviceNumber) {
        match self {
            Self::Fifo => (FileKind::Fifo, DeviceNumber::default()),
            Self::Socket => (FileKind::Socket, DeviceNumber::default()),
            Self::Character(number) => (FileKind::CharacterDevice, number),
            Self::Block(number) => (FileKind::BlockDevice, number),
        }
    }

    /// Returns the special file of the engine's kind; `None` for other kinds.
    fn of(kind: FileKind, device: Option<DeviceNumber>) -> Option<Self> {
        Some(match (kind, device) {
            (FileKind::Fifo, _) => Self::Fifo,
            (FileKind::Socket, _) => Self::Socket,
            (FileKind::CharacterDevice, Some(number)) => Self::Character(number),
            (FileKind::BlockDevice, Some(number)) => Self::Block(number),
            _ => return None,
        })
    }
}

impl Subject for Volume {
    type Error = Error;

    fn root(&self) -> InodeNr {
        InodeNr::ROOT
    }

    fn look(&self, inode: InodeNr, has_blocks: bool) -> Result<Seen, Error> {
        let attributes = self.attributes(inode)?;
        let contents = match attributes.kind {
            FileKind::Regular => Contents::File(read(self, inode, attributes.size)?),
            FileKind::Directory => Contents::Directory(BTreeMap::new()),
            FileKind::Symlink => Contents::Symlink(self.read_link(inode)?),
            kind => {
                let special = Special::of(kind, attributes.device);
                Contents::Special(special.expect("every other kind is special"))
            }
        };
        let blocks = match contents {
            Contents::File(_) if has_blocks => blocks_of(self, inode)?,
            _ => BTreeMap::new(),
        };
        Ok(Seen {
            inode,
            links: attributes.links,
            permissions: attributes.permissions,
            owner: (attributes.uid, attributes.gid),
            marks: marks_of(self, inode)?,
            modified: attributes.mtime.seconds,
            changed: attributes.ctime.seconds,
            blocks,
            contents,
        })
    }

    fn list(&self, directory: InodeNr) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        self.read_directory(directory, 0, &mut |_, entry| {
            if entry.name != b"." && entry.name != b".." {
                entries.push((entry.name, entry.inode));
            }
            true
        })?;
        Ok(entries)
    }
}

fn marks_of(volume: &Volume, inode: InodeNr) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
    let names = volume.list_attributes(inode)?.into_iter();
    names
        .map(|name| {
            let value = volume.get_attribute(inode, &name)?;
            Ok((name, value))
        })
        .collect()
}

fn read(volume: &Volume, inode: InodeNr, size: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0xEE; size as usize];
    if size > 0 {
        let file = volume.open_inode(inode, OpenFlags::READ)?;
        let read = volume.read(file, 0, &mut bytes);
        volume.release(file)?;
        bytes.truncate(read?);
    }
    Ok(bytes)
}

fn blocks_of(volume: &Volume, inode: InodeNr) -> Result<BTreeMap<u64, u64>, Error> {
    let mut blocks = BTreeMap::new();
    for extent in volume.blocks_of(inode)? {
        if let Some(file_block) = extent.file_block {
            blocks.extend((file_block.get()..).zip(extent.blocks()));
        }
    }
    Ok(blocks)
}

impl Engine for Volume {
    fn recover(
        home: Arc<dyn BlockDevice>,
        log: Option<Arc<dyn BlockDevice>>,
        data: DataMode,
    ) -> Result<(Self, Recovery), Error> {
        let (volume, report) = Self::open_with_report(home, log, quiet(data))?;
        let recovery = Recovery {
            last_committed: report.last_committed,
            has_truncated: report.orphans_truncated > 0,
            has_lost: report.lost.is_some(),
            read_only_because: report.read_only_because,
        };
        Ok((volume, recovery))
    }

    fn exercise(&self) -> Result<(), Broken> {
        epilogue::run(self)
    }

    fn close(self) -> Result<(), Error> {
        Self::close(self)
    }

    fn check(home: &dyn BlockDevice, log: Option<&dyn BlockDevice>) -> Result<Soundness, Broken> {
        let report = fsck::check(home, log, &fsck::Options::default())
            .map_err(|error| Broken::new(Rule::U2, format!("it cannot be checked: {error}")))?;
        let is_copy = |kind| kind == ProblemKind::CopyChecked;
        let has_copy = report.problems.iter().any(|problem| is_copy(problem.kind));
        Ok(Soundness {
            is_sound: report.is_clean() && !has_copy,
            problems: report.problems.iter().map(ToString::to_string).collect(),
            orphans: report.statistics.orphans.into(),
            needs_recovery: report.statistics.needs_recovery,
        })
    }
}
