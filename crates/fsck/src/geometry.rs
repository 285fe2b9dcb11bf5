//! What follows from the superblock: sizes and places. Whoever holds a [`Geometry`] may calculate with it: it was checked
//! against itself and is bounded.

/// Sizes and places of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) block_bytes: usize,
    pub(crate) block_count: u64,
    /// The block of the first superblock: 1 with blocks of 1 KiB, else 0.
    pub(crate) first_block: u64,
    pub(crate) blocks_per_group: u32,
    pub(crate) group_count: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) inode_bytes: usize,
    /// Inodes of all groups.
    pub(crate) inode_count: u32,
    /// The first inode that is not reserved.
    pub(crate) first_inode: u32,
    /// Blocks kept free behind the descriptors, for more of them.
    pub(crate) reserved_descriptor_blocks: u32,
    pub(crate) has_sparse_super: bool,
}

impl Geometry {
    /// Whether a file may have this block: it exists and is not the boot block.
    #[inline]
    pub(crate) fn contains(&self, block: u64) -> bool {
        block >= self.first_block && block < self.block_count
    }

    /// A block's group, and its place in that.
    #[inline]
    pub(crate) fn place_of(&self, block: u64) -> (u32, u32) {
        let number = (block - self.first_block) as u32;
        (
            number / self.blocks_per_group,
            number % self.blocks_per_group,
        )
    }

    pub(crate) fn first_block_of(&self, group: u32) -> u64 {
        self.first_block + u64::from(group) * u64::from(self.blocks_per_group)
    }

    /// Blocks of a group; the last may have fewer.
    pub(crate) fn blocks_in(&self, group: u32) -> u32 {
        let left = self.block_count - self.first_block_of(group);
        left.min(self.blocks_per_group.into()) as u32
    }

    pub(crate) fn group_of_inode(&self, inode: u32) -> u32 {
        (inode - 1) / self.inodes_per_group
    }

    /// Whether there is such an inode.
    #[inline]
    pub(crate) fn has_inode(&self, inode: u32) -> bool {
        (1..=self.inode_count).contains(&inode)
    }

    pub(crate) fn byte_of(&self, block: u64) -> u64 {
        block * self.block_bytes as u64
    }

    /// Whether a group begins with copies of the superblock and the descriptors.
    pub(crate) fn has_super(&self, group: u32) -> bool {
        !self.has_sparse_super || layout::superblock::is_sparse_backup(group)
    }

    /// Blocks of the group descriptors.
    pub(crate) fn descriptor_blocks(&self) -> u32 {
        let per_block = (self.block_bytes / layout::group::SIZE) as u32;
        self.group_count.div_ceil(per_block)
    }

    /// Blocks at the start of a group that has copies: the superblock, the descriptors, and what is kept for more of them.
    pub(crate) fn super_blocks(&self) -> u32 {
        1 + self.descriptor_blocks() + self.reserved_descriptor_blocks
    }

    pub(crate) fn inodes_per_block(&self) -> u32 {
        (self.block_bytes / self.inode_bytes) as u32
    }

    /// Blocks of a group's inode table.
    pub(crate) fn inode_table_blocks(&self) -> u32 {
        let bytes = self.inodes_per_group as usize * self.inode_bytes;
        bytes.div_ceil(self.block_bytes) as u32
    }

    pub(crate) fn pointers_per_block(&self) -> usize {
        self.block_bytes / layout::inode::POINTER_SIZE
    }
}
