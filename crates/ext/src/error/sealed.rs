//! Structures that carry a checksum.

use core::fmt;

use layout::{BlockNr, GroupNr, InodeNr};

/// A structure with a checksum, and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sealed {
    /// The superblock.
    Superblock,
    /// A group descriptor.
    Descriptor {
        /// The group.
        group: GroupNr,
    },
    /// A group's block bitmap.
    BlockBitmap {
        /// The group.
        group: GroupNr,
    },
    /// A group's inode bitmap.
    InodeBitmap {
        /// The group.
        group: GroupNr,
    },
    /// An inode of the table.
    Inode {
        /// The inode.
        inode: InodeNr,
    },
    /// A block of a directory.
    Directory {
        /// The directory.
        inode: InodeNr,
        /// The block on the device.
        block: BlockNr,
    },
    /// A block of an extent tree.
    Extents {
        /// The file.
        inode: InodeNr,
        /// The block on the device.
        block: BlockNr,
    },
    /// A block of extended attributes.
    Attributes {
        /// The block on the device.
        block: BlockNr,
    },
    /// A block of the orphan file.
    Orphans {
        /// The orphan file.
        inode: InodeNr,
        /// The block on the device.
        block: BlockNr,
    },
}

impl Sealed {
    /// Returns the inode that the structure belongs to, if there is one.
    pub(super) fn inode(&self) -> Option<InodeNr> {
        match self {
            Self::Inode { inode }
            | Self::Directory { inode, .. }
            | Self::Extents { inode, .. }
            | Self::Orphans { inode, .. } => Some(*inode),
            Self::Superblock
            | Self::Descriptor { .. }
            | Self::BlockBitmap { .. }
            | Self::InodeBitmap { .. }
            | Self::Attributes { .. } => None,
        }
    }

    /// Returns the block that the structure takes, if it is one of a file.
    pub(super) fn block(&self) -> Option<BlockNr> {
        match self {
            Self::Directory { block, .. }
            | Self::Extents { block, .. }
            | Self::Attributes { block }
            | Self::Orphans { block, .. } => Some(*block),
            Self::Superblock
            | Self::Descriptor { .. }
            | Self::BlockBitmap { .. }
            | Self::InodeBitmap { .. }
            | Self::Inode { .. } => None,
        }
    }
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superblock => f.write_str("superblock"),
            Self::Descriptor { group } => write!(f, "group {group}: descriptor"),
            Self::BlockBitmap { group } => write!(f, "group {group}: block bitmap"),
            Self::InodeBitmap { group } => write!(f, "group {group}: inode bitmap"),
            Self::Inode { inode } => write!(f, "inode {inode}"),
            Self::Directory { inode, block } => write!(f, "directory {inode}: block {block}"),
            Self::Extents { inode, block } => {
                write!(f, "inode {inode}: block {block} of the extent tree")
            }
            Self::Attributes { block } => write!(f, "extended attributes: block {block}"),
            Self::Orphans { block, .. } => write!(f, "orphan file: block {block}"),
        }
    }
}
