//! Workloads on files in many pieces: every second block is written beforehand, so that the block
//! map of a file is a tree whose nodes are about to overflow. Then pieces are added, joined, split
//! and taken away, and handles restart in some of them.

use rt::split_mix::SplitMix;

use super::stress::{DIRECTORIES, LOG_BLOCKS_MIN, directories, directory_path, ops_after};
use crate::image::BLOCK_SECTORS;
use crate::mode::Structures;
use crate::model::Tree;
use crate::op::{How, Op, Path};
use crate::setting::{CLUSTER_BLOCKS, Cell, Schedule, Setting};
use crate::workload::Workload;

const LANES_MAX: u64 = 2;
const OPS: usize = 28;
const FILES: u64 = 2;
/// Numbers of pieces of the first file: around the entries of an inode (4) and of a node (84).
const PIECES: [u32; 8] = [3, 4, 5, 40, 83, 84, 85, 88];
/// Number of blocks of a piece without data.
const UNWRITTEN_BLOCKS: u32 = 3;
/// Maximum size of a range in blocks.
const RANGE_BLOCKS_MAX: u64 = 12;
/// Handles restart at every request for more credits or at every n-th, up to this number.
const EVERY_MAX: u64 = 4;
/// Number of free blocks of a volume that is soon full, besides those of the pieces: of the
/// directories and the tree, and a few.
const FREE_BLOCKS_MIN: u64 = 4;
const FREE_BLOCKS_MORE: u64 = 12;

/// Returns a workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let lanes = 1 + random.below(LANES_MAX);
    let is_full = lanes == 1 && random.below(3) == 0;
    let is_restarting = random.below(2) == 0;
    // The lanes keep step: one count for all.
    let pieces = Pieces {
        count: PIECES[random.below(PIECES.len() as u64) as usize],
        // The volume has room for one such file.
        blocks: match (lanes, random.below(2)) {
            (1, 0) => UNWRITTEN_BLOCKS,
            _ => 1,
        },
    };
    let setting = Setting {
        log_blocks: LOG_BLOCKS_MIN,
        lanes: lanes as u32,
        free_blocks: match is_full {
            true => {
                let more = FREE_BLOCKS_MIN + random.below(FREE_BLOCKS_MORE);
                pieces.space(cell, more as u32)
            }
            false => 0,
        },
        restart_every: match is_restarting {
            true => 1 + random.below(EVERY_MAX) as u32,
            false => 0,
        },
        schedule: match (lanes, random.below(2)) {
            (1, _) => Schedule::Fair,
            (_, 0) => Schedule::Random(seed),
            (_, _) => Schedule::Pct(seed),
        },
        ..Setting::new(cell)
    };
    let mut prepared = Vec::new();
    let lanes = (0..lanes as usize).map(|lane| {
        let mut beginning = directories(lane);
        beginning.extend(pieces.ops(lane));
        prepared.push(beginning.len());
        ops_after(lane, beginning, OPS / lanes as usize, &mut random, choose)
    });
    let lanes = lanes.collect();
    Workload {
        setting,
        prepared,
        lanes,
    }
}

/// The pieces of a file, with a hole of a block between two.
#[derive(Clone, Copy)]
struct Pieces {
    count: u32,
    /// Number of blocks of a piece: one that is written, or some that are only allocated.
    blocks: u32,
}

impl Pieces {
    /// Returns the number of blocks that the pieces and `more` blocks elsewhere take: the holes
    /// between pieces are in their clusters, and each other block takes a cluster.
    fn space(self, cell: Cell, more: u32) -> u32 {
        match cell.structures {
            Structures::Clustered => {
                let all = self.count * (self.blocks + 1);
                all.next_multiple_of(CLUSTER_BLOCKS) + more * CLUSTER_BLOCKS
            }
            _ => self.count * self.blocks + more,
        }
    }

    /// Returns the operations that make the first file of a lane.
    fn ops(self, lane: usize) -> Vec<Op> {
        let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
        let block = BLOCK_SECTORS as u32;
        let create = core::iter::once(Op::Create(path.clone()));
        let pieces = (0..self.count).map(|number| {
            let (at, sectors) = (number * (self.blocks + 1) * block, self.blocks * block);
            match self.blocks {
                1 => Op::Write(path.clone(), at, sectors),
                _ => Op::Allocate(path.clone(), at, sectors),
            }
        });
        create.chain(pieces).collect()
    }
}

fn choose(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    // The first file is the one in pieces.
    let directory = directory_path(lane, random.below(4) / 3 % DIRECTORIES);
    let path: Path = format!("{directory}/f{}", random.below(4) / 3 % FILES).into();
    let other: Path = format!("{directory}/f{}", random.below(FILES)).into();
    let Some(sectors) = tree.find(&path).and_then(|id| tree.sectors(id)) else {
        return Op::Create(path);
    };
    let block = BLOCK_SECTORS as u64;
    let blocks = (sectors.len() as u64).div_ceil(block);
    let at = |more: u64, random: &mut SplitMix| (random.below(blocks + more) * block) as u32;
    let count = |random: &mut SplitMix| match random.below(3) {
        0 => block as u32,
        _ => ((1 + random.below(RANGE_BLOCKS_MAX)) * block) as u32,
    };
    match random.below(24) {
        // Into a gap or over a piece, whole blocks or parts.
        0..=4 => Op::Write(path, at(4, random), count(random)),
        5 => Op::Write(path, at(4, random) + 1, 1 + random.below(5) as u32),
        // Before everything, or far behind.
        6 => Op::Write(path, 0, block as u32),
        7 => Op::Write(path, at(40, random), block as u32),
        8..=10 => Op::Allocate(path, at(8, random), count(random)),
        11 | 12 => Op::Zero(path, at(4, random), count(random)),
        13..=16 => Op::Punch(path, at(1, random), count(random)),
        17 => Op::Truncate(
            path,
            random.below(blocks + 4) * 1024 + random.below(2) * 700,
        ),
        18 => Op::WriteAs(How::Direct, path, at(4, random), count(random)),
        19 => Op::Journaled(path, random.below(3) > 0),
        20 => Op::Fsync(path),
        21 => Op::Fdatasync(path),
        22 => match random.below(3) {
            0 => Op::Unlink(path),
            1 => Op::Rename(other, path),
            _ => Op::Append(path, count(random)),
        },
        _ => Op::Sync,
    }
}

#[cfg(test)]
mod tests {
    use crate::setting::CELLS_CLUSTERED;
    use crate::volumes::Volumes;

    use super::*;

    /// A volume that is soon full has room for what is there before the recording.
    #[test]
    fn pieces_fit_full_volumes_of_clusters() {
        let mut volumes = Volumes::default();
        let mut full = 0;
        for seed in 0..60 {
            let mut workload = workload(CELLS_CLUSTERED[0], seed);
            workload.setting = workload.setting.fitting();
            if workload.setting.free_blocks > 0 {
                full += 1;
                let prepared = volumes.prepared(&workload).map(drop);
                prepared.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
        }
        assert!(full > 5, "{full}");
    }
}
