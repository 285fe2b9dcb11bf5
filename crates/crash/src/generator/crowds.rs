//! Workloads beside a crowd, always under hostile schedules: the crowd's calls must return, and its
//! changes of names, links and numbers must be whole after every power cut.

use rt::split_mix::SplitMix;

use super::races::choose_racing;
use super::stress::{DIRECTORIES, LOG_BLOCKS_MIN, directory_path, ops};
use crate::crowd::{Crowd, Kind};
use crate::model::Tree;
use crate::op::{Op, Path};
use crate::setting::{Cell, Schedule, Setting};
use crate::workload::Workload;

const LANES_MAX: u64 = 2;
/// Number of operations of each client, and of rounds of the crowd.
const OPS: usize = 10;
/// One workload in this number has handles that restart wherever possible, at every request for
/// credits or at every n-th up to this number.
const RESTARTS_ONE_IN: u64 = 4;
const EVERY_MAX: u64 = 3;
/// Maximum size in sectors of a client's file beside a crowd that uses numbers.
const SECTORS_MAX: u64 = 12;

/// Returns a workload by its seed.
pub fn workload(cell: Cell, seed: u64, kind: Kind) -> Workload {
    let mut random = SplitMix::new(seed);
    let lanes = 1 + random.below(LANES_MAX) as usize;
    let setting = Setting {
        log_blocks: LOG_BLOCKS_MIN,
        lanes: lanes as u32,
        commit_ms: 1000 * random.below(2),
        restart_every: match random.below(RESTARTS_ONE_IN) {
            0 => 1 + random.below(EVERY_MAX) as u32,
            _ => 0,
        },
        schedule: match random.below(2) {
            0 => Schedule::Random(seed),
            _ => Schedule::Pct(seed),
        },
        crowd: Some(Crowd {
            kind,
            seed,
            rounds: OPS as u32,
        }),
        ..Setting::new(cell)
    };
    let choose = match kind {
        Kind::Numbers => change_one_file,
        Kind::Names | Kind::Listings => choose_racing,
    };
    // The file of each client is created before the recording: free numbers belong to the crowd.
    let prepared = DIRECTORIES as usize + usize::from(kind == Kind::Numbers);
    let count = OPS + prepared - DIRECTORIES as usize;
    let lanes = (0..lanes).map(|lane| ops(lane, count, &mut random, choose));
    let lanes: Vec<Vec<Op>> = lanes.collect();
    Workload {
        setting,
        prepared: vec![prepared; lanes.len()],
        lanes,
    }
}

/// Changes the contents of the only file of a lane, or syncs.
fn change_one_file(lane: usize, tree: &Tree, random: &mut SplitMix) -> Op {
    let path: Path = format!("{}/f0", directory_path(lane, 0)).into();
    let Some(sectors) = tree.find(&path).and_then(|id| tree.sectors(id)) else {
        return Op::Create(path);
    };
    let count = sectors.len() as u64;
    match random.below(6) {
        0 | 1 => Op::Sync,
        2 => Op::Fsync(path),
        3 => Op::Truncate(path, random.below(count + 1) * 300),
        _ => Op::Write(path, random.below(SECTORS_MAX) as u32, 2),
    }
}
