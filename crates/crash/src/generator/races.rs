//! Workloads in which several clients race, always under hostile schedules: at every moment somebody changes something
//! while another one syncs, so that transactions close within operations.

use block::random::SplitMix;

use super::stress::{DIRECTORIES, LOG_BLOCKS_MIN, choose, directory_path, ops};
use crate::model::Tree;
use crate::op::{Op, Path};
use crate::run::Workload;
use crate::setting::{Cell, Schedule, Setting, Synchronous};

/// Chooses a lane's next operation.
type Choose = fn(usize, &Tree, &mut SplitMix) -> Op;

const LANES: u32 = 3;
const OPS: usize = 14;
/// The file that changes most is not made larger than this and half as much: beyond its direct blocks.
const SECTORS_MAX: u64 = 48;

/// A workload by its seed. One in three is a duel: one client does nothing but change a file, and another nothing but sync, or
/// but change a directory that is durable at once, which leaves the first one's data to the commit.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let is_duel = random.below(3) == 0;
    let has_durable_names = is_duel && random.below(2) == 0;
    let schedule = match random.below(2) {
        0 if !is_duel => Schedule::Pct(seed),
        _ => Schedule::Random(seed),
    };
    let setting = Setting {
        log_blocks: LOG_BLOCKS_MIN,
        // Every other time the journal's daemon races, too: operations begin once a second.
        commit_ms: 1000 * random.below(2),
        lanes: if is_duel { 2 } else { LANES },
        synchronous: if has_durable_names {
            Synchronous::Directories
        } else {
            Synchronous::No
        },
        schedule,
        ..Setting::new(cell)
    };
    let choose: [Choose; LANES as usize] = match (is_duel, has_durable_names) {
        (true, true) => [change_one_file, change_one_name, choose_racing],
        (true, false) => [change_one_file, |_, _, _| Op::Sync, choose_racing],
        (false, _) => [choose_racing; LANES as usize],
    };
    let lanes = (0..setting.lanes as usize).map(|lane| ops(lane, OPS, &mut random, choose[lane]));
    let lanes: Vec<Vec<Op>> = lanes.collect();
    Workload {
        setting,
        prepared: vec![DIRECTORIES as usize; lanes.len()],
        lanes,
    }
}

/// The same, a third of it sync calls, and a third about one file.
pub(crate) fn choose_racing(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    match random.below(6) {
        0 => Op::Sync,
        1 => Op::SyncDirectory(directory_path(lane, random.below(DIRECTORIES))),
        2 | 3 => change_one_file(lane, tree, random),
        _ => choose(lane, tree, random),
    }
}

/// One file of each lane is always about to be made, to grow beyond its direct blocks, to be cut off, or to be deleted.
fn change_one_file(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
    let Some(sectors) = tree.find(&path).and_then(|id| tree.sectors(id)) else {
        return Op::Create(path);
    };
    let count = sectors.len() as u64;
    match random.below(8) {
        0..=3 if count < SECTORS_MAX => Op::Append(path, 1 + random.below(SECTORS_MAX / 2) as u32),
        4 => Op::Write(path, random.below(count + 1) as u32, 4),
        7 => Op::Unlink(path),
        _ => Op::Truncate(path, random.below(count + 1) * 300),
    }
}

/// One name of each lane comes and goes.
fn change_one_name(lane: usize, tree: &Tree, _: &mut SplitMix) -> Op {
    let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
    match tree.find(&path) {
        Some(_) => Op::Unlink(path),
        None => Op::Create(path),
    }
}
