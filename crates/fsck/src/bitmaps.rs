//! Bitmaps and counts. As in e2fsck, counts are compared with the bitmaps on disk, so that a fault
//! in a bitmap is not reported again in its count.

use crate::bitset;
use crate::blocks;
use crate::error::Error;
use crate::groups;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Maximum number of differences of one bitmap that are reported one by one.
const DIFFERENCES_MAX: usize = 16;

/// Compares all bitmaps and counts.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    check_blocks(state)?;
    check_inodes(state)
}

fn check_blocks(state: &mut State<'_>) -> Result<(), Error> {
    let mut free = 0;
    let bits = state.geometry.block_bytes * 8;
    let mut found = vec![0; state.geometry.block_bytes];
    for number in 0..state.geometry.group_count {
        let group = state.groups[number as usize];
        if group.block_bitmap == 0 {
            continue;
        }
        let bitmap = state.block(group.block_bitmap)?;
        let first = state.geometry.first_block_of(number);
        let count = state.geometry.blocks_in(number) as usize;
        found.fill(0);
        for range in groups::metadata(state, number) {
            let (start, end) = (range.start - first, range.end - first);
            blocks::set(&mut found, start as u32, end as u32);
        }
        state.claimed.add_to(number, &mut found);
        if !bitset::are_equal(&bitmap, &found, count) {
            for index in differences(&bitmap, &found, count) {
                let block = first + index as u64;
                let place = Location::group(number).at_block(block);
                let says = u64::from(bitset::bit(&bitmap, index));
                let kind = ProblemKind::BlockBitmapWrong;
                state.report.add_differing(kind, place, says, 1 - says);
            }
        }
        let clear = bitset::count_clear(&bitmap, count);
        free += u64::from(clear);
        if clear != group.free_blocks {
            let kind = ProblemKind::FreeBlocksOfGroupWrong;
            let (said, clear) = (group.free_blocks.into(), clear.into());
            state
                .report
                .add_differing(kind, Location::group(number), said, clear);
        }
        if !bitset::is_filled(&bitmap, count) && count < bits {
            state.problem(ProblemKind::BlockBitmapPadding, Location::group(number));
        }
    }
    state.report.statistics.used_blocks = state.geometry.block_count - free;
    let said = state.raw.free_blocks_count();
    let is_known = state.groups.iter().all(|group| group.block_bitmap != 0);
    if said != free && is_known {
        let kind = ProblemKind::FreeBlocksWrong;
        state
            .report
            .add_differing(kind, Location::whole(), said, free);
    }
    Ok(())
}

fn check_inodes(state: &mut State<'_>) -> Result<(), Error> {
    let mut free = 0;
    let bits = state.geometry.block_bytes * 8;
    let count = state.geometry.inodes_per_group as usize;
    let mut used = vec![0; state.geometry.block_bytes];
    for number in 0..state.geometry.group_count {
        let group = state.groups[number as usize];
        if group.inode_bitmap == 0 {
            continue;
        }
        let bitmap = state.block(group.inode_bitmap)?;
        let first = number * count as u32 + 1;
        let directory_count = collect_inodes(state, first, &bitmap, &mut used);
        if !bitset::are_equal(&bitmap, &used, count) {
            report_inodes(state, number, &bitmap, &used);
        }
        let clear = bitset::count_clear(&bitmap, count);
        free += u64::from(clear);
        for (kind, said, counted) in [
            (
                ProblemKind::FreeInodesOfGroupWrong,
                group.free_inodes,
                clear,
            ),
            (
                ProblemKind::DirectoriesOfGroupWrong,
                group.directories,
                directory_count,
            ),
        ] {
            if said != counted {
                let place = Location::group(number);
                state
                    .report
                    .add_differing(kind, place, said.into(), counted.into());
            }
        }
        if !bitset::is_filled(&bitmap, count) && count < bits {
            state.problem(ProblemKind::InodeBitmapPadding, Location::group(number));
        }
    }
    let said = u64::from(state.raw.free_inodes_count.get());
    let is_known = state.groups.iter().all(|group| group.inode_bitmap != 0);
    if said != free && is_known {
        let kind = ProblemKind::FreeInodesWrong;
        state
            .report
            .add_differing(kind, Location::whole(), said, free);
    }
    Ok(())
}

/// Fills the bitmap of the used inodes of a group. Returns the number of directories that are used
/// in the bitmap on disk.
fn collect_inodes(state: &State<'_>, first: u32, bitmap: &[u8], used: &mut [u8]) -> u32 {
    used.fill(0);
    let last = first + (state.geometry.inodes_per_group - 1);
    for (number, inode) in state.inodes.known(first..=last) {
        let index = number - first;
        if inode.is_used() {
            blocks::set(used, index, index + 1);
        }
    }
    let from = state
        .directories
        .partition_point(|directory| directory.inode < first);
    let directories = state.directories[from..].iter();
    let directories = directories.take_while(|directory| directory.inode <= last);
    let counted =
        directories.filter(|directory| bitset::bit(bitmap, (directory.inode - first) as usize));
    counted.count() as u32
}

fn report_inodes(state: &mut State<'_>, group: u32, bitmap: &[u8], used: &[u8]) {
    let count = state.geometry.inodes_per_group;
    for index in 0..count {
        let (says, is_used) = (
            bitset::bit(bitmap, index as usize),
            bitset::bit(used, index as usize),
        );
        if is_used != says {
            let mut place = Location::inode(group * count + index + 1);
            place.group = Some(group);
            let kind = ProblemKind::InodeBitmapWrong;
            state
                .report
                .add_differing(kind, place, says.into(), is_used.into());
        }
    }
}

/// Returns the first positions in which two bitmaps differ.
fn differences(left: &[u8], right: &[u8], count: usize) -> Vec<usize> {
    (0..count)
        .filter(|index| bitset::bit(left, *index) != bitset::bit(right, *index))
        .take(DIFFERENCES_MAX)
        .collect()
}
