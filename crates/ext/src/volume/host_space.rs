//! Reserving space behind the device when a volume is opened: a commit or checkpoint with reserved
//! space is never held for lack of it.
//!
//! Directory blocks and indirect blocks are not reserved, and a device may be unable to reserve
//! anything: then the journal holds blocks that the device has no room for (`jbd2`'s `hold`).

use core::ops::Range;

use block::{BlockDevice, DeviceError};
use jbd2::{Location, LogExtent};

use crate::core::Core;
use crate::disk::run::Run;
use crate::error::Result;
use crate::options::{HostSpace, MountOptions};

/// Reserves the log.
///
/// # Errors
/// Fails with [`DeviceError::NoSpace`] under `host_space=all`.
pub(super) fn reserve_log(log: Option<&Location>, options: &MountOptions) -> Result<()> {
    let Some(log) = log else { return Ok(()) };
    let block_bytes = u64::from(log.block_bytes);
    let bytes = |extent: &LogExtent| {
        let first = extent.first.get() * block_bytes;
        first..first + u64::from(extent.count) * block_bytes
    };
    let ranges: Vec<Range<u64>> = log.extents.iter().map(bytes).collect();
    reserve(&*log.device, &ranges, options)
}

/// Reserves the volume's metadata with the blocks of the orphan file, or the whole device.
///
/// # Errors
/// Fails with [`DeviceError::NoSpace`] under `host_space=all`.
pub(super) fn reserve_metadata(core: &Core, orphan_file: &[LogExtent]) -> Result<()> {
    let geometry = core.geometry();
    let ranges = if core.options.host_space == HostSpace::All {
        Vec::from([Range {
            start: 0,
            end: core.device.geometry().size_bytes,
        }])
    } else {
        let bytes = |run: Run| geometry.byte_offset(run.first)..geometry.byte_offset(run.end());
        let orphans = orphan_file.iter().map(|extent| Run {
            first: extent.first,
            count: extent.count,
        });
        merged(core.space.metadata().chain(orphans).map(bytes).collect())
    };
    reserve(&*core.device, &ranges, &core.options)
}

fn reserve(device: &dyn BlockDevice, ranges: &[Range<u64>], options: &MountOptions) -> Result<()> {
    if options.host_space == HostSpace::None || options.is_being_made {
        return Ok(());
    }
    match device.reserve(ranges) {
        Err(error @ DeviceError::NoSpace { .. }) if options.host_space == HostSpace::Metadata => {
            tracing::warn!(%error, "the volume's metadata has no space reserved");
            Ok(())
        }
        reserved => Ok(reserved?),
    }
}

/// Sorts ranges and merges neighbours.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_reserved_together() {
        let ranges = vec![8..12, 0..4, 4..6, 20..21, 11..13];
        assert_eq!(merged(ranges), [0..6, 8..13, 20..21]);
    }
}
