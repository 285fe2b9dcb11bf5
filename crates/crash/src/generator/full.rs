//! Workloads on devices that have no room for what they never held: sparse images on a full host,
//! thin devices. Which writes are refused, and for how long, is up to the
//! [`sweep`](mod@crate::sweep).

use rt::split_mix::{SplitMix, mix_pair};

use super::{laps, passing, stress, tight};
use crate::setting::Cell;
use crate::workload::Workload;

/// A workload by its seed: long logs and short ones, with a background writer and without.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    match SplitMix::new(mix_pair(seed, 1)).below(6) {
        0 | 1 => passing::workload(cell, seed),
        2 | 3 => stress::workload(cell, seed),
        4 => tight::workload(cell, seed),
        _ => laps::workload(cell, seed),
    }
}
