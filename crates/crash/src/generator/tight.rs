//! Workloads in which blocks are soon reused, as metadata, data and journaled data: one lane with
//! few free blocks that creates and removes directories and files, switches data journaling of
//! files, and syncs often. Some volumes are mounted `sync` or `dirsync`, and some directories are
//! `dirsync`.

use rt::split_mix::SplitMix;

use super::stress::{DIRECTORIES, FEW_BLOCKS, FILES, LOG_BLOCKS_MIN, choose, directory_path, ops};
use crate::model::Tree;
use crate::op::{Op, Path};
use crate::setting::{Cell, Setting, Synchronous};
use crate::workload::Workload;

const OPS: usize = 40;

/// Returns a workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let usual = Setting::new(cell);
    let setting = Setting {
        log_blocks: LOG_BLOCKS_MIN,
        free_blocks: (FEW_BLOCKS + random.below(2 * FEW_BLOCKS)) as u32,
        synchronous: match random.below(6) {
            0 => Synchronous::Directories,
            1 => Synchronous::All,
            _ => Synchronous::No,
        },
        ..usual
    };
    Workload {
        setting,
        prepared: vec![DIRECTORIES as usize],
        lanes: vec![ops(0, OPS, &mut random, choose_tight)],
    }
}

fn choose_tight(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let directory = directory_path(lane, random.below(DIRECTORIES));
    let path: Path = format!("{directory}/f{}", random.below(FILES)).into();
    match random.below(16) {
        0 => Op::Mkdir(path),
        1 => Op::Rmdir(path),
        2 | 3 => Op::Unlink(path),
        4 => Op::Journaled(path, true),
        5 => Op::Journaled(path, false),
        6 => Op::Write(path, 0, 2),
        7 => Op::Fdatasync(path),
        8 => Op::Dirsync(directory, random.below(3) > 0),
        _ => choose(lane, tree, random),
    }
}
