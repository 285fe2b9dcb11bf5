//! The feature of a volume with files above 2 GiB.

use std::sync::Arc;

use jbd2::Buffer;
use layout::feature::ReadOnlyCompatible;
use rt::atomic::Ordering;

use crate::core::Core;
use crate::core::handle::Handle;
use crate::error::Result;

/// Largest size in bytes that does not need the feature `large_file`.
const SMALL_SIZE_MAX: u64 = 0x7FFF_FFFF;

/// Reads the superblock if a file of this size is the first to change it. The caller holds the
/// result until [`note_large_file`].
pub(super) fn hold_for_large_file(core: &Core, size: u64) -> Result<Option<Arc<Buffer>>> {
    let is_noted = size <= SMALL_SIZE_MAX || core.pages.has_large_file.load(Ordering::Relaxed);
    (!is_noted).then(|| core.hold_superblock()).transpose()
}

/// Sets the feature of the volume for the first file above 2 GiB (one credit).
pub(super) fn note_large_file(core: &Core, handle: &mut Handle<'_>, size: u64) -> Result<()> {
    if size <= SMALL_SIZE_MAX || core.pages.has_large_file.load(Ordering::Relaxed) {
        return Ok(());
    }
    core.with_superblock(handle, |raw| {
        let mut features = raw.features();
        features.read_only_compatible |= ReadOnlyCompatible::LARGE_FILE;
        raw.set_features(features);
    })?;
    handle.refuse("the volume gets the feature large_file");
    core.pages.has_large_file.store(true, Ordering::Relaxed);
    Ok(())
}
