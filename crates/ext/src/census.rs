//! The use of each block of a volume: superblock, descriptors, bitmap, inode table, directory,
//! block map, attributes, data.
//!
//! The superblock and the group descriptors determine the blocks at fixed places. The owners of the
//! others are found by one pass over the inode tables that follows each file's block map; an
//! invalid pointer hides the blocks below it, and nothing else. The census mounts and writes
//! nothing, so that it also works on a volume seen through a view of its log.

mod fixed;
mod owners;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use block::BlockDevice;
use layout::superblock as disk;
use layout::{BlockNr, FileBlock, GroupNr, InodeNr};

use crate::disk::superblock::Superblock;
use crate::disk::tables::{Tables, is_set};
use crate::error::Result;

/// The use of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockUse {
    /// The superblock; a backup of it in groups other than 0.
    Superblock {
        /// The group that the block lies in.
        group: GroupNr,
    },
    /// Group descriptors.
    Descriptors {
        /// The first group described.
        first: GroupNr,
        /// The last group described.
        last: GroupNr,
        /// The group that the block lies in; it is a backup in groups other than 0.
        group: GroupNr,
    },
    /// A reserved GDT block.
    DescriptorRoom {
        /// The group that the block lies in.
        group: GroupNr,
    },
    /// The bitmap of a group's blocks.
    BlockBitmap {
        /// The group.
        group: GroupNr,
    },
    /// The bitmap of a group's inodes.
    InodeBitmap {
        /// The group.
        group: GroupNr,
    },
    /// A part of a group's inode table.
    InodeTable {
        /// The group.
        group: GroupNr,
        /// The first inode in the block.
        first: InodeNr,
        /// The last inode in the block.
        last: InodeNr,
    },
    /// Multiple mount protection.
    MultiMount,
    /// Directory entries.
    Directory {
        /// The directory.
        inode: InodeNr,
        /// The block's number in the directory.
        file_block: FileBlock,
    },
    /// An indirect block of a file.
    Map {
        /// The file.
        inode: InodeNr,
        /// 1, 2 or 3: single, double or triple indirect.
        depth: u8,
    },
    /// A node of a file's extent tree.
    ExtentNode {
        /// The file.
        inode: InodeNr,
        /// Number of levels below it: 0 for a leaf.
        depth: u8,
    },
    /// Extended attributes.
    Attributes {
        /// The first inode that refers to the block; others may share it.
        inode: InodeNr,
    },
    /// The target of a long symbolic link.
    LinkTarget {
        /// The link.
        inode: InodeNr,
    },
    /// Data of a file.
    Data {
        /// The file.
        inode: InodeNr,
        /// The block's number in the file.
        file_block: FileBlock,
    },
    /// A free block.
    Free,
    /// A block that is taken and has no known owner, or that lies beyond the volume.
    Unknown,
}

/// Returns the use of each of these blocks.
///
/// # Errors
/// - Errors of the superblock and the group descriptors, if they are invalid.
/// - [`crate::Error::Device`] if the device fails.
pub fn census(
    device: &Arc<dyn BlockDevice>,
    blocks: impl IntoIterator<Item = BlockNr>,
) -> Result<BTreeMap<BlockNr, BlockUse>> {
    let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32)?;
    let superblock = Superblock::decode(&bytes, device.geometry().size_bytes)?;
    let tables = Tables::open(device, &superblock)?;
    let fixed = fixed::Fixed::of(&tables, &superblock);
    let mut uses = BTreeMap::new();
    let mut wanted = BTreeSet::new();
    for block in blocks {
        if let Some(found) = fixed.find(block) {
            uses.insert(block, found);
        } else if is_free(&tables, block)? {
            uses.insert(block, BlockUse::Free);
        } else {
            wanted.insert(block);
        }
    }
    uses.extend(owners::find(&tables, wanted)?);
    Ok(uses)
}

fn is_free(tables: &Tables<'_>, block: BlockNr) -> Result<bool> {
    if !tables.geometry.contains(block) {
        return Ok(false);
    }
    let cluster = tables.geometry.cluster_of(block);
    let (group, index) = tables.geometry.group_of_cluster(cluster);
    let places = &tables.groups[group.index()];
    if places.lacks_block_bitmap {
        return Ok(true);
    }
    let bitmap = tables.block(places.block_bitmap)?;
    Ok(!is_set(&bitmap, index))
}

#[cfg(test)]
mod tests;
