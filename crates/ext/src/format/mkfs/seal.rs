//! The last word on a volume that was made and filled: it says that nobody has mounted it yet, and when it was written.

use std::sync::Arc;

use block::BlockDevice;
use layout::superblock as disk;

use crate::disk::superblock::{Superblock, split_time};
use crate::error::Result;

/// Makes the superblock of a filled volume that of one which was never mounted.
///
/// # Errors
/// [`crate::Error::Device`] when the device fails.
pub fn seal(device: &Arc<dyn BlockDevice>, seconds: i64) -> Result<()> {
    let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32)?;
    let mut superblock = Superblock::decode(&bytes, device.geometry().size_bytes)?;
    superblock.raw.s_mnt_count.set(0);
    (superblock.raw.s_mtime, superblock.raw.s_mtime_hi) = split_time(0);
    superblock.note_write(seconds);
    device.write_blocks(disk::OFFSET, vec![superblock.encode().into_arc()])?;
    device.flush()?;
    Ok(())
}
