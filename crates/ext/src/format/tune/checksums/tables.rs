//! Checksums of the inodes in their tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::BlockDevice;
use layout::inode::{Inode, InodeFlags};
use layout::{Block, GroupNr, InodeNr};
use zerocopy::FromBytes;

use super::Conversion;
use crate::disk::superblock::Superblock;
use crate::disk::tables::{GroupPlaces, Tables};
use crate::error::Result;

/// Number of blocks of a table read and written at a time.
const BATCH_BLOCKS: u32 = 256;

/// Writes the inodes of all tables that were ever used: with a checksum, and some without the mark
/// of an index.
pub(super) fn convert(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    conversion: &Conversion,
    without_index: &BTreeSet<InodeNr>,
) -> Result<()> {
    if !conversion.writes_all() && without_index.is_empty() {
        return Ok(());
    }
    let tables = Tables::open(device, superblock)?;
    for places in &tables.groups {
        convert_table(device, superblock, conversion, places, without_index)?;
    }
    Ok(device.flush()?)
}

fn convert_table(
    device: &Arc<dyn BlockDevice>,
    superblock: &Superblock,
    conversion: &Conversion,
    places: &GroupPlaces,
    without_index: &BTreeSet<InodeNr>,
) -> Result<()> {
    let geometry = &superblock.geometry;
    let size = usize::from(geometry.inode_bytes);
    let per_block = geometry.block_bytes / u32::from(geometry.inode_bytes);
    let inodes = places.inodes.min(geometry.inodes_per_group);
    let end = inodes.div_ceil(per_block);
    let mut next = 0;
    while next < end {
        let count = BATCH_BLOCKS.min(end - next);
        let start = geometry.byte_offset(places.inode_table + u64::from(next));
        let mut blocks = device.read_blocks(start, count, geometry.block_bytes)?;
        for (nth, image) in (next..).zip(&mut blocks) {
            let block: &mut Block = Arc::make_mut(image);
            let last = (inodes - nth * per_block).min(per_block) as usize;
            for (index, bytes) in (0..).zip(block.chunks_exact_mut(size).take(last)) {
                let nr = inode_at(superblock, places.group, nth * per_block + index);
                convert_inode(conversion, nr, bytes, without_index.contains(&nr));
            }
        }
        device.write_blocks(start, blocks)?;
        next += count;
    }
    Ok(())
}

fn inode_at(superblock: &Superblock, group: GroupNr, index: u32) -> InodeNr {
    InodeNr::new(group.get() * superblock.geometry.inodes_per_group + index + 1)
}

/// Changes one inode. One that was never written stays without a checksum, and one that is damaged
/// keeps a wrong one.
fn convert_inode(conversion: &Conversion, nr: InodeNr, bytes: &mut [u8], loses_index: bool) {
    let is_unused = bytes.iter().all(|byte| *byte == 0);
    if is_unused || conversion.from.check_inode(nr, bytes).is_err() {
        return;
    }
    if loses_index {
        let (base, _) = Inode::mut_from_prefix(bytes).expect("an inode has its base");
        base.set_flags(base.flags() - InodeFlags::INDEX);
    }
    conversion.to.seal_inode(nr, bytes);
}
