//! Workloads of which one device command fails: a read, a flush, or a write, of which a part may have been done.

use block::random::SplitMix;

use super::stress;
use crate::fault::{Fault, KINDS};
use crate::run::Workload;
use crate::setting::{Cell, Place};

/// The last command of a kind that may fail; runs have about so many.
const NUMBER_MAX: u64 = 48;

/// A workload by its seed.
pub fn workload(cell: Cell, seed: u64) -> Workload {
    let mut workload = stress::workload(cell, seed);
    let mut random = SplitMix::new(seed ^ 1);
    let devices = match cell.place {
        Place::Internal => 1,
        Place::External => 2,
    };
    let (kind, _) = KINDS[random.below(KINDS.len() as u64) as usize];
    // Small numbers are more frequent: short runs have them, too.
    let most = 1 + random.below(NUMBER_MAX);
    workload.setting.fault = Some(Fault {
        kind,
        device: random.below(devices) as usize,
        number: 1 + random.below(most),
    });
    workload
}
