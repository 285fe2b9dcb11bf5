//! Sizes and locations derived from the superblock. A [`Geometry`] was checked for consistency and
//! is bounded, so that calculations with it cannot overflow.

use std::ops::Range;

use layout::superblock::Backups;

/// The sizes and locations of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) block_bytes: usize,
    pub(crate) block_count: u64,
    /// First block of the first group: 1 with blocks of 1 KiB and no larger clusters, else 0.
    pub(crate) first_block: u64,
    /// Logarithm of the number of blocks in a cluster: 0 without `bigalloc`.
    pub(crate) cluster_log: u32,
    pub(crate) blocks_per_group: u32,
    pub(crate) group_count: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) inode_bytes: usize,
    /// Number of inodes.
    pub(crate) inode_count: u32,
    /// First inode that is not reserved.
    pub(crate) first_inode: u32,
    /// Number of reserved GDT blocks.
    pub(crate) reserved_descriptor_blocks: u32,
    /// Size of a group descriptor in bytes: 32, or with `64bit` a larger power of two.
    pub(crate) descriptor_bytes: usize,
    /// The groups with copies of the superblock and the descriptors.
    pub(crate) backups: Backups,
    /// The first meta block group, at most one more than the last; `None` without `meta_bg`.
    pub(crate) first_meta_group: Option<u32>,
    /// True if the metadata of a group may lie in any group.
    pub(crate) has_flexible_groups: bool,
}

impl Geometry {
    /// True if a file may have this block: it exists and is not the boot block.
    #[inline]
    pub(crate) fn contains(&self, block: u64) -> bool {
        block >= self.first_block && block < self.block_count
    }

    /// Returns the group of a block, and its index in the group.
    #[inline]
    pub(crate) fn place_of(&self, block: u64) -> (u32, u32) {
        let number = block - self.first_block;
        let per_group = u64::from(self.blocks_per_group);
        ((number / per_group) as u32, (number % per_group) as u32)
    }

    /// Splits the blocks from `start` to before `end` into those of each group: the group, and the
    /// first and last index in it, the latter not included.
    pub(crate) fn pieces(
        &self,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
        let per_group = self.blocks_per_group;
        let mut left = end.saturating_sub(start);
        let (mut group, mut first) = if left == 0 {
            (0, 0)
        } else {
            self.place_of(start)
        };
        std::iter::from_fn(move || {
            let count = left.min(u64::from(per_group - first)) as u32;
            let piece = (group, first, first + count);
            left -= u64::from(count);
            (group, first) = (group + 1, 0);
            (count > 0).then_some(piece)
        })
    }

    pub(crate) fn first_block_of(&self, group: u32) -> u64 {
        self.first_block + u64::from(group) * u64::from(self.blocks_per_group)
    }

    /// Returns the number of blocks of a group; the last group may have fewer.
    pub(crate) fn blocks_in(&self, group: u32) -> u32 {
        let left = self.block_count - self.first_block_of(group);
        left.min(self.blocks_per_group.into()) as u32
    }

    /// Returns the cluster of an index of a block in its group.
    #[inline]
    pub(crate) fn cluster_at(&self, (group, index): (u32, u32)) -> (u32, u32) {
        (group, index >> self.cluster_log)
    }

    /// Returns the number of clusters of a group; the last group may have fewer.
    pub(crate) fn clusters_in(&self, group: u32) -> u32 {
        self.blocks_in(group) >> self.cluster_log
    }

    pub(crate) fn clusters_per_group(&self) -> u32 {
        self.blocks_per_group >> self.cluster_log
    }

    /// Returns the block of the primary superblock: 1 with blocks of 1 KiB, else 0.
    pub(crate) fn primary_superblock(&self) -> u64 {
        self.first_block + u64::from(self.boot_blocks(0))
    }

    /// Returns the number of blocks before a group's superblock: the boot block, if it belongs to
    /// the first group.
    fn boot_blocks(&self, group: u32) -> u32 {
        let has_boot_block = self.block_bytes == 1024 && self.first_block == 0;
        u32::from(group == 0 && has_boot_block)
    }

    pub(crate) fn group_of_inode(&self, inode: u32) -> u32 {
        (inode - 1) / self.inodes_per_group
    }

    /// True if the inode number is in range.
    #[inline]
    pub(crate) fn has_inode(&self, inode: u32) -> bool {
        (1..=self.inode_count).contains(&inode)
    }

    pub(crate) fn byte_of(&self, block: u64) -> u64 {
        block * self.block_bytes as u64
    }

    /// True if a group starts with copies of the superblock and the descriptors.
    pub(crate) fn has_super(&self, group: u32) -> bool {
        self.backups.has(group)
    }

    pub(crate) fn descriptors_per_block(&self) -> u32 {
        (self.block_bytes / self.descriptor_bytes) as u32
    }

    /// Returns the number of blocks of the group descriptors.
    pub(crate) fn descriptor_blocks(&self) -> u32 {
        self.group_count.div_ceil(self.descriptors_per_block())
    }

    /// Returns the number of descriptor blocks that follow each superblock. Those of the other meta
    /// block groups lie in their own groups.
    pub(crate) fn joint_descriptor_blocks(&self) -> u32 {
        self.first_meta_group.unwrap_or(self.descriptor_blocks())
    }

    /// Returns the descriptor blocks at the start of a group, behind the superblock if it has one.
    pub(crate) fn descriptor_blocks_in(&self, group: u32) -> Range<u32> {
        let (joint, per_block) = (self.joint_descriptor_blocks(), self.descriptors_per_block());
        let (index, nth) = (group / per_block, group % per_block);
        if index < joint {
            0..if self.has_super(group) { joint } else { 0 }
        } else if nth < 2 || nth == per_block - 1 {
            index..index + 1
        } else {
            index..index
        }
    }

    /// Returns the first block of a group behind its superblock, if it has one.
    pub(crate) fn first_descriptor_in(&self, group: u32) -> u64 {
        let before = self.boot_blocks(group) + u32::from(self.has_super(group));
        self.first_block_of(group) + u64::from(before)
    }

    /// Returns the location of a descriptor block. With `copy`, the block of the superblock in use
    /// if it is a backup, it is that of a copy: behind that superblock, or in the second group of
    /// the meta block group, if there is one.
    pub(crate) fn descriptor_block(&self, index: u32, copy: Option<u64>) -> u64 {
        if index < self.joint_descriptor_blocks() {
            return copy.unwrap_or(self.primary_superblock()) + 1 + u64::from(index);
        }
        let first = index * self.descriptors_per_block();
        let has_second = copy.is_some() && first + 1 < self.group_count;
        self.first_descriptor_in(first + u32::from(has_second))
    }

    /// Returns the number of blocks at the start of a group with the boot block, a copy of the
    /// superblock, the descriptors and the reserved GDT blocks.
    pub(crate) fn super_blocks(&self, group: u32) -> u32 {
        let descriptors = self.descriptor_blocks_in(group).len() as u32;
        let descriptors = self.boot_blocks(group) + descriptors;
        match (self.has_super(group), self.first_meta_group) {
            (true, None) => 1 + descriptors + self.reserved_descriptor_blocks,
            // As in e2fsck, such a file system has no reserved blocks, whatever it says.
            (true, Some(_)) => 1 + descriptors,
            (false, _) => descriptors,
        }
    }

    pub(crate) fn inodes_per_block(&self) -> u32 {
        (self.block_bytes / self.inode_bytes) as u32
    }

    /// Returns the number of blocks of a group's inode table.
    pub(crate) fn inode_table_blocks(&self) -> u32 {
        let bytes = self.inodes_per_group as usize * self.inode_bytes;
        bytes.div_ceil(self.block_bytes) as u32
    }

    pub(crate) fn pointers_per_block(&self) -> usize {
        self.block_bytes / layout::inode::POINTER_SIZE
    }
}
