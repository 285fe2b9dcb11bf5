//! Structures of ext4 that were never used hold anything, as after `mke2fs` with lazy
//! initialisation: bitmaps of groups that are not initialised, and blocks of inode tables without
//! an inode.

use layout::group::{GroupDescriptor64, GroupFlags};
use layout::superblock::Superblock;

use super::SUPERBLOCK;
use crate::image::{BLOCK_BYTES, Image};
use crate::tag::poison;

/// Fills what no descriptor of a new volume counts as initialised.
pub(super) fn fill(home: &mut Image, superblock: &Superblock) {
    let bytes = usize::from(superblock.descriptor_size.get());
    let inodes = superblock.inodes_per_group.get();
    let in_block = (BLOCK_BYTES / usize::from(superblock.dynamic_inode_size.get())) as u32;
    let blocks = superblock.blocks_count_low.get() - superblock.first_data_block.get();
    let count = blocks.div_ceil(superblock.blocks_per_group.get()) as usize;
    for number in 0..count {
        let block = SUPERBLOCK + 1 + (number * bytes / BLOCK_BYTES) as u64;
        let at = number * bytes % BLOCK_BYTES;
        let group = GroupDescriptor64::read(&home.block(block)[at..at + bytes]);
        let is_set = |flag| group.flags().contains(flag);
        let used = match is_set(GroupFlags::INODE_UNINIT) {
            true => 0,
            false => inodes - u32::from(group.base.unused_inodes_count_low.get()),
        };
        let table = used.div_ceil(in_block)..inodes / in_block;
        let mut unused: Vec<u64> = table
            .map(|index| group.inode_table() + u64::from(index))
            .collect();
        if is_set(GroupFlags::BLOCK_UNINIT) {
            unused.push(group.block_bitmap());
        }
        if is_set(GroupFlags::INODE_UNINIT) {
            unused.push(group.inode_bitmap());
        }
        for block in unused {
            home.set_block(block, poison(block).into_arc());
        }
    }
}
