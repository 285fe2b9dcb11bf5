//! Group descriptors: where bitmaps and inode tables lie. What the first superblock and these say is marked as metadata.

use layout::group::{self as disk, GroupDescriptor, GroupFlags};
use zerocopy::FromBytes;

use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Place;
use crate::state::State;

/// A group, as its descriptor says. A place that cannot be is 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) block_bitmap: u64,
    pub(crate) inode_bitmap: u64,
    pub(crate) inode_table: u64,
    pub(crate) free_blocks: u32,
    pub(crate) free_inodes: u32,
    pub(crate) directories: u32,
}

/// Reads all descriptors, and marks superblocks, descriptors, bitmaps and tables; `false` if an inode table is lost, so that
/// nothing can be said of what needs it.
pub(crate) fn check(state: &mut State<'_>) -> Result<bool, Error> {
    read(state)?;
    mark_supers(state);
    let table_blocks = u64::from(state.geometry.inode_table_blocks());
    for number in 0..state.geometry.group_count {
        let group = state.groups[number as usize];
        for (first, count) in [
            (group.block_bitmap, 1),
            (group.inode_bitmap, 1),
            (group.inode_table, table_blocks),
        ] {
            if first != 0 {
                mark_metadata(state, number, first, count);
            }
        }
    }
    prefetch(state)?;
    Ok(state.groups.iter().all(|group| group.inode_table != 0))
}

/// True if a descriptor names a place that cannot be.
pub(crate) fn are_bad(state: &State<'_>) -> bool {
    let bad = [
        ProblemKind::BlockBitmapMisplaced,
        ProblemKind::InodeBitmapMisplaced,
        ProblemKind::InodeTableMisplaced,
        ProblemKind::GroupMetadataOverlaps,
    ];
    let mut problems = state.report.problems.iter();
    problems.any(|problem| bad.contains(&problem.kind))
}

fn read(state: &mut State<'_>) -> Result<(), Error> {
    let first = state.copy.unwrap_or(state.geometry.first_block) + 1;
    let per_block = (state.geometry.block_bytes / disk::SIZE) as u32;
    for index in 0..state.geometry.descriptor_blocks() {
        let bytes = state.block(first + u64::from(index))?;
        let from = index * per_block;
        let count = per_block.min(state.geometry.group_count - from);
        for (number, raw) in (from..from + count).zip(bytes.chunks_exact(disk::SIZE)) {
            if let Ok(raw) = GroupDescriptor::ref_from_bytes(raw) {
                let group = decode(state, number, raw);
                state.groups.push(group);
            }
        }
    }
    Ok(())
}

fn decode(state: &mut State<'_>, number: u32, raw: &GroupDescriptor) -> Group {
    let first = state.geometry.first_block_of(number);
    let end = first + u64::from(state.geometry.blocks_in(number));
    let table_blocks = u64::from(state.geometry.inode_table_blocks());
    let mut place = |kind, block: u32, count: u64| {
        let block = u64::from(block);
        // Block 0 is within the first group of volumes with large blocks, and holds the superblock.
        if block != 0 && block >= first && block + count <= end {
            return block;
        }
        state.report.add_found(kind, Place::group(number), block);
        0
    };
    let flags = GroupFlags::from_bits_retain(raw.bg_flags.get());
    let group = Group {
        block_bitmap: place(
            ProblemKind::BlockBitmapMisplaced,
            raw.bg_block_bitmap_lo.get(),
            1,
        ),
        inode_bitmap: place(
            ProblemKind::InodeBitmapMisplaced,
            raw.bg_inode_bitmap_lo.get(),
            1,
        ),
        inode_table: place(
            ProblemKind::InodeTableMisplaced,
            raw.bg_inode_table_lo.get(),
            table_blocks,
        ),
        free_blocks: raw.bg_free_blocks_count_lo.get().into(),
        free_inodes: raw.bg_free_inodes_count_lo.get().into(),
        directories: raw.bg_used_dirs_count_lo.get().into(),
    };
    let has_inodes = group.free_inodes < state.geometry.inodes_per_group;
    if flags.contains(GroupFlags::INODE_UNINIT) && has_inodes {
        state.problem(ProblemKind::GroupUninitialized, Place::group(number));
    }
    group
}

/// Marks the superblocks and descriptors of all groups that have them, and the blocks reserved for more descriptors.
fn mark_supers(state: &mut State<'_>) {
    let descriptors = u64::from(state.geometry.descriptor_blocks());
    let reserved = u64::from(state.geometry.reserved_descriptor_blocks);
    let count = 1 + descriptors + reserved;
    for number in 0..state.geometry.group_count {
        if state.geometry.has_super(number) {
            let first = state.geometry.first_block_of(number);
            let end = first + u64::from(state.geometry.blocks_in(number));
            for block in first..(first + count).min(end) {
                let bit = state.geometry.bit_of(block);
                state.metadata.insert(bit);
                state.found.insert(bit);
            }
        }
    }
}

fn mark_metadata(state: &mut State<'_>, number: u32, first: u64, count: u64) {
    for block in first..first + count {
        let bit = state.geometry.bit_of(block);
        state.metadata.insert(bit);
        if !state.found.insert(bit) {
            let place = Place::group(number).at_block(block);
            state.problem(ProblemKind::GroupMetadataOverlaps, place);
        }
    }
}

/// Reads bitmaps and tables of all groups in one batch.
fn prefetch(state: &mut State<'_>) -> Result<(), Error> {
    let block_bytes = state.geometry.block_bytes as u64;
    let table_bytes = u64::from(state.geometry.inode_table_blocks()) * block_bytes;
    let mut runs = Vec::with_capacity(state.groups.len() * 3);
    for group in &state.groups {
        runs.push((group.block_bitmap * block_bytes, block_bytes));
        runs.push((group.inode_bitmap * block_bytes, block_bytes));
        runs.push((group.inode_table * block_bytes, table_bytes));
    }
    state.image.prefetch(&runs)
}
