//! Bitmaps and counts. As in e2fsck, counts are compared with the bitmaps on disk, so that a fault
//! in a bitmap is not reported again in its count.

use std::ops::Deref;

use layout::checksum::metadata;
use layout::group::{GroupFlags, SIZE_64BIT};

use crate::bitset;
use crate::blocks::{self, BlockSet};
use crate::descriptor::Group;
use crate::error::Error;
use crate::groups;
use crate::image::Bytes;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Maximum number of differences of one bitmap that are reported one by one.
const DIFFERENCES_MAX: usize = 16;

/// A bitmap on disk, or what stands in its place in an uninitialised group.
enum Bitmap<'b> {
    Read(Bytes<'b>),
    Computed(&'b [u8]),
}

impl Bitmap<'_> {
    fn is_read(&self) -> bool {
        matches!(self, Self::Read(_))
    }
}

impl Deref for Bitmap<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Computed(bytes) => bytes,
        }
    }
}

/// Compares all bitmaps and counts.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    check_blocks(state)?;
    check_inodes(state)
}

fn check_blocks(state: &mut State<'_>) -> Result<(), Error> {
    let mut free = 0;
    let bits = state.geometry.block_bytes * 8;
    let per_group = state.geometry.clusters_per_group() as usize;
    let log = state.geometry.cluster_log;
    let mut found = vec![0; state.geometry.block_bytes];
    let mut computed = vec![0; state.geometry.block_bytes];
    let uninitialized = of_uninitialized(state);
    for number in 0..state.geometry.group_count {
        let group = state.groups[number as usize];
        if group.block_bitmap == 0 {
            continue;
        }
        let bitmap = if group.lacks_block_bitmap() {
            computed.fill(0);
            uninitialized.add_clusters_to(number, log, &mut computed);
            Bitmap::Computed(&computed)
        } else {
            Bitmap::Read(state.block(group.block_bitmap)?)
        };
        let count = state.geometry.clusters_in(number) as usize;
        found.fill(0);
        state.metadata.add_clusters_to(number, log, &mut found);
        state.claimed.add_to(number, &mut found);
        if !bitset::are_equal(&bitmap, &found, count) {
            report_blocks(state, number, &bitmap, &found);
        }
        check_checksum(state, number, &bitmap, ProblemKind::BlockBitmapChecksum);
        let clear = bitset::count_clear(&bitmap, count);
        free += u64::from(clear);
        if clear != group.free_blocks {
            let kind = ProblemKind::FreeBlocksOfGroupWrong;
            let (said, clear) = (group.free_blocks.into(), clear.into());
            state
                .report
                .add_differing(kind, Location::group(number), said, clear);
        }
        // A bitmap that is not on disk has no padding, but the last group must have one.
        let has_padding = bitmap.is_read() || count < per_group;
        if has_padding && !bitset::is_filled(&bitmap, count) && count < bits {
            state.problem(ProblemKind::BlockBitmapPadding, Location::group(number));
        }
    }
    // The superblock counts blocks, the descriptors clusters.
    let free = free << log;
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

/// Returns the metadata of all groups without a block bitmap, wherever it lies.
fn of_uninitialized(state: &State<'_>) -> BlockSet {
    let geometry = &state.geometry;
    let is_lazy = state.groups.iter().any(Group::lacks_block_bitmap);
    let group_count = if is_lazy { geometry.group_count } else { 0 };
    let mut blocks = BlockSet::new(group_count, geometry.blocks_per_group);
    for number in 0..group_count {
        if !state.groups[number as usize].lacks_block_bitmap() {
            continue;
        }
        let supers = groups::supers(state, number);
        for range in groups::places(state, number).chain([supers]) {
            for (group, start, end) in geometry.pieces(range.start, range.end) {
                blocks.insert_run(group, start, end);
            }
        }
    }
    blocks
}

fn report_blocks(state: &mut State<'_>, number: u32, bitmap: &[u8], found: &[u8]) {
    let first = state.geometry.first_block_of(number);
    let count = state.geometry.clusters_in(number) as usize;
    let log = state.geometry.cluster_log;
    let mut is_any_missing = false;
    for index in differences(bitmap, found, count) {
        let place = Location::group(number).at_block(first + ((index as u64) << log));
        let says = u64::from(bitset::bit(bitmap, index));
        is_any_missing |= says == 0;
        let kind = ProblemKind::BlockBitmapWrong;
        state.report.add_differing(kind, place, says, 1 - says);
    }
    let flags = state.groups[number as usize].flags;
    if is_any_missing && flags.contains(GroupFlags::BLOCK_UNINIT) {
        let kind = ProblemKind::GroupBlocksUninitialized;
        state.problem(kind, Location::group(number));
    }
}

/// Checks the checksum of a bitmap that the descriptor does not mark as uninitialised.
fn check_checksum(state: &mut State<'_>, number: u32, bitmap: &[u8], kind: ProblemKind) {
    let Some(seed) = state.checksum_seed else {
        return;
    };
    let group = &state.groups[number as usize];
    let (flag, bits, found) = if kind == ProblemKind::BlockBitmapChecksum {
        let bits = state.geometry.clusters_per_group();
        (GroupFlags::BLOCK_UNINIT, bits, group.block_bitmap_checksum)
    } else {
        let bits = state.geometry.inodes_per_group;
        (GroupFlags::INODE_UNINIT, bits, group.inode_bitmap_checksum)
    };
    if group.flags.contains(flag) {
        return;
    }
    let computed = metadata::bitmap(seed, bitmap, bits);
    let has_high = state.geometry.descriptor_bytes >= SIZE_64BIT;
    let expected = if has_high {
        computed
    } else {
        computed & 0xFFFF
    };
    if found != expected {
        let place = Location::group(number);
        state
            .report
            .add_differing(kind, place, found.into(), expected.into());
    }
}

fn check_inodes(state: &mut State<'_>) -> Result<(), Error> {
    let mut free = 0;
    let bits = state.geometry.block_bytes * 8;
    let count = state.geometry.inodes_per_group as usize;
    let mut used = vec![0; state.geometry.block_bytes];
    let none = vec![0; state.geometry.block_bytes];
    for number in 0..state.geometry.group_count {
        let group = state.groups[number as usize];
        if group.inode_bitmap == 0 {
            continue;
        }
        let bitmap = if group.lacks_inodes() {
            Bitmap::Computed(&none)
        } else {
            Bitmap::Read(state.block(group.inode_bitmap)?)
        };
        let first = number * count as u32 + 1;
        let directory_count = collect_inodes(state, first, &bitmap, &mut used);
        if !bitset::are_equal(&bitmap, &used, count) {
            report_inodes(state, number, &bitmap, &used);
        }
        check_checksum(state, number, &bitmap, ProblemKind::InodeBitmapChecksum);
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
        // As in e2fsck, a group whose descriptor has a wrong checksum may be initialised.
        let has_padding = bitmap.is_read() || !group.is_sealed;
        let padded = if has_padding && count < bits {
            Some(state.block(group.inode_bitmap)?)
        } else {
            None
        };
        if padded.is_some_and(|bitmap| !bitset::is_filled(&bitmap, count)) {
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
