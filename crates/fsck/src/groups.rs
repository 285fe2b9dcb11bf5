//! Group descriptors: their checksums and flags, and the locations of bitmaps and inode tables. The
//! blocks named by the primary superblock and descriptors are marked as metadata.

use std::ops::Range;

use layout::checksum::{self, metadata};
use layout::group::{GroupDescriptor64, GroupFlags};

use crate::descriptor::Group;
use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Reads all descriptors, and marks superblocks, descriptors, bitmaps and tables. Returns `false`
/// if an inode table is lost, so that passes that need it cannot run.
pub(crate) fn check(state: &mut State<'_>) -> Result<bool, Error> {
    read(state)?;
    mark(state);
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
    let per_block = state.geometry.descriptors_per_block();
    for index in 0..state.geometry.descriptor_blocks() {
        let block = state.geometry.descriptor_block(index, state.copy);
        let bytes = state.block(block)?;
        let from = index * per_block;
        let count = per_block.min(state.geometry.group_count - from);
        let descriptors = bytes.chunks_exact(state.geometry.descriptor_bytes);
        for (number, bytes) in (from..from + count).zip(descriptors) {
            let raw = GroupDescriptor64::read(bytes);
            let is_sealed = state.copy.is_none() && is_sealed(state, number, bytes, &raw);
            let group = decode(state, number, &raw, is_sealed);
            check_flags(state, number, &group);
            state.groups.push(group);
        }
    }
    Ok(())
}

/// True if a descriptor has a checksum and it is right. Reports a wrong one.
fn is_sealed(state: &mut State<'_>, number: u32, bytes: &[u8], raw: &GroupDescriptor64) -> bool {
    if !state.has_descriptor_checksums {
        return false;
    }
    let expected = match state.checksum_seed {
        Some(seed) => metadata::group_descriptor(seed, number, bytes),
        None => checksum::group_descriptor_crc16(&state.raw.uuid, number, bytes),
    };
    let found = raw.base.checksum.get();
    if found != expected {
        let (kind, place) = (ProblemKind::DescriptorChecksum, Location::group(number));
        state
            .report
            .add_differing(kind, place, found.into(), expected.into());
    }
    found == expected
}

fn decode(state: &mut State<'_>, number: u32, raw: &GroupDescriptor64, is_sealed: bool) -> Group {
    let (first, end) = range_of(state, number);
    let table_blocks = u64::from(state.geometry.inode_table_blocks());
    let mut place = |kind, block: u64, count: u64| {
        // With large blocks, block 0 belongs to the first group and holds the superblock.
        let is_inside = block != 0 && block >= first && block <= end;
        if is_inside && end - block >= count {
            return block;
        }
        state.report.add_found(kind, Location::group(number), block);
        0
    };
    // As in e2fsck, descriptors of a backup do not say what is not initialised.
    let is_primary = state.copy.is_none();
    Group {
        block_bitmap: place(ProblemKind::BlockBitmapMisplaced, raw.block_bitmap(), 1),
        inode_bitmap: place(ProblemKind::InodeBitmapMisplaced, raw.inode_bitmap(), 1),
        inode_table: place(
            ProblemKind::InodeTableMisplaced,
            raw.inode_table(),
            table_blocks,
        ),
        free_blocks: raw.free_blocks_count(),
        free_inodes: raw.free_inodes_count(),
        directories: raw.directories_count(),
        unused_inodes: if is_primary {
            raw.unused_inodes_count()
        } else {
            0
        },
        block_bitmap_checksum: raw.block_bitmap_checksum(),
        inode_bitmap_checksum: raw.inode_bitmap_checksum(),
        flags: if is_primary {
            raw.flags()
        } else {
            GroupFlags::empty()
        },
        has_checksum: is_primary && state.has_descriptor_checksums,
        is_sealed,
    }
}

/// Returns the blocks in which the metadata of a group may lie: from the first to before the last.
fn range_of(state: &State<'_>, number: u32) -> (u64, u64) {
    let geometry = &state.geometry;
    if geometry.has_flexible_groups {
        return (geometry.first_block, geometry.block_count);
    }
    let first = geometry.first_block_of(number);
    (first, first + u64::from(geometry.blocks_in(number)))
}

/// Checks the flags of a group and its count of unused inodes.
fn check_flags(state: &mut State<'_>, number: u32, group: &Group) {
    let place = || Location::group(number);
    let uninitialized = GroupFlags::BLOCK_UNINIT | GroupFlags::INODE_UNINIT;
    let is_marked = group.flags.intersects(uninitialized) || group.unused_inodes != 0;
    if !state.has_descriptor_checksums {
        if is_marked {
            state.problem(ProblemKind::GroupFlagsWithoutFeature, place());
        }
    } else if group.unused_inodes > group.free_inodes.min(state.geometry.inodes_per_group) {
        let (kind, found) = (ProblemKind::UnusedInodesWrong, group.unused_inodes.into());
        state.report.add_found(kind, place(), found);
    }
    let is_last = number + 1 == state.geometry.group_count;
    if is_last && group.flags.contains(GroupFlags::BLOCK_UNINIT) {
        state.problem(ProblemKind::LastGroupUninitialized, place());
    }
}

/// Marks the metadata of all groups, and reports bitmaps and tables that overlap each other or a
/// superblock or descriptors.
fn mark(state: &mut State<'_>) {
    for number in 0..state.geometry.group_count {
        let supers = supers(state, number);
        for (group, start, end) in state.geometry.pieces(supers.start, supers.end) {
            state.metadata.insert_run(group, start, end);
        }
    }
    for number in 0..state.geometry.group_count {
        for range in places(state, number) {
            for (group, start, end) in state.geometry.pieces(range.start, range.end) {
                if !state.metadata.intersects(group, start, end) {
                    state.metadata.insert_run(group, start, end);
                    continue;
                }
                let first_block = state.geometry.first_block_of(group);
                for place in start..end {
                    if !state.metadata.insert((group, place)) {
                        let block = first_block + u64::from(place);
                        let place = Location::group(number).at_block(block);
                        state.problem(ProblemKind::GroupMetadataOverlaps, place);
                    }
                }
            }
        }
    }
}

/// Returns the blocks of the superblock and the descriptors in a group, if it has them.
pub(crate) fn supers(state: &State<'_>, number: u32) -> Range<u64> {
    let geometry = &state.geometry;
    let first = geometry.first_block_of(number);
    let end = first + u64::from(geometry.blocks_in(number));
    let count = u64::from(geometry.super_blocks(number));
    first..(first + count).min(end)
}

/// Returns the blocks of a group's bitmaps and of its inode table, if their locations are valid.
pub(crate) fn places(state: &State<'_>, number: u32) -> impl Iterator<Item = Range<u64>> + use<> {
    let group = state.groups[number as usize];
    let table_blocks = u64::from(state.geometry.inode_table_blocks());
    let places = [
        (group.block_bitmap, 1),
        (group.inode_bitmap, 1),
        (group.inode_table, table_blocks),
    ];
    let places = places.into_iter().filter(|(place, _)| *place != 0);
    places.map(|(first, count)| first..first + count)
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
        if !group.lacks_block_bitmap() {
            runs.push((group.block_bitmap * block_bytes, block_bytes));
        }
        if !group.lacks_inodes() {
            runs.push((group.inode_bitmap * block_bytes, block_bytes));
            runs.push((group.inode_table * block_bytes, table_bytes));
        }
    }
    state.image.prefetch(&runs)
}
