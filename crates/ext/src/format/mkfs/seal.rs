//! The final state of a volume that was created and filled: never mounted, and with the time of its
//! last write.

use std::sync::Arc;

use block::BlockDevice;
use layout::superblock as disk;

use crate::disk::superblock::{Superblock, split_time};
use crate::error::Result;

/// Marks the superblock of a filled volume as never mounted.
///
/// # Errors
/// [`crate::Error::Device`] if the device fails.
pub fn seal(device: &Arc<dyn BlockDevice>, seconds: i64) -> Result<()> {
    let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32)?;
    let mut superblock = Superblock::decode(&bytes, device.geometry().size_bytes)?;
    superblock.raw.mount_count.set(0);
    (superblock.raw.mount_time, superblock.raw.mount_time_high) = split_time(0);
    superblock.note_write(seconds);
    device.write_blocks(disk::OFFSET, vec![superblock.encode().into_arc()])?;
    device.flush()?;
    Ok(())
}
