//! Workloads on failing devices: short ones, long ones, and ones on synchronous volumes with a
//! background writer. The [`sweep`](mod@crate::sweep) chooses the failing commands.

use rt::split_mix::{SplitMix, mix_pair};

use super::exhaustive::Orbits;
use super::{stress, tight};
use crate::setting::{Cell, Setting, Synchronous};
use crate::workload::Workload;

/// Maximum interval of the writer beside synchronous writes, in milliseconds.
const WRITER_MS_MAX: u64 = 1200;

/// Returns a workload by its seed.
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
