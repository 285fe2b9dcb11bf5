//! Workloads in which every freed block is used again at once: a volume with a handful of free blocks, and few places on
//! it, that are files, directories and nothing in turn, with journaled data and without, while the transactions that held
//! the blocks before are still in the log.
//!
//! This is where revokes matter, and what is freed by whom and since when: a block that was a directory, a map or
//! journaled data becomes a file's within the next transactions.

use block::random::SplitMix;

use super::stress::{NEARLY_WRAPPED, directory_path, ops};
use crate::model::Tree;
use crate::op::{Op, Path};
use crate::run::Workload;
use crate::setting::{CHECKSUMS, Cell, Schedule, Setting};

/// Free blocks: enough for the directories of all lanes, and some more.
const FREE_BLOCKS_MIN: u64 = 10;
const FREE_BLOCKS_MORE: u64 = 20;
/// Blocks of a lane's directories.
const LANE_BLOCKS: u64 = 6;
const LANES_MAX: u64 = 3;
const OPS: usize = 40;
/// Directories and files of a lane.
const DIRECTORIES: u64 = 2;
const FILES: u64 = 2;
/// The largest write, in sectors: beyond the direct blocks where it is an append to another.
const WRITE_SECTORS_MAX: u64 = 16;

/// A workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let mut chance = |one_in| random.below(one_in) == 0;
    let (wraps, writes, is_dirty, is_wide, is_alone) =
        (chance(2), chance(3), chance(4), chance(4), chance(2));
    let lanes = if is_alone {
        1
    } else {
        2 + random.below(LANES_MAX - 1)
    };
    let schedule = match (is_alone, random.below(2)) {
        (true, _) => Schedule::Fair,
        (false, 0) => Schedule::Random(seed),
        (false, _) => Schedule::Pct(seed),
    };
    let usual = Setting::new(cell);
    let setting = Setting {
        tid: if wraps {
            NEARLY_WRAPPED + random.below(16) as u32
        } else {
            usual.tid
        },
        writer_ms: if writes { 500 + random.below(2000) } else { 0 },
        free_blocks: (FREE_BLOCKS_MIN + lanes * LANE_BLOCKS + random.below(FREE_BLOCKS_MORE))
            as u32,
        lanes: lanes as u32,
        checksums: CHECKSUMS[random.below(CHECKSUMS.len() as u64) as usize],
        is_wide,
        is_dirty,
        schedule,
        ..usual
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

fn choose(lane: usize, _tree: &Tree, random: &mut SplitMix) -> Op {
    let any = |random: &mut SplitMix| -> Path {
        // Half of all happens in one place, so that things happen to what other things happened to.
        let (directory, file) = match random.below(2) {
            0 => (0, 0),
            _ => (random.below(DIRECTORIES), random.below(FILES)),
        };
        format!("{}/f{file}", directory_path(lane, directory)).into()
    };
    let (path, other) = (any(random), any(random));
    let count = 1 + random.below(WRITE_SECTORS_MAX) as u32;
    match random.below(30) {
        0..=2 => Op::Create(path),
        3..=5 => Op::Mkdir(path),
        6..=8 => Op::Rmdir(path),
        9..=11 => Op::Unlink(path),
        12..=14 => Op::Append(path, count),
        15..=17 => Op::Write(path, 0, count),
        18 => Op::Truncate(path, random.below(2) * 1500),
        19 => Op::Rename(path, other),
        20 | 21 => Op::Journaled(path, true),
        22 | 23 => Op::Journaled(path, false),
        24 | 25 => Op::Fsync(path),
        26 => Op::Fdatasync(path),
        27 => Op::SyncDirectory(directory_path(lane, random.below(DIRECTORIES))),
        _ => Op::Sync,
    }
}
