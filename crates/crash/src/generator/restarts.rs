//! Workloads whose handles restart wherever possible: a request for more credits finds the running
//! transaction closed, each time, each second time, or less often. So large files, with and without
//! journaled data and with separate attribute blocks, lose their blocks over many transactions, and
//! the power fails between any two of them.

use rt::split_mix::SplitMix;

use super::stress::{
    DIRECTORIES, LOG_BLOCKS_MIN, directory_path, enlarge_values, move_blocks, ops,
};
use crate::model::Tree;
use crate::op::{Op, Path};
use crate::setting::{Cell, Schedule, Setting};
use crate::workload::Workload;

const LANES_MAX: u64 = 2;
const OPS: usize = 24;
const FILES: u64 = 2;
/// Restarts are forced at every request or at every n-th, up to this number.
const EVERY_MAX: u64 = 4;
/// Maximum size of a write in sectors, and of the file written to: beyond the direct blocks.
const WRITE_SECTORS_MAX: u64 = 40;
const FILE_SECTORS_MAX: u64 = 80;
/// Minimum length of attribute values: they need a block, and have many lengths, so that few files
/// share one.
const VALUE_MIN: u64 = 150;
const VALUE_MORE: u64 = 100;

/// Returns a workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let lanes = 1 + random.below(LANES_MAX);
    let setting = Setting {
        log_blocks: LOG_BLOCKS_MIN,
        lanes: lanes as u32,
        restart_every: 1 + random.below(EVERY_MAX) as u32,
        schedule: match (lanes, random.below(2)) {
            (1, _) => Schedule::Fair,
            (_, 0) => Schedule::Random(seed),
            (_, _) => Schedule::Pct(seed),
        },
        ..Setting::new(cell)
    };
    let count = OPS / lanes as usize;
    let lanes = (0..lanes as usize).map(|lane| ops(lane, count, &mut random, choose));
    let mut lanes: Vec<Vec<Op>> = lanes.collect();
    enlarge_values(cell, seed, &mut lanes);
    move_blocks(cell, seed, &mut lanes);
    Workload {
        setting,
        prepared: vec![DIRECTORIES as usize; lanes.len()],
        lanes,
    }
}

fn choose(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let any = |random: &mut SplitMix| -> Path {
        let directory = directory_path(lane, random.below(DIRECTORIES));
        format!("{directory}/f{}", random.below(FILES)).into()
    };
    let (path, other) = (any(random), any(random));
    let Some(sectors) = tree.find(&path).and_then(|id| tree.sectors(id)) else {
        return Op::Create(path);
    };
    let count = sectors.len() as u64;
    let more = 1 + random.below(WRITE_SECTORS_MAX) as u32;
    match random.below(16) {
        0..=4 if count < FILE_SECTORS_MAX => Op::Append(path, more),
        5 if count < FILE_SECTORS_MAX => Op::Write(path, random.below(count + 4) as u32, more),
        6 | 7 => {
            let length = VALUE_MIN + random.below(VALUE_MORE);
            Op::Setxattr(path, "a".into(), length as u32)
        }
        8 | 9 => Op::Journaled(path, random.below(4) > 0),
        10 => Op::Truncate(path, random.below(count + 1) * 300),
        11 => Op::Punch(path, random.below(count + 1) as u32, more),
        12 => Op::Rename(other, path),
        13 => Op::Sync,
        14 => Op::Fsync(path),
        _ => Op::Unlink(path),
    }
}
