//! The group descriptors of a new volume, and the bitmaps, whose checksums they hold.
//!
//! Where descriptors have checksums, a group without files has no bitmaps: flags say so.

use std::sync::Arc;

use layout::checksum::metadata;
use layout::group::{GroupDescriptor, GroupDescriptor64, GroupFlags};
use layout::{Block, BlockNr, GroupNr, InodeNr};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use super::image::Image;
use super::plan::{LOST_FOUND, Plan};
use crate::error::Result;

/// Returns the blocks of the descriptors, and gives `put` the bitmaps of the groups that have them.
///
/// # Errors
/// Returns the first error of `put`.
pub(super) fn make(
    plan: &Plan,
    image: &Image,
    mut put: impl FnMut(BlockNr, Arc<Block>) -> Result<()>,
) -> Result<Vec<Arc<Block>>> {
    let geometry = &plan.geometry;
    let mut blocks: Vec<Block> = (0..geometry.descriptor_blocks())
        .map(|_| Block::zeroed(geometry.block_bytes as usize))
        .collect();
    let size = usize::from(geometry.descriptor_bytes);
    for group in geometry.groups() {
        let mut raw = descriptor(plan, image, group);
        let places = plan.metadata.of(group);
        if !raw.flags().contains(GroupFlags::BLOCK_UNINIT) {
            let bitmap = block_bitmap(plan, image, group);
            if let Some(seed) = plan.sums.seed() {
                let sum = metadata::bitmap(seed, &bitmap, geometry.clusters_per_group());
                raw.base.block_bitmap_checksum_low.set(sum as u16);
                raw.block_bitmap_checksum_high.set((sum >> 16) as u16);
            }
            put(places.block_bitmap, bitmap)?;
        }
        if !raw.flags().contains(GroupFlags::INODE_UNINIT) {
            let bitmap = inode_bitmap(plan, group);
            if let Some(seed) = plan.sums.seed() {
                let sum = metadata::bitmap(seed, &bitmap, geometry.inodes_per_group);
                raw.base.inode_bitmap_checksum_low.set(sum as u16);
                raw.inode_bitmap_checksum_high.set((sum >> 16) as u16);
            }
            put(places.inode_bitmap, bitmap)?;
        }
        let (index, offset) = geometry.descriptor_place(group);
        let block = &mut blocks[index as usize];
        let place = &mut block[offset..offset + size];
        place.copy_from_slice(&raw.as_bytes()[..size]);
        plan.sums.seal_descriptor(group, place);
    }
    Ok(blocks.into_iter().map(Block::into_arc).collect())
}

/// Returns a group's descriptor without checksums.
fn descriptor(plan: &Plan, image: &Image, group: GroupNr) -> GroupDescriptor64 {
    let geometry = &plan.geometry;
    let places = plan.metadata.of(group);
    let files: u32 = image
        .places
        .in_group(geometry, group)
        .map(|(_, count)| count)
        .sum();
    let metadata = plan.metadata.count_in(geometry, group);
    let free = (geometry.blocks_in(group) - metadata - files) >> geometry.cluster_log;
    let taken_inodes = taken_inodes(plan, group);
    let free_inodes = geometry.inodes_per_group - taken_inodes;
    let directories =
        [InodeNr::ROOT, LOST_FOUND].map(|nr| u16::from(geometry.group_of_inode(nr).0 == group));
    let mut flags = GroupFlags::empty();
    if plan.sums.has_group_flags() {
        let is_last = group.get() + 1 == geometry.group_count;
        let holds_others = metadata != plan.metadata.own_in(geometry, group);
        flags.set(GroupFlags::INODE_ZEROED, !image.has_lazy_tables);
        flags.set(GroupFlags::INODE_UNINIT, taken_inodes == 0);
        // Linux computes the bitmap of such a group, and does not expect that of the last one.
        flags.set(
            GroupFlags::BLOCK_UNINIT,
            files == 0 && !holds_others && !is_last,
        );
    }
    let never_used = if plan.sums.has_group_flags() {
        free_inodes
    } else {
        0
    };
    let [block_bitmap, inode_bitmap, inode_table] =
        [places.block_bitmap, places.inode_bitmap, places.inode_table].map(BlockNr::get);
    // A group has at most 2^15 clusters and inodes: the upper halves of counts are 0.
    let base = GroupDescriptor {
        block_bitmap_low: U32::new(block_bitmap as u32),
        inode_bitmap_low: U32::new(inode_bitmap as u32),
        inode_table_low: U32::new(inode_table as u32),
        free_blocks_count_low: U16::new(free as u16),
        free_inodes_count_low: U16::new(free_inodes as u16),
        directories_count_low: U16::new(directories[0] + directories[1]),
        flag_bits: U16::new(flags.bits()),
        unused_inodes_count_low: U16::new(never_used as u16),
        ..GroupDescriptor::default()
    };
    GroupDescriptor64 {
        base,
        block_bitmap_high: U32::new((block_bitmap >> 32) as u32),
        inode_bitmap_high: U32::new((inode_bitmap >> 32) as u32),
        inode_table_high: U32::new((inode_table >> 32) as u32),
        ..GroupDescriptor64::default()
    }
}

fn block_bitmap(plan: &Plan, image: &Image, group: GroupNr) -> Arc<Block> {
    let geometry = &plan.geometry;
    let mut bitmap = Block::zeroed(geometry.block_bytes as usize);
    let metadata = plan.metadata.in_group(geometry, group);
    for (start, count) in metadata.chain(image.places.in_group(geometry, group)) {
        let log = geometry.cluster_log;
        set_bits(&mut bitmap, start >> log, count >> log);
    }
    let count = geometry.clusters_in(group);
    set_bits(&mut bitmap, count, geometry.block_bytes * 8 - count);
    bitmap.into_arc()
}

fn inode_bitmap(plan: &Plan, group: GroupNr) -> Arc<Block> {
    let geometry = &plan.geometry;
    let mut bitmap = Block::zeroed(geometry.block_bytes as usize);
    set_bits(&mut bitmap, 0, taken_inodes(plan, group));
    let count = geometry.inodes_per_group;
    set_bits(&mut bitmap, count, geometry.block_bytes * 8 - count);
    bitmap.into_arc()
}

fn set_bits(bitmap: &mut [u8], start: u32, count: u32) {
    (start..start + count).for_each(|bit| bitmap[(bit / 8) as usize] |= 1 << (bit % 8));
}

/// Returns the number of inodes at the start of a group that are reserved or belong to the first
/// files.
pub(super) fn taken_inodes(plan: &Plan, group: GroupNr) -> u32 {
    let inodes_per_group = plan.geometry.inodes_per_group;
    let before = group.get().saturating_mul(inodes_per_group);
    let last = plan.last_inode().get();
    last.saturating_sub(before).min(inodes_per_group)
}
