//! The inode tables: every inode in use, its fields, its block map and its attributes.

mod bad;
mod encrypted;
mod extra;
mod fields;
mod inline;
mod owners;
mod reserved;
mod resize;
mod values;

use std::ops::Range;

use layout::checksum::metadata;
use layout::inode::Inode;
use layout::mode::FileType;
use zerocopy::FromBytes;

use crate::error::Error;
use crate::image::Bytes;
use crate::inode_states::{InodeState, Usage};
use crate::kind::ProblemKind;
use crate::map::{self, Root};
use crate::problem::Location;
use crate::reserved_inodes::{BAD_BLOCKS, ROOT};
use crate::state::{Directory, State};
use crate::visit::Mapped;

pub(crate) use resize::check as check_resize;

/// Number of bytes of an inode table read at once.
const PART_BYTES: u64 = 1 << 20;

/// An inode in its table.
pub(crate) struct Slot<'s> {
    pub(crate) number: u32,
    pub(crate) raw: &'s Inode,
    /// Bytes after the base part.
    pub(crate) rest: &'s [u8],
}

/// Reads all inode tables.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    bad::read_list(state)?;
    for group in 0..state.geometry.group_count {
        let table = state.groups[group as usize].inode_table;
        let count = initialized_in(state, group);
        let end = table + u64::from(count.div_ceil(state.geometry.inodes_per_block()));
        let mut next = table;
        while next < end {
            let part = next_part(state, group, next..end);
            let (start, stop) = (
                state.geometry.byte_of(part.start),
                state.geometry.byte_of(part.end),
            );
            state.image.prefetch(&[(start, stop - start)])?;
            for block in part.clone() {
                check_block(state, group, block)?;
            }
            next = part.end;
        }
    }
    Ok(())
}

/// Returns the number of inodes at the start of a group's table that may be in use.
fn initialized_in(state: &State<'_>, group: u32) -> u32 {
    let all = state.geometry.inodes_per_group;
    state.groups[group as usize].initialized_inodes(all)
}

/// Returns the next part of a table to read at once. Holes are skipped: their inodes are free.
/// Reserved inodes and inodes in bad blocks count as in use anywhere.
fn next_part(state: &State<'_>, group: u32, blocks: Range<u64>) -> Range<u64> {
    let block_bytes = state.geometry.block_bytes as u64;
    let is_reserved = first_inode_in(state, group, blocks.start) < state.geometry.first_inode;
    let part = if is_reserved || !state.bad_blocks.is_empty() {
        blocks
    } else {
        let bytes = blocks.start * block_bytes..blocks.end * block_bytes;
        let data = state.image.next_data(bytes);
        data.start / block_bytes..data.end.div_ceil(block_bytes)
    };
    part.start..part.end.min(part.start + (PART_BYTES / block_bytes).max(1))
}

/// Returns the number of the first inode in a block of a group's table.
fn first_inode_in(state: &State<'_>, group: u32, block: u64) -> u32 {
    let index = (block - state.groups[group as usize].inode_table) as u32;
    group * state.geometry.inodes_per_group + index * state.geometry.inodes_per_block() + 1
}

fn check_block(state: &mut State<'_>, group: u32, block: u64) -> Result<(), Error> {
    let first = first_inode_in(state, group, block);
    let end = group * state.geometry.inodes_per_group + initialized_in(state, group);
    let count = state.geometry.inodes_per_block().min(end - (first - 1));
    if state.bad_blocks.contains(state.geometry.place_of(block)) {
        bad::lose(state, first, count);
        return Ok(());
    }
    let bytes = state.block(block)?;
    let slots = bytes.chunks_exact(state.geometry.inode_bytes);
    for (number, bytes) in (first..=first + (count - 1)).zip(slots) {
        check_slot(state, number, bytes)?;
    }
    Ok(())
}

/// Reads an inode from any group. Returns `None` if its table has no valid location.
pub(crate) fn read(state: &mut State<'_>, number: u32) -> Result<Option<Inode>, Error> {
    let bytes = bytes_of(state, number)?;
    Ok(bytes.and_then(|bytes| base_of(&bytes)))
}

/// Reads an inode as [`read`] does. Returns `None` also if its checksum is wrong.
pub(crate) fn read_sealed(state: &mut State<'_>, number: u32) -> Result<Option<Inode>, Error> {
    let bytes = bytes_of(state, number)?;
    let seed = state.checksum_seed;
    let is_good =
        |bytes: &Bytes<'_>| seed.is_none_or(|seed| metadata::is_inode_good(seed, number, bytes));
    Ok(bytes.filter(is_good).and_then(|bytes| base_of(&bytes)))
}

fn base_of(bytes: &[u8]) -> Option<Inode> {
    Inode::read_from_prefix(bytes).ok().map(|(inode, _)| inode)
}

fn bytes_of<'a>(state: &mut State<'a>, number: u32) -> Result<Option<Bytes<'a>>, Error> {
    let group = state.geometry.group_of_inode(number);
    let table = state.groups[group as usize].inode_table;
    if table == 0 {
        return Ok(None);
    }
    let index = (number - 1) % state.geometry.inodes_per_group;
    let size = state.geometry.inode_bytes;
    let offset = state.geometry.byte_of(table) + u64::from(index) * size as u64;
    state.image.bytes(offset, size).map(Some)
}

fn check_slot(state: &mut State<'_>, number: u32, bytes: &[u8]) -> Result<(), Error> {
    let Ok((raw, rest)) = Inode::ref_from_prefix(bytes) else {
        return Ok(());
    };
    let slot = Slot { number, raw, rest };
    if let Some(seed) = state.checksum_seed
        && !metadata::is_inode_good(seed, number, bytes)
    {
        state.problem(ProblemKind::InodeChecksum, Location::inode(number));
        if number == BAD_BLOCKS {
            let kind = ProblemKind::BadBlocksInodeInvalid;
            state.problem(kind, Location::inode(number));
        }
    }
    if number < state.geometry.first_inode && number != ROOT {
        return reserved::check(state, &slot);
    }
    let (links, deletion) = (raw.links_count.get(), raw.deletion_time.get());
    if links == 0 && deletion == 0 && raw.mode.get() == 0 {
        return Ok(());
    }
    check_deletion(state, &slot);
    if links == 0 {
        let file_type = FileType::from_mode(raw.mode.get());
        state.inodes[number].file_type = file_type.raw();
        return Ok(());
    }
    check_used(state, &slot)
}

/// Checks the deletion time, which is set exactly if the inode is free; a small value is the next
/// inode of an orphan list.
fn check_deletion(state: &mut State<'_>, slot: &Slot<'_>) {
    let place = || Location::inode(slot.number);
    let (links, deletion) = (slot.raw.links_count.get(), slot.raw.deletion_time.get());
    let is_time = deletion >= state.geometry.inode_count || !state.has_plausible_times();
    if deletion != 0 && !is_time {
        let kind = ProblemKind::DeletionTimeIsInode;
        state.report.add_found(kind, place(), deletion.into());
    }
    if deletion != 0 && links != 0 {
        let kind = ProblemKind::InodeInUseHasDeletionTime;
        state.report.add_found(kind, place(), deletion.into());
    } else if deletion == 0 && links == 0 && slot.raw.mode.get() != 0 {
        state.problem(ProblemKind::DeletedInodeWithoutTime, place());
    }
}

fn check_used(state: &mut State<'_>, slot: &Slot<'_>) -> Result<(), Error> {
    let file_type = FileType::from_mode(slot.raw.mode.get());
    let is_good = fields::check(state, slot, file_type)?;
    let of_inode = extra::check(state, slot)?;
    inline::check(state, slot, file_type);
    encrypted::check(state, slot)?;
    values::note(state, slot);
    let code = if is_good {
        file_type.raw()
    } else {
        InodeState::BAD
    };
    let has_map = fields::has_map(state, slot.raw, file_type);
    state.inodes[slot.number] = InodeState {
        references: 0,
        links: slot.raw.links_count.get(),
        file_type: code,
        usage: if has_map { Usage::Mapped } else { Usage::Used },
    };
    if slot.number == ROOT && file_type != FileType::Directory {
        state.problem(ProblemKind::RootNotDirectory, Location::inode(ROOT));
    }
    count(state, slot, file_type);
    let counted = of_inode + extra::check_block(state, slot)?;
    let mapped = check_map(state, slot, file_type, has_map)?;
    fields::check_sizes(state, slot, file_type, &mapped, counted.clusters);
    owners::count(state, slot, (mapped.clusters, counted));
    Ok(())
}

fn check_map(
    state: &mut State<'_>,
    slot: &Slot<'_>,
    file_type: FileType,
    has_map: bool,
) -> Result<Mapped, Error> {
    let is_directory = file_type == FileType::Directory;
    let first_block = state.directory_blocks.len();
    let root = has_map.then(|| Root::of(state, slot.raw));
    let mapped = map::check(state, slot.number, root.as_ref(), file_type)?;
    if is_directory {
        let flags = slot.raw.flags();
        state.directories.push(Directory {
            inode: slot.number,
            parent: 0,
            dotdot: 0,
            first_block,
            block_count: state.directory_blocks.len() - first_block,
            is_indexed: has_map && flags.contains(layout::inode::InodeFlags::INDEX),
            has_extents: flags.contains(layout::inode::InodeFlags::EXTENTS),
            generation: slot.raw.generation.get(),
            is_encrypted: state.policies.of(slot.number).is_some(),
            is_folded: state.has_folding() && flags.contains(layout::inode::InodeFlags::CASEFOLD),
        });
    }
    Ok(mapped)
}

fn count(state: &mut State<'_>, slot: &Slot<'_>, file_type: FileType) {
    let statistics = &mut state.report.statistics;
    statistics.used_inodes += 1;
    match file_type {
        FileType::Regular => statistics.regular_files += 1,
        FileType::Directory => statistics.directories += 1,
        FileType::CharacterDevice | FileType::BlockDevice => statistics.devices += 1,
        FileType::Fifo | FileType::Socket => statistics.pipes += 1,
        FileType::Symlink => {
            statistics.symlinks += 1;
            statistics.fast_symlinks += u32::from(fields::is_fast_symlink(slot.raw));
        }
        FileType::Unknown => {}
    }
}
