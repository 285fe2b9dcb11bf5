//! Group descriptors: the locations of bitmaps and inode tables. The blocks named by the primary
//! superblock and descriptors are marked as metadata.

use std::ops::Range;

use layout::group::{self as disk, GroupDescriptor, GroupFlags};
use zerocopy::FromBytes;

use crate::descriptor::Group;
use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Reads all descriptors, and marks superblocks, descriptors, bitmaps and tables. Returns `false`
/// if an inode table is lost, so that passes that need it cannot run.
pub(crate) fn check(state: &mut State<'_>) -> Result<bool, Error> {
    read(state)?;
    for number in 0..state.geometry.group_count {
        check_apart(state, number);
    }
    prefetch(state)?;
    Ok(state.groups.iter().all(|group| group.inode_table != 0))
}

/// True if a descriptor contains an invalid location.
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
        // With large blocks, block 0 belongs to the first group and holds the superblock.
        if block != 0 && block >= first && block + count <= end {
            return block;
        }
        state.report.add_found(kind, Location::group(number), block);
        0
    };
    let flags = GroupFlags::from_bits_retain(raw.flag_bits.get());
    let group = Group {
        block_bitmap: place(
            ProblemKind::BlockBitmapMisplaced,
            raw.block_bitmap_low.get(),
            1,
        ),
        inode_bitmap: place(
            ProblemKind::InodeBitmapMisplaced,
            raw.inode_bitmap_low.get(),
            1,
        ),
        inode_table: place(
            ProblemKind::InodeTableMisplaced,
            raw.inode_table_low.get(),
            table_blocks,
        ),
        free_blocks: raw.free_blocks_count_low.get().into(),
        free_inodes: raw.free_inodes_count_low.get().into(),
        directories: raw.directories_count_low.get().into(),
    };
    let has_inodes = group.free_inodes < state.geometry.inodes_per_group;
    if flags.contains(GroupFlags::INODE_UNINIT) && has_inodes {
        state.problem(ProblemKind::GroupUninitialized, Location::group(number));
    }
    group
}

/// Checks that the bitmaps and the table of a group overlap neither each other nor a superblock or
/// descriptors.
fn check_apart(state: &mut State<'_>, number: u32) {
    let mut taken: Vec<Range<u64>> = Vec::with_capacity(4);
    let mut shared = Vec::new();
    for range in metadata(state, number) {
        shared.clear();
        for other in &taken {
            shared.extend(range.start.max(other.start)..range.end.min(other.end));
        }
        shared.sort_unstable();
        shared.dedup();
        for block in &shared {
            let place = Location::group(number).at_block(*block);
            state.problem(ProblemKind::GroupMetadataOverlaps, place);
        }
        taken.push(range);
    }
}

/// Returns the blocks of a group that hold metadata: superblock and descriptors, bitmaps, inode
/// table. The ranges may overlap.
pub(crate) fn metadata(state: &State<'_>, number: u32) -> impl Iterator<Item = Range<u64>> + use<> {
    let geometry = &state.geometry;
    let group = state.groups[number as usize];
    let first = geometry.first_block_of(number);
    let end = first + u64::from(geometry.blocks_in(number));
    let supers = if geometry.has_super(number) {
        geometry.super_blocks().into()
    } else {
        0
    };
    let supers = first..(first + supers).min(end);
    let table_blocks = u64::from(geometry.inode_table_blocks());
    let places = [
        (group.block_bitmap, 1),
        (group.inode_bitmap, 1),
        (group.inode_table, table_blocks),
    ];
    let places = places.into_iter().filter(|(place, _)| *place != 0);
    let places = places.map(|(first, count)| first..first + count);
    std::iter::once(supers).chain(places)
}

/// Reads bitmaps and tables of all groups in one batch, unless they are large.
fn prefetch(state: &mut State<'_>) -> Result<(), Error> {
    let block_bytes = state.geometry.block_bytes as u64;
    let table_bytes = u64::from(state.geometry.inode_table_blocks()) * block_bytes;
    let bytes = (table_bytes + 2 * block_bytes) * state.groups.len() as u64;
    if bytes > state.image.prefetch_bytes_max() {
        return Ok(());
    }
    let mut runs = Vec::with_capacity(state.groups.len() * 3);
    for group in &state.groups {
        runs.push((group.block_bitmap * block_bytes, block_bytes));
        runs.push((group.inode_bitmap * block_bytes, block_bytes));
        runs.push((group.inode_table * block_bytes, table_bytes));
    }
    state.image.prefetch(&runs)
}
