//! Workloads on devices without room for blocks never written: sparse images on a full host, thin
//! devices. The [`sweep`](mod@crate::sweep) chooses the refused writes and the duration.

use rt::split_mix::{SplitMix, mix_pair};

use super::{laps, passing, stress, tight};
use crate::setting::Cell;
use crate::workload::Workload;

/// Returns a workload by its seed: with long and short logs, with and without a background writer.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    match SplitMix::new(mix_pair(seed, 1)).below(6) {
        0 | 1 => passing::workload(cell, seed),
        2 | 3 => stress::workload(cell, seed),
        4 => tight::workload(cell, seed),
        _ => laps::workload(cell, seed),
    }
}
