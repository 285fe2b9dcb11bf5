//! Workloads in which several clients race, always under hostile schedules: at every moment one
//! client makes changes while another one syncs, so that transactions close within operations.

use rt::split_mix::SplitMix;

use super::stress::{DIRECTORIES, LOG_BLOCKS_MIN, choose, directory_path, ops};
use crate::image::SECTOR_BYTES;
use crate::model::Tree;
use crate::op::{Op, Path};
use crate::setting::{Cell, Schedule, Setting, Synchronous};
use crate::workload::Workload;

/// Chooses a lane's next operation.
type Choose = fn(usize, &Tree, &mut SplitMix) -> Op;

const OPS: usize = 14;
/// Maximum number of bytes that a file loses at once.
const CUT_MAX: u64 = 3000;
/// Number of sectors above which the file that changes most is not extended: one and a half times
/// this reaches beyond its direct blocks.
const SECTORS_MAX: u64 = 48;

/// The clients that race with each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Race {
    /// All clients make changes and sync.
    All,
    /// One client changes a file, and another one only syncs.
    Sync,
    /// One client changes a file, and another one changes names in directories that are durable at
    /// once, which leaves the data to the commit.
    Names,
    /// Two clients extend and truncate files, and a third one syncs and empties the log: the next
    /// commit has to wait for the journal's superblock before it writes data.
    Cuts,
}

/// Returns a workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let race = match random.below(6) {
        0 => Race::Sync,
        1 => Race::Names,
        2 => Race::Cuts,
        _ => Race::All,
    };
    let schedule = match random.below(2) {
        0 if race == Race::All => Schedule::Pct(seed),
        _ => Schedule::Random(seed),
    };
    let sync: Choose = |_, _, _| Op::Sync;
    let choose: &[Choose] = match race {
        Race::All => &[choose_racing, choose_racing, choose_racing],
        Race::Sync => &[change_one_file, sync],
        Race::Names => &[change_one_file, change_one_name],
        Race::Cuts => &[cut_one_file, cut_one_file, sync_or_empty_log],
    };
    let setting = Setting {
        log_blocks: LOG_BLOCKS_MIN,
        // In half of the workloads the journal's daemon races, too: operations start once a second.
        commit_ms: 1000 * random.below(2),
        lanes: choose.len() as u32,
        synchronous: if race == Race::Names {
            Synchronous::Directories
        } else {
            Synchronous::No
        },
        schedule,
        ..Setting::new(cell)
    };
    let lanes = (0..setting.lanes as usize).map(|lane| ops(lane, OPS, &mut random, choose[lane]));
    let lanes: Vec<Vec<Op>> = lanes.collect();
    Workload {
        setting,
        prepared: vec![DIRECTORIES as usize; lanes.len()],
        lanes,
    }
}

/// Chooses an operation: a third are sync calls, and a third concern one file.
pub(crate) fn choose_racing(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    match random.below(6) {
        0 => Op::Sync,
        1 => Op::SyncDirectory(directory_path(lane, random.below(DIRECTORIES))),
        2 | 3 => change_one_file(lane, tree, random),
        _ => choose(lane, tree, random),
    }
}

/// Creates one file of each lane, extends it beyond its direct blocks, truncates it or deletes it.
fn change_one_file(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
    let Some(sectors) = tree.find(&path).and_then(|id| tree.sectors(id)) else {
        return Op::Create(path);
    };
    let count = sectors.len() as u64;
    match random.below(8) {
        0..=3 if count < SECTORS_MAX => Op::Append(path, 1 + random.below(SECTORS_MAX / 2) as u32),
        4 => Op::Write(path, random.below(count + 1) as u32, 4),
        5 => Op::Punch(
            path,
            random.below(count + 1) as u32,
            1 + random.below(SECTORS_MAX / 2) as u32,
        ),
        7 => Op::Unlink(path),
        _ => Op::Truncate(path, random.below(count + 1) * 300),
    }
}

/// Extends one file of each lane a little, or truncates it within a sector.
fn cut_one_file(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
    let Some(sectors) = tree.find(&path).and_then(|id| tree.sectors(id)) else {
        return Op::Create(path);
    };
    let bytes = (sectors.len() * SECTOR_BYTES) as u64;
    match random.below(2) {
        0 if bytes > 0 => Op::Truncate(path, bytes - 1 - random.below(bytes.min(CUT_MAX))),
        _ => Op::Append(path, 1 + random.below(6) as u32),
    }
}

/// Syncs, or switches a file's data journaling, which empties the log.
fn sync_or_empty_log(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
    match (tree.find(&path), random.below(2)) {
        (None, _) => Op::Create(path),
        (Some(_), 0) => Op::Journaled(path, random.below(2) == 0),
        (Some(_), _) => Op::Sync,
    }
}

/// Creates or removes one name of each lane.
fn change_one_name(lane: usize, tree: &Tree, _: &mut SplitMix) -> Op {
    let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
    match tree.find(&path) {
        Some(_) => Op::Unlink(path),
        None => Op::Create(path),
    }
}
