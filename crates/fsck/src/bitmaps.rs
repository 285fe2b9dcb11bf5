//! Bitmaps and counts. As in e2fsck, counts are compared with the bitmaps on the disk: what is wrong in a bitmap is not
//! reported a second time in its count.

use crate::bitset::{self, BitSet};
use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Place;
use crate::state::State;

/// Differences of one bitmap that are reported one by one.
const DIFFERENCES_MAX: usize = 16;

/// Compares all bitmaps and counts.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    check_blocks(state)?;
    check_inodes(state)
}

fn check_blocks(state: &mut State<'_>) -> Result<(), Error> {
    let mut free = 0;
    let bits = state.geometry.block_bytes * 8;
    for number in 0..state.geometry.group_count {
        let group = state.groups[number as usize];
        if group.block_bitmap == 0 {
            continue;
        }
        let bitmap = state.block(group.block_bitmap)?;
        let first = number as usize * state.geometry.blocks_per_group as usize;
        let count = state.geometry.blocks_in(number) as usize;
        let found = state.found.bytes(first, count);
        if !bitset::are_equal(&bitmap, found, count) {
            let differences: Vec<usize> = differences(&bitmap, found, count);
            for index in differences {
                let block = state.geometry.block_of_bit(first + index);
                let place = Place::group(number).at_block(block);
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
                .add_differing(kind, Place::group(number), said, clear);
        }
        if !bitset::is_filled(&bitmap, count) && count < bits {
            state.problem(ProblemKind::BlockBitmapPadding, Place::group(number));
        }
    }
    state.report.statistics.used_blocks = state.geometry.block_count - free;
    let said = state.raw.free_blocks_count();
    let is_known = state.groups.iter().all(|group| group.block_bitmap != 0);
    if said != free && is_known {
        let kind = ProblemKind::FreeBlocksWrong;
        state.report.add_differing(kind, Place::whole(), said, free);
    }
    Ok(())
}

fn check_inodes(state: &mut State<'_>) -> Result<(), Error> {
    let (used, directories) = used_inodes(state);
    let mut free = 0;
    let bits = state.geometry.block_bytes * 8;
    let count = state.geometry.inodes_per_group as usize;
    for number in 0..state.geometry.group_count {
        let group = state.groups[number as usize];
        if group.inode_bitmap == 0 {
            continue;
        }
        let bitmap = state.block(group.inode_bitmap)?;
        let first = number as usize * count;
        let mut directory_count = 0;
        for index in 0..count {
            let is_used = used.contains(first + index);
            let says = bitset::bit(&bitmap, index);
            directory_count += u32::from(says && directories.contains(first + index));
            if is_used != says {
                let inode = (first + index) as u32 + 1;
                let mut place = Place::inode(inode);
                place.group = Some(number);
                let kind = ProblemKind::InodeBitmapWrong;
                state
                    .report
                    .add_differing(kind, place, says.into(), is_used.into());
            }
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
                let place = Place::group(number);
                state
                    .report
                    .add_differing(kind, place, said.into(), counted.into());
            }
        }
        if !bitset::is_filled(&bitmap, count) && count < bits {
            state.problem(ProblemKind::InodeBitmapPadding, Place::group(number));
        }
    }
    let said = u64::from(state.raw.s_free_inodes_count.get());
    let is_known = state.groups.iter().all(|group| group.inode_bitmap != 0);
    if said != free && is_known {
        let kind = ProblemKind::FreeInodesWrong;
        state.report.add_differing(kind, Place::whole(), said, free);
    }
    Ok(())
}

/// Inodes in use and directories, by number less one.
fn used_inodes(state: &State<'_>) -> (BitSet, BitSet) {
    let count = state.geometry.inode_count as usize;
    let mut used = BitSet::new(count);
    for (index, inode) in state.inodes[1..].iter().enumerate() {
        if inode.is_used {
            used.insert(index);
        }
    }
    let mut directories = BitSet::new(count);
    for directory in &state.directories {
        directories.insert(directory.inode as usize - 1);
    }
    (used, directories)
}

/// The first places in which two bitmaps differ.
fn differences(left: &[u8], right: &[u8], count: usize) -> Vec<usize> {
    (0..count)
        .filter(|index| bitset::bit(left, *index) != bitset::bit(right, *index))
        .take(DIFFERENCES_MAX)
        .collect()
}
