//! Workloads in which every freed block is reused at once: a volume with a handful of free blocks,
//! and few places, which are files, directories and empty in turn, with and without journaled data,
//! while the transactions that held the blocks before are still in the log.
//!
//! They test revokes, and the owner and time of each release: a block of a directory, a block map
//! or journaled data becomes a file's within the next transactions. One workload in three is a
//! *duel*: one client frees blocks, another one allocates them past the cache, and a third one
//! syncs, so that the transaction that freed them is being written to the log.

use rt::split_mix::SplitMix;

use super::stress::{NEARLY_WRAPPED, directory_path, ops};
use crate::image::BLOCK_SECTORS;
use crate::model::Tree;
use crate::op::{How, Op, Path};
use crate::setting::{CHECKSUMS, Cell, Schedule, Setting, Synchronous};
use crate::workload::Workload;

/// Minimum number of free blocks: enough for the directories of all lanes, and some more.
const FREE_BLOCKS_MIN: u64 = 6;
const FREE_BLOCKS_MORE: u64 = 16;
/// Maximum number of free blocks of a duel in addition to those of its directories: one client
/// allocates the blocks that the other has just freed.
const DUEL_BLOCKS: u64 = 10;
/// Number of blocks for each lane.
const LANE_BLOCKS: u64 = 6;
const LANES_MAX: u64 = 3;
const OPS: usize = 40;
/// One workload in this number discards freed blocks. A discarded block no longer shows its last
/// owner.
const DISCARDS_ONE_IN: u64 = 4;
/// Numbers of directories and files of a lane.
const DIRECTORIES: u64 = 2;
const FILES: u64 = 2;
/// Maximum size of a write in sectors: two appends reach beyond the direct blocks.
const WRITE_SECTORS_MAX: u64 = 16;

/// Returns a workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut random = SplitMix::new(seed);
    let mut chance = |one_in| random.below(one_in) == 0;
    let (wraps, writes, is_dirty, is_wide) = (chance(2), chance(3), chance(4), chance(4));
    let (is_duel, is_alone) = (chance(3), chance(2));
    let lanes = match (is_duel, is_alone) {
        (true, _) => DUEL.len() as u64,
        (false, true) => 1,
        (false, false) => 2 + random.below(LANES_MAX - 1),
    };
    // A duel needs frequent switches: with priorities, the syncing client always runs first, or
    // always last.
    let schedule = match (lanes, random.below(2)) {
        (1, _) => Schedule::Fair,
        (_, 1) if !is_duel => Schedule::Pct(seed),
        _ => Schedule::Random(seed),
    };
    let usual = Setting::new(cell);
    let setting = Setting {
        tid: if wraps {
            NEARLY_WRAPPED + random.below(16) as u32
        } else {
            usual.tid
        },
        writer_ms: if writes { 500 + random.below(2000) } else { 0 },
        free_blocks: if is_duel {
            lanes * DIRECTORIES + 1 + random.below(DUEL_BLOCKS)
        } else {
            FREE_BLOCKS_MIN + lanes * LANE_BLOCKS + random.below(FREE_BLOCKS_MORE)
        } as u32,
        lanes: lanes as u32,
        synchronous: match random.below(6) {
            _ if is_duel => Synchronous::No,
            0 => Synchronous::Directories,
            1 | 2 => Synchronous::All,
            _ => Synchronous::No,
        },
        checksums: CHECKSUMS[random.below(CHECKSUMS.len() as u64) as usize],
        is_wide,
        is_dirty,
        schedule,
        is_discarding: seed.is_multiple_of(DISCARDS_ONE_IN),
        ..usual
    };
    let count = if is_duel {
        DUEL_OPS
    } else {
        OPS / lanes as usize
    };
    let weights = match random.below(3) {
        0 => Weights::SWITCHES,
        _ => Weights::draw(&mut random),
    };
    let choose = |lane: usize, tree: &Tree, random: &mut SplitMix| {
        if is_duel {
            DUEL[lane](lane, tree, random)
        } else {
            choose(lane, &weights, random)
        }
    };
    let lanes = (0..lanes as usize).map(|lane| ops(lane, count, &mut random, choose));
    let lanes: Vec<Vec<Op>> = lanes.collect();
    Workload {
        setting,
        prepared: vec![DIRECTORIES as usize; lanes.len()],
        lanes,
    }
}

/// The operations of the clients of a duel.
const DUEL: [fn(usize, &Tree, &mut SplitMix) -> Op; 3] = [give, take, |_, _, _| Op::Sync];
/// Number of operations of each client of a duel.
const DUEL_OPS: usize = 12;
/// Maximum size in sectors of the file of the taking client.
const TAKEN_MAX: usize = 20;

/// Creates a file, writes to it, and deletes or truncates it, repeatedly.
fn give(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
    match sectors(tree, &path) {
        None => Op::Create(path),
        Some(0) => Op::Write(path, 0, WRITE_SECTORS_MAX as u32),
        Some(_) if random.below(2) == 0 => Op::Truncate(path, 0),
        Some(_) => Op::Unlink(path),
    }
}

/// Extends a file past the cache by whole blocks, until it is deleted.
fn take(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
    match sectors(tree, &path) {
        None => Op::Create(path),
        Some(count) if count < TAKEN_MAX => {
            let blocks = 1 + random.below(3) as u32;
            Op::WriteAs(
                How::Direct,
                path,
                count as u32,
                blocks * BLOCK_SECTORS as u32,
            )
        }
        Some(_) => Op::Unlink(path),
    }
}

/// Returns the length of a file in sectors.
fn sectors(tree: &Tree, path: &Path) -> Option<usize> {
    let id = tree.find(path)?;
    Some(tree.sectors(id)?.len())
}

/// The frequency of each operation in a workload: drawn for each workload, so that some repeat a
/// few operations and others use all (Groce et al., "Swarm Testing", ISSTA 2012).
struct Weights([u64; WORDS]);

/// Number of words of the generator.
const WORDS: usize = 12;
/// The possible weights.
const WEIGHTS: [u64; 4] = [0, 1, 2, 6];
/// Indices of the indispensable ones: creating files, writing to them, syncing.
const NEEDED: [usize; 3] = [0, 4, 10];

impl Weights {
    /// Files enter and leave data journaling repeatedly, and are written to and synced in between.
    const SWITCHES: Self = Self([2, 0, 0, 1, 5, 1, 1, 0, 5, 3, 2, 0]);

    fn draw(random: &mut SplitMix) -> Self {
        let mut weights = [0; WORDS];
        for weight in &mut weights {
            *weight = WEIGHTS[random.below(WEIGHTS.len() as u64) as usize];
        }
        for needed in NEEDED {
            weights[needed] = weights[needed].max(2);
        }
        Self(weights)
    }

    fn choose(&self, random: &mut SplitMix) -> usize {
        let mut left = random.below(self.0.iter().sum());
        let is_it = |weight: &u64| {
            let is_it = left < *weight;
            left = left.saturating_sub(*weight);
            is_it
        };
        self.0.iter().position(is_it).unwrap_or(0)
    }
}

fn choose(lane: usize, weights: &Weights, random: &mut SplitMix) -> Op {
    let any = |random: &mut SplitMix| -> Path {
        // Half of the operations concern one place, so that changes build on earlier ones.
        let (directory, file) = match random.below(2) {
            0 => (0, 0),
            _ => (random.below(DIRECTORIES), random.below(FILES)),
        };
        format!("{}/f{file}", directory_path(lane, directory)).into()
    };
    let (path, other) = (any(random), any(random));
    let count = 1 + random.below(WRITE_SECTORS_MAX) as u32;
    match weights.choose(random) {
        0 => Op::Create(path),
        1 => Op::Mkdir(path),
        2 => Op::Rmdir(path),
        3 => Op::Unlink(path),
        4 => Op::Write(path, 0, count),
        5 => Op::Append(path, count),
        6 => match random.below(3) {
            0 => Op::Truncate(path, 0),
            1 => Op::Truncate(path, 1500),
            _ => Op::Punch(path, random.below(4) as u32, count),
        },
        7 => Op::Rename(path, other),
        8 => Op::Journaled(path, random.below(2) == 0),
        9 => Op::Fsync(path),
        10 => Op::Sync,
        _ => match random.below(2) {
            0 => Op::Fdatasync(path),
            _ => Op::SyncDirectory(directory_path(lane, random.below(DIRECTORIES))),
        },
    }
}
