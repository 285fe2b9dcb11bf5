//! Workloads on devices with a transient failure: the background writer runs between operations,
//! and one of its writes fails, once. Its data still belongs to the next commit, and many
//! operations request one. Half of the volumes have `data_err=abort`.

use rt::split_mix::SplitMix;

use super::stress::{DIRECTORIES, directory_path, ops};
use crate::model::Tree;
use crate::op::{Op, Path};
use crate::setting::{Cell, Schedule, Setting};
use crate::workload::Workload;

const LANES_MAX: u64 = 2;
const OPS: usize = 20;
const FILES: u64 = 2;
/// Maximum interval of the writer, in milliseconds: operations start once a second.
const WRITER_MS_MAX: u64 = 1200;
/// Maximum size of a write in sectors, and of the file written to.
const WRITE_SECTORS_MAX: u64 = 8;
const FILE_SECTORS_MAX: u64 = 40;

/// Returns a workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let lanes = 1 + random.below(LANES_MAX);
    let setting = Setting {
        lanes: lanes as u32,
        writer_ms: 1 + random.below(WRITER_MS_MAX),
        is_abort: random.below(2) == 0,
        schedule: match (lanes, random.below(2)) {
            (1, _) | (_, 0) => Schedule::Fair,
            (_, _) => Schedule::Random(seed),
        },
        ..Setting::new(cell)
    };
    let count = OPS / lanes as usize;
    let lanes = (0..lanes as usize).map(|lane| ops(lane, count, &mut random, choose));
    let lanes: Vec<Vec<Op>> = lanes.collect();
    Workload {
        setting,
        prepared: vec![DIRECTORIES as usize; lanes.len()],
        lanes,
    }
}

fn choose(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let directory = directory_path(lane, random.below(DIRECTORIES));
    let path: Path = format!("{directory}/f{}", random.below(FILES)).into();
    let Some(sectors) = tree.find(&path).and_then(|id| tree.sectors(id)) else {
        return Op::Create(path);
    };
    let count = sectors.len() as u64;
    let more = 1 + random.below(WRITE_SECTORS_MAX) as u32;
    match random.below(16) {
        0..=4 if count < FILE_SECTORS_MAX => Op::Append(path, more),
        5 | 6 => Op::Write(path, random.below(count + 2) as u32, more),
        7 => Op::Truncate(path, random.below(count + 1) * 400),
        8 => Op::Punch(path, random.below(count + 1) as u32, more),
        9 => Op::Unlink(path),
        10 => Op::Fsync(path),
        11 => Op::Sync,
        _ => Op::SyncDirectory(directory),
    }
}
