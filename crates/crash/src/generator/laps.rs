//! Workloads that wrap around the log several times: the shortest log that the engine accepts (a
//! transaction may take a quarter of it, and a rename reserves that much), large writes, and a sync
//! call for every second operation. Log space is freed and reused, transaction numbers wrap,
//! journals have all kinds of checksums, and some volumes start with the recovery after an earlier
//! power cut.

use rt::split_mix::SplitMix;

use super::stress::{
    DIRECTORIES, FILES, LOG_BLOCKS_MIN, NEARLY_WRAPPED, choose, directory_path, ops,
};
use crate::model::Tree;
use crate::op::Op;
use crate::setting::{CHECKSUMS, Cell, Schedule, Setting};
use crate::workload::Workload;

const LANES_MAX: u64 = 2;
const OPS: usize = 160;
/// Minimum size of a large write, in sectors. Journaled, it makes a transaction nearly as large as
/// the log allows (a quarter), or several in succession, so that the last one has to wait for space
/// and takes it at once.
const BULK_SECTORS_MIN: u64 = 60;
const BULK_SECTORS_MORE: u64 = 160;
/// Maximum number of operations of a lane before the power cut with which the recording starts.
const PREPARED_MAX: u64 = 12;

/// Returns a workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let mut chance = |one_in| random.below(one_in) == 0;
    let (wraps, is_forced, is_dirty, is_wide) = (chance(2), !chance(4), chance(2), chance(4));
    let lanes = 1 + random.below(LANES_MAX);
    let schedule = match (lanes, random.below(2)) {
        (1, _) => Schedule::Fair,
        (_, 0) => Schedule::Random(seed),
        (_, _) => Schedule::Pct(seed),
    };
    let usual = Setting::new(cell);
    let setting = Setting {
        can_force: is_forced,
        log_blocks: LOG_BLOCKS_MIN,
        tid: if wraps { NEARLY_WRAPPED } else { usual.tid },
        lanes: lanes as u32,
        checksums: CHECKSUMS[random.below(CHECKSUMS.len() as u64) as usize],
        is_wide,
        is_dirty,
        schedule,
        ..usual
    };
    let more = if is_dirty {
        random.below(PREPARED_MAX)
    } else {
        0
    };
    let count = OPS / lanes as usize;
    let lanes = (0..lanes as usize).map(|lane| ops(lane, count, &mut random, choose_lapping));
    let lanes: Vec<Vec<Op>> = lanes.collect();
    Workload {
        setting,
        prepared: vec![(DIRECTORIES + more) as usize; lanes.len()],
        lanes,
    }
}

fn choose_lapping(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let directory = directory_path(lane, random.below(DIRECTORIES));
    match random.below(7) {
        0 | 1 => Op::Sync,
        2 => Op::SyncDirectory(directory),
        3 => {
            let path = format!("{directory}/f{}", random.below(FILES));
            let count = BULK_SECTORS_MIN + random.below(BULK_SECTORS_MORE);
            Op::Write(path.into(), 0, count as u32)
        }
        _ => choose(lane, tree, random),
    }
}
