//! The superblock on its device.

use std::sync::Arc;

use block::BlockDevice;

use super::Superblock;
use crate::error::{Corrupt, Result};

/// Offset of the superblock, in bytes from the start of the device.
pub(crate) const SUPERBLOCK_OFFSET: u64 = 1024;
/// Size of the superblock in bytes.
pub(crate) const SUPERBLOCK_BYTES: u32 = 1024;

/// Reads and decodes the superblock.
pub(crate) fn read(device: &Arc<dyn BlockDevice>) -> Result<Superblock> {
    read_with(device, Superblock::decode)
}

/// Reads and decodes the superblock of a volume whose log may have a newer image of it.
pub(crate) fn read_before_replay(device: &Arc<dyn BlockDevice>) -> Result<Superblock> {
    read_with(device, Superblock::decode_before_replay)
}

fn read_with(
    device: &Arc<dyn BlockDevice>,
    decode: fn(&[u8], u64) -> Result<Superblock>,
) -> Result<Superblock> {
    let size = device.geometry().size_bytes;
    if size < SUPERBLOCK_OFFSET + u64::from(SUPERBLOCK_BYTES) {
        return Err(Corrupt::Superblock {
            field: "device size",
            value: size,
            why: "too small to hold a superblock",
        }
        .into());
    }
    let block = device.read_block(SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES)?;
    decode(&block, size)
}

/// Writes the superblock, durably.
pub(crate) fn write(device: &Arc<dyn BlockDevice>, superblock: &Superblock) -> Result<()> {
    let image = superblock.encode().into_arc();
    device.write_blocks(SUPERBLOCK_OFFSET, vec![image])?;
    device.flush()?;
    Ok(())
}
