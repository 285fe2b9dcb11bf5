//! What blocks of a volume are: superblocks, descriptors, bitmaps, tables, directories, maps, attributes, data.
//!
//! What lies at fixed places follows from the superblock and the group descriptors. Whose the others are is found by one pass over
//! the inode tables that follows each file's map as far as it can be followed: a pointer that cannot be hides what is behind it,
//! and nothing else. Nothing is mounted or written, so that a volume can be looked at through a view of its log.

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

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockUse {
    /// The superblock, or in other groups than 0 a copy of it.
    Superblock {
        /// The group that it lies in.
        group: GroupNr,
    },
    /// Group descriptors.
    Descriptors {
        /// The first group that it describes.
        first: GroupNr,
        /// The last one.
        last: GroupNr,
        /// The group that it lies in: in others than 0 it is a copy.
        group: GroupNr,
    },
    /// Kept for descriptors of groups that may come.
    DescriptorRoom {
        /// The group that it lies in.
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
        /// Its first inode.
        first: InodeNr,
        /// Its last inode.
        last: InodeNr,
    },
    /// Names in a directory.
    Directory {
        /// The directory.
        inode: InodeNr,
        /// Which of its blocks.
        file_block: FileBlock,
    },
    /// A part of the map of a file.
    Map {
        /// The file.
        inode: InodeNr,
        /// 1, 2 or 3: single, double or triple indirect.
        depth: u8,
    },
    /// Extended attributes.
    Attributes {
        /// The first inode that has them; others may share them.
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
        /// Which of its blocks.
        file_block: FileBlock,
    },
    /// Nobody's.
    Free,
    /// Taken, and nobody's who could be found; or not within the volume.
    Unknown,
}

/// What each of these blocks is.
///
/// # Errors
/// - Those of the superblock and the group descriptors, if they cannot be what they should.
/// - [`crate::Error::Device`] when the device fails.
pub fn census(
    device: &Arc<dyn BlockDevice>,
    blocks: impl IntoIterator<Item = BlockNr>,
) -> Result<BTreeMap<BlockNr, BlockUse>> {
    let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32)?;
    let superblock = Superblock::decode(&bytes, device.geometry().size_bytes)?;
    let tables = Tables::open(device, &superblock)?;
    let fixed = fixed::Fixed::of(&tables);
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
    let (group, index) = tables.geometry.group_of_block(block);
    let bitmap = tables.block(tables.groups[group.index()].block_bitmap)?;
    Ok(!is_set(&bitmap, index))
}

#[cfg(test)]
mod tests;
