//! Workloads in which every freed block is used again at once: a volume with a handful of free blocks, and few places on
//! it, that are files, directories and nothing in turn, with journaled data and without, while the transactions that held
//! the blocks before are still in the log.
//!
//! This is where revokes matter, and what is freed by whom and since when: a block that was a directory, a map or
//! journaled data becomes a file's within the next transactions. One workload in four is a duel on a synchronous volume: a
//! client gives blocks back, and another one takes them while the transaction that freed them is on its way to the log.

use block::random::SplitMix;

use super::stress::{NEARLY_WRAPPED, directory_path, ops};
use crate::model::Tree;
use crate::op::{Op, Path};
use crate::run::Workload;
use crate::setting::{CHECKSUMS, Cell, Schedule, Setting, Synchronous};

/// Free blocks: enough for the directories of all lanes, and some more.
const FREE_BLOCKS_MIN: u64 = 6;
const FREE_BLOCKS_MORE: u64 = 16;
/// Free blocks of a duel beside those of its directories, at most: what one client takes, the other has just given back.
const DUEL_BLOCKS: u64 = 10;
/// Blocks for each lane.
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
    let (wraps, writes, is_dirty, is_wide) = (chance(2), chance(3), chance(4), chance(4));
    let (is_duel, is_alone) = (chance(4), chance(2));
    let lanes = match (is_duel, is_alone) {
        (true, _) => 2,
        (false, true) => 1,
        (false, false) => 2 + random.below(LANES_MAX - 1),
    };
    let schedule = match (lanes, random.below(2)) {
        (1, _) => Schedule::Fair,
        (_, 0) if !is_duel => Schedule::Random(seed),
        _ => Schedule::Pct(seed),
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
            _ if is_duel => Synchronous::All,
            0 => Synchronous::Directories,
            1 | 2 => Synchronous::All,
            _ => Synchronous::No,
        },
        checksums: CHECKSUMS[random.below(CHECKSUMS.len() as u64) as usize],
        is_wide,
        is_dirty,
        schedule,
        ..usual
    };
    let count = OPS / lanes as usize;
    let weights = if is_duel {
        [Weights::GIVES, Weights::TAKES].to_vec()
    } else {
        vec![Weights::draw(&mut random); lanes as usize]
    };
    let choose =
        |lane: usize, _: &Tree, random: &mut SplitMix| choose(lane, &weights[lane], random);
    let lanes = (0..lanes as usize).map(|lane| ops(lane, count, &mut random, choose));
    let lanes: Vec<Vec<Op>> = lanes.collect();
    Workload {
        setting,
        prepared: vec![DIRECTORIES as usize; lanes.len()],
        lanes,
    }
}

/// How often a workload does what: drawn for each, so that some do a few things all the time and others everything (Groce
/// et al., "Swarm Testing", ISSTA 2012).
#[derive(Clone)]
struct Weights([u64; WORDS]);

/// Words of the generator.
const WORDS: usize = 12;
/// What a weight can be.
const WEIGHTS: [u64; 4] = [0, 1, 2, 6];
/// Those without which nothing happens: making files, writing to them, syncing.
const NEEDED: [usize; 3] = [0, 4, 10];

impl Weights {
    /// The client of a duel that makes files and deletes them.
    const GIVES: Self = Self([2, 0, 0, 3, 3, 0, 2, 0, 0, 0, 0, 0]);
    /// The one that writes to files.
    const TAKES: Self = Self([2, 0, 0, 1, 3, 4, 1, 0, 0, 0, 0, 0]);

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
        // Half of all happens in one place, so that things happen to what other things happened to.
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
        6 => Op::Truncate(path, random.below(2) * 1500),
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
