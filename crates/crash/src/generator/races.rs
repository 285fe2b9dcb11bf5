//! Workloads in which several clients race, always under hostile schedules: at every moment somebody changes something
//! while another one syncs, so that transactions close within operations.

use block::random::SplitMix;

use super::stress::{DIRECTORIES, LOG_BLOCKS_MIN, choose, directory_path, ops};
use crate::model::Tree;
use crate::op::Op;
use crate::run::Workload;
use crate::setting::{Cell, Schedule, Setting};

const LANES: u32 = 3;
const OPS: usize = 14;

/// A workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let schedule = match random.below(2) {
        0 => Schedule::Random(seed),
        _ => Schedule::Pct(seed),
    };
    let setting = Setting {
        log_blocks: LOG_BLOCKS_MIN,
        lanes: LANES,
        schedule,
        ..Setting::new(cell)
    };
    let lanes = (0..LANES as usize).map(|lane| ops(lane, OPS, &mut random, choose_racing));
    let lanes: Vec<Vec<Op>> = lanes.collect();
    Workload {
        setting,
        prepared: vec![DIRECTORIES as usize; lanes.len()],
        lanes,
    }
}

/// The same, half of it sync calls.
pub(crate) fn choose_racing(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    match random.below(4) {
        0 => Op::Sync,
        1 => Op::SyncDirectory(directory_path(lane, random.below(DIRECTORIES))),
        _ => choose(lane, tree, random),
    }
}
