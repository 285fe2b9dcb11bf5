//! A look at the superblock of a volume that is not open.

use jext::BlockDevice;
use layout::feature::Incompatible;
use layout::superblock::{MAGIC, OFFSET, SIZE, Superblock};
use zerocopy::FromBytes;

/// Returns the superblock on a device, unchecked apart from its magic number.
pub(crate) fn superblock(device: &dyn BlockDevice) -> Option<Superblock> {
    let bytes = device.read_block(OFFSET, SIZE as u32).ok()?;
    let (superblock, _) = Superblock::read_from_prefix(&bytes).ok()?;
    (superblock.magic.get() == MAGIC).then_some(superblock)
}

/// Returns true if the journal of the file system on a device has to be replayed.
pub(crate) fn needs_recovery(device: &dyn BlockDevice) -> bool {
    superblock(device).is_some_and(|superblock| {
        let incompatible = superblock.features().incompatible;
        incompatible.contains(Incompatible::NEEDS_RECOVERY)
            && !incompatible.contains(Incompatible::JOURNAL_DEV)
    })
}
