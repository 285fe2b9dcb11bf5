//! Volumes without a journal after a power cut: e2fsck repairs them.

use super::sample::Sample;
use super::{Counts, Difference};
use crate::replay;
use crate::unjournaled::check_repaired;

/// Lets e2fsck repair a sample, and checks that synced data is still there.
pub(super) fn check(sample: &Sample) -> Result<Counts, Box<Difference>> {
    let (histories, bounds) = replay::promises(&sample.recording, &sample.id.cuts[0]);
    let synced_files = check_repaired(&histories, &bounds, &sample.disks)
        .map_err(|broken| sample.difference(broken))?;
    Ok(Counts {
        repaired: 1,
        synced_files,
        ..Counts::default()
    })
}
