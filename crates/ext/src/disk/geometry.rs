//! Sizes and places that follow from the superblock.
//!
//! The groups whose descriptors share a block are a meta block group. With `meta_bg` the descriptor
//! block of each from `s_first_meta_bg` on lies in the first group of the meta block group, behind
//! the superblock if there is one, and is copied to the second and the last. The blocks of those
//! before, and all of them without the feature, follow each superblock.
//!
//! With clusters larger than 1 KiB the first block of the volume is block 0, also with blocks of
//! 1 KiB: then the boot block starts group 0, and the superblock follows it.

use core::ops::Range;

use layout::superblock::Backups;
use layout::{BlockNr, GroupNr, InodeNr};

/// Largest number of blocks of a volume: extents have block numbers of 48 bits.
pub(crate) const BLOCKS_MAX: u64 = 1 << 48;
/// Largest number of blocks with numbers of 32 bits, as indirect blocks have them.
pub(crate) const NARROW_BLOCKS_MAX: u64 = u32::MAX as u64;

/// Sizes and places of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Size of a block in bytes: a power of two from 1 to 64 KiB. Those above 4 KiB are only read.
    pub block_bytes: u32,
    /// Number of blocks of the volume, including the boot block of volumes with 1 KiB blocks.
    pub block_count: u64,
    /// The first block of group 0: 1 with blocks of 1 KiB and no larger clusters, otherwise 0.
    pub first_data_block: BlockNr,
    /// Logarithm of the number of blocks in a cluster: 0 without `bigalloc`.
    pub cluster_log: u32,
    /// Number of blocks in each group except the last.
    pub blocks_per_group: u32,
    /// Number of groups.
    pub group_count: u32,
    /// Number of inodes in a group.
    pub inodes_per_group: u32,
    /// Size of an inode in bytes: a power of two from 128 to the size of a block.
    pub inode_bytes: u16,
    /// Number of inodes of the volume.
    pub inode_count: u32,
    /// The first inode that is not reserved.
    pub first_inode: InodeNr,
    /// Size of a group descriptor in bytes: 32, or at least 64 with `64bit`.
    pub descriptor_bytes: u16,
    /// Number of reserved GDT blocks.
    pub reserved_descriptor_blocks: u16,
    /// The groups with copies of the superblock and the descriptors.
    pub backups: Backups,
    /// The first meta block group, at most one more than the last; `None` without `meta_bg`.
    pub first_meta_group: Option<u32>,
    /// True if a group's bitmaps and inode table may lie in another group (`flex_bg`).
    pub has_flexible_groups: bool,
}

impl Geometry {
    /// Returns the group of a block, and its index within the group.
    ///
    /// # Panics
    /// Panics if the block lies outside the volume.
    pub fn group_of_block(&self, block: BlockNr) -> (GroupNr, u32) {
        assert!(self.contains(block), "the block lies inside the volume");
        let first = match rt::mutant!("groups/first-block-ignored") {
            true => 0,
            false => self.first_data_block.get(),
        };
        let offset = block.get() - first;
        let per_group = u64::from(self.blocks_per_group);
        (
            GroupNr::new((offset / per_group) as u32),
            (offset % per_group) as u32,
        )
    }

    /// Returns the first block of a group.
    pub fn first_block_of(&self, group: GroupNr) -> BlockNr {
        self.first_data_block + u64::from(group.get()) * u64::from(self.blocks_per_group)
    }

    /// Returns the number of blocks before a group's superblock or descriptors: the boot block, if
    /// it belongs to a group.
    pub fn boot_blocks(&self, group: GroupNr) -> u32 {
        let has_boot_block = self.block_bytes == 1024 && self.first_data_block.get() == 0;
        u32::from(has_boot_block && group.get() == 0)
    }

    /// Returns the number of blocks of a group; the last group may have fewer than the others.
    pub fn blocks_in(&self, group: GroupNr) -> u32 {
        let first = self.first_block_of(group).get();
        u64::from(self.blocks_per_group).min(self.block_count - first) as u32
    }

    /// Returns the group of an inode, and its index within the group.
    ///
    /// # Panics
    /// Panics if there is no such inode.
    pub fn group_of_inode(&self, inode: InodeNr) -> (GroupNr, u32) {
        assert!(
            inode.get() >= 1 && inode.get() <= self.inode_count,
            "the inode exists"
        );
        let index = inode.get() - 1;
        (
            GroupNr::new(index / self.inodes_per_group),
            index % self.inodes_per_group,
        )
    }

    /// Returns true if the volume has such a block.
    pub fn contains(&self, block: BlockNr) -> bool {
        block >= self.first_data_block && block.get() < self.block_count
    }

    /// Returns the byte offset of a block on the device.
    pub fn byte_offset(&self, block: BlockNr) -> u64 {
        block.get() * u64::from(self.block_bytes)
    }

    /// Returns true if a group holds a copy of the superblock and the descriptors.
    pub fn has_super(&self, group: GroupNr) -> bool {
        self.backups.has(group.get())
    }

    /// Returns true if inodes have room for nanoseconds and the years after 2038.
    pub fn has_extra_times(&self) -> bool {
        usize::from(self.inode_bytes) > layout::inode::BASE_SIZE
    }

    /// Returns the number of descriptors in a block: that of the groups of a meta block group.
    pub fn descriptors_per_block(&self) -> u32 {
        self.block_bytes / u32::from(self.descriptor_bytes)
    }

    /// Returns the number of blocks of the group descriptors.
    pub fn descriptor_blocks(&self) -> u32 {
        self.group_count.div_ceil(self.descriptors_per_block())
    }

    /// Returns the indices of the descriptor blocks that a group holds, the originals or copies of
    /// them. They follow its superblock, or start the group.
    pub fn descriptor_blocks_in(&self, group: GroupNr) -> Range<u32> {
        let per_block = self.descriptors_per_block();
        let meta_group = group.get() / per_block;
        match self.first_meta_group {
            Some(first) if meta_group >= first => {
                let nth = group.get() % per_block;
                let is_copy = nth == 1 || nth == per_block - 1;
                let holds = nth == 0 || is_copy && !rt::mutant!("groups/copies-not-counted");
                meta_group..meta_group + u32::from(holds)
            }
            first if self.has_super(group) => 0..first.unwrap_or(self.descriptor_blocks()),
            _ => 0..0,
        }
    }

    /// Returns the place of a descriptor block, by its index.
    pub fn descriptor_block(&self, index: u32) -> BlockNr {
        let group = match self.first_meta_group {
            _ if rt::mutant!("groups/descriptors-in-first-group") => GroupNr::new(0),
            Some(first) if index >= first => GroupNr::new(index * self.descriptors_per_block()),
            _ => GroupNr::new(0),
        };
        let nth = index - self.descriptor_blocks_in(group).start;
        let before = self.boot_blocks(group) + u32::from(self.has_super(group));
        self.first_block_of(group) + u64::from(before + nth)
    }

    /// Returns the number of blocks of a group's inode table.
    pub fn inode_table_blocks(&self) -> u32 {
        let bytes = u64::from(self.inodes_per_group) * u64::from(self.inode_bytes);
        bytes.div_ceil(u64::from(self.block_bytes)) as u32
    }

    /// Returns the number of blocks at the start of a group that hold the boot block, its
    /// superblock, descriptors and reserved GDT blocks.
    pub fn super_blocks(&self, group: GroupNr) -> u32 {
        let descriptors = self.descriptor_blocks_in(group).len() as u32;
        let boot = self.boot_blocks(group);
        match self.has_super(group) {
            true => boot + 1 + descriptors + u32::from(self.reserved_descriptor_blocks),
            false => boot + descriptors,
        }
    }

    /// Returns the block of the first superblock, and its byte offset in it.
    pub fn superblock_place(&self) -> (BlockNr, usize) {
        if self.block_bytes == 1024 {
            (BlockNr::new(1), 0)
        } else {
            (BlockNr::new(0), 1024)
        }
    }

    /// Returns the index of the block of a group's descriptor, and its byte offset in it.
    pub fn descriptor_place(&self, group: GroupNr) -> (u32, usize) {
        let per_block = self.descriptors_per_block();
        let nth = group.get() % per_block;
        (
            group.get() / per_block,
            (nth * u32::from(self.descriptor_bytes)) as usize,
        )
    }

    /// Returns all groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = GroupNr> + use<> {
        (0..self.group_count).map(GroupNr::new)
    }

    /// Returns the number of block pointers in an indirect block.
    pub fn pointers_per_block(&self) -> u32 {
        self.block_bytes / 4
    }
}
