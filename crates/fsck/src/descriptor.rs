//! A group descriptor, decoded.

use layout::group::GroupFlags;

/// The contents of a group descriptor. An invalid location is 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    pub(crate) free_blocks: u32,
    pub(crate) free_inodes: u32,
    pub(crate) directories: u32,
    /// Number of never used inodes at the end of the table.
    pub(crate) unused_inodes: u32,
    /// Checksums of the bitmaps.
    pub(crate) block_bitmap_checksum: u32,
    pub(crate) inode_bitmap_checksum: u32,
    pub(crate) flags: GroupFlags,
    /// True if the descriptor has a checksum: only then do its flags count.
    pub(crate) has_checksum: bool,
    /// True if the descriptor has a checksum, and it is right.
    pub(crate) is_sealed: bool,
}

impl Group {
    /// True if the block bitmap is not initialised, and must be computed. As in e2fsck, a
    /// descriptor with a wrong checksum does not count.
    pub(crate) fn lacks_block_bitmap(&self) -> bool {
        self.is_sealed && self.flags.contains(GroupFlags::BLOCK_UNINIT)
    }

    /// True if the inode bitmap and the inode table are not initialised: all inodes are free.
    pub(crate) fn lacks_inodes(&self) -> bool {
        self.has_checksum && self.flags.contains(GroupFlags::INODE_UNINIT)
    }

    /// Returns the number of inodes at the start of the table that may be in use, of all.
    pub(crate) fn initialized_inodes(&self, all: u32) -> u32 {
        if self.lacks_inodes() {
            0
        } else if self.has_checksum {
            all.saturating_sub(self.unused_inodes)
        } else {
            all
        }
    }
}
