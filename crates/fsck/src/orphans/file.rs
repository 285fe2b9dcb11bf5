//! The orphan file: a regular file without a name, whose blocks hold the numbers of orphans.
//!
//! As in e2fsck, slots in use are a problem, whether orphans are marked as present or not: a file
//! system that was unmounted has none.

use std::collections::BTreeSet;

use layout::checksum::metadata;
use layout::feature::{Compatible, ReadOnlyCompatible};
use layout::inode::Inode;
use layout::mode::FileType;
use layout::orphan::{self, Tail};

use crate::error::Error;
use crate::inodes;
use crate::kind::ProblemKind;
use crate::map::{self, Root};
use crate::problem::Location;
use crate::state::State;
use crate::visit::Next;

/// Largest size of the file in bytes: the engine and Linux refuse a larger one.
const BYTES_MAX: u64 = 8 << 20;

/// The mapped blocks of the file: file block and device block, in order.
type Blocks = Vec<(u64, u64)>;

/// Checks the file and the marks in the superblock. `seen` are the inodes of the orphan list.
pub(super) fn check(state: &mut State<'_>, seen: &mut BTreeSet<u32>) -> Result<(), Error> {
    let (compatible, read_only) = (
        state.features.compatible,
        state.features.read_only_compatible,
    );
    let is_present = read_only.contains(ReadOnlyCompatible::ORPHAN_PRESENT);
    if !compatible.contains(Compatible::ORPHAN_FILE) {
        if is_present {
            let kind = ProblemKind::OrphansPresentWithoutFile;
            state.problem(kind, Location::whole());
        }
        return check_unused(state);
    }
    if !compatible.contains(Compatible::HAS_JOURNAL) {
        let kind = ProblemKind::OrphanFileWithoutJournal;
        state.problem(kind, Location::whole());
    }
    let number = state.raw.orphan_file_inode.get();
    let is_reserved = number < state.geometry.first_inode;
    let Some(inode) = find(state, number)?.filter(|_| !is_reserved) else {
        let (kind, found) = (ProblemKind::OrphanFileMissing, number.into());
        state.report.add_found(kind, Location::whole(), found);
        return Ok(());
    };
    if FileType::from_mode(inode.mode.get()) != FileType::Regular {
        state.problem(ProblemKind::OrphanFileMode, Location::inode(number));
        return Ok(());
    }
    if size(&inode) > BYTES_MAX {
        let (kind, place) = (ProblemKind::OrphanFileSize, Location::inode(number));
        state.report.add_found(kind, place, size(&inode));
        return Ok(());
    }
    let blocks = blocks_of(state, number, &inode)?;
    check_shape(state, number, &inode, &blocks);
    let owner = state.owner_seed(number, inode.generation.get());
    let mut has_orphans = false;
    for (file_block, block) in blocks {
        let place = Location::inode(number)
            .at_block(block)
            .at_file_block(file_block);
        has_orphans |= check_block(state, owner, block, &place, seen)?;
    }
    if is_present && !has_orphans {
        let kind = ProblemKind::OrphansPresentWithoutSlots;
        state.problem(kind, Location::whole());
    }
    Ok(())
}

/// Checks that the inode of the orphan file is not in use without the feature.
fn check_unused(state: &mut State<'_>) -> Result<(), Error> {
    let number = state.raw.orphan_file_inode.get();
    if number != 0 && find(state, number)?.is_some() {
        state.problem(ProblemKind::OrphanFileNotClear, Location::inode(number));
    }
    Ok(())
}

/// Returns the inode of the orphan file, if there is one that is in use.
fn find(state: &mut State<'_>, number: u32) -> Result<Option<Inode>, Error> {
    if !state.geometry.has_inode(number) {
        return Ok(None);
    }
    let inode = inodes::read(state, number)?;
    Ok(inode.filter(|inode| inode.links_count.get() != 0))
}

fn size(inode: &Inode) -> u64 {
    u64::from(inode.size_low.get()) | (u64::from(inode.size_high.get()) << 32)
}

fn blocks_of(state: &mut State<'_>, number: u32, inode: &Inode) -> Result<Blocks, Error> {
    let root = Root::of(state, inode);
    let blocks_max = BYTES_MAX / state.geometry.block_bytes as u64;
    let mut blocks = Blocks::new();
    map::walk(state, number, &root, &mut |state, visit| {
        if state.is_exhausted() {
            return Next::Stop;
        }
        if !state.geometry.contains(visit.block) {
            return Next::Skip;
        }
        if visit.level > 0 {
            return Next::Below;
        }
        blocks.push((visit.file_block, visit.block));
        // The size cannot match this block, and is reported.
        match visit.file_block < blocks_max {
            true => Next::Below,
            false => Next::Stop,
        }
    })?;
    Ok(blocks)
}

/// Checks that the file is mapped from its start to its end, and no further.
fn check_shape(state: &mut State<'_>, number: u32, inode: &Inode, blocks: &Blocks) {
    let size = size(inode);
    let block_bytes = state.geometry.block_bytes as u64;
    let end = blocks.last().map_or(0, |(file_block, _)| file_block + 1);
    if size == 0 || size != end * block_bytes {
        let kind = ProblemKind::OrphanFileSize;
        let (place, expected) = (Location::inode(number), end * block_bytes);
        state.report.add_differing(kind, place, size, expected);
    }
    if blocks.len() as u64 != end {
        state.problem(ProblemKind::OrphanFileHole, Location::inode(number));
    }
}

/// Checks a block. Returns true if slots are in use.
fn check_block(
    state: &mut State<'_>,
    owner: Option<u32>,
    block: u64,
    place: &Location,
    seen: &mut BTreeSet<u32>,
) -> Result<bool, Error> {
    let bytes = state.block(block)?;
    let Some(tail) = Tail::of_block(&bytes) else {
        state.problem(ProblemKind::OrphanBlockInvalid, place.clone());
        return Ok(false);
    };
    if let Some(owner) = owner
        && tail.checksum.get() != metadata::orphan_block(owner, block, &bytes)
    {
        state.problem(ProblemKind::OrphanBlockChecksum, place.clone());
        return Ok(false);
    }
    let orphans: Vec<u32> = orphan::used_slots(&bytes)
        .map(|(_, number)| number)
        .collect();
    if orphans.is_empty() {
        return Ok(false);
    }
    let (kind, count) = (ProblemKind::OrphanSlotUsed, orphans.len() as u64);
    state.report.add_found(kind, place.clone(), count);
    for number in orphans {
        if super::read(state, number, place.clone())?.is_none() {
            continue;
        }
        if seen.insert(number) {
            state.report.statistics.orphans += 1;
        } else {
            state.problem(ProblemKind::OrphanTwice, Location::inode(number));
        }
    }
    Ok(true)
}
