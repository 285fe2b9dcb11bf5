//! Workloads whose devices fail: short ones, long ones, and ones in which everything is durable at
//! once while a writer works. Which commands fail is up to the [`sweep`](mod@crate::sweep).

use rt::split_mix::{SplitMix, mix_pair};

use super::exhaustive::Orbits;
use super::{stress, tight};
use crate::setting::{Cell, Setting, Synchronous};
use crate::workload::Workload;

/// The longest pause of the writer where it races with synchronous writes, in milliseconds.
const WRITER_MS_MAX: u64 = 1200;

/// A workload by its seed.
pub fn workload(cell: Cell, orbits: &Orbits, seed: u64) -> Workload {
    let mut random = SplitMix::new(mix_pair(seed, 1));
    match random.below(4) {
        0 => orbits.workload(random.below(orbits.workload_count()), Setting::new(cell)),
        1 => tight::workload(cell, seed),
        2 => {
            let mut workload = stress::workload(cell, seed);
            workload.setting.synchronous = Synchronous::All;
            workload.setting.writer_ms = 1 + random.below(WRITER_MS_MAX);
            workload
        }
        _ => stress::workload(cell, seed),
    }
}
