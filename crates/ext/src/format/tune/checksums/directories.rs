//! Directory blocks with and without the tails of checksums.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::directory::{EntryHeader, EntryTail, TAIL_SIZE};
use layout::htree::{
    CountLimit, NODE_ENTRIES_OFFSET, ROOT_ENTRIES_OFFSET, ROOT_INFO_OFFSET, RootInfo, Tail, limit,
};
use layout::{Block, FileBlock};
use zerocopy::{FromBytes, IntoBytes};

use crate::dir;
use crate::disk::entry::{self, Bad, size_of_name};
use crate::error::Result;

/// The role of a block in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It has names.
    Leaf,
    /// It is a part of the index, whose entries start at this offset.
    Index(usize),
}

/// Returns the roles of the blocks of an indexed directory, in their order.
///
/// # Errors
/// Returns damage of the index, and the block that has it: without checksums it shows in the form
/// only. A block of names would be taken for one of the index, and lose its names.
pub(super) fn roles(
    blocks: &[FileBlock],
    levels_max: u8,
    has_tails: bool,
    read: impl Fn(FileBlock) -> Result<Option<Arc<Block>>>,
) -> Result<Result<Vec<Role>, (FileBlock, Bad)>> {
    let mut found = BTreeMap::from([(FileBlock::new(0), Role::Index(ROOT_ENTRIES_OFFSET))]);
    let mut level = vec![FileBlock::new(0)];
    let mut levels = 0;
    for depth in 0.. {
        let mut below = Vec::new();
        for block in level {
            let Some(image) = read(block)? else { continue };
            if depth == 0 {
                let (info, _) = RootInfo::ref_from_prefix(&image[ROOT_INFO_OFFSET..])
                    .expect("a block is longer than the root's information");
                levels = info.indirect_levels;
                if levels > levels_max {
                    let (offset, why) = (ROOT_INFO_OFFSET, "an index has too many levels");
                    return Ok(Err((block, Bad { offset, why })));
                }
            }
            match dir::blocks_below(&image, depth == 0, has_tails) {
                Ok(blocks) => below.extend(blocks),
                Err(bad) => return Ok(Err((block, bad))),
            }
        }
        if depth == levels {
            break;
        }
        below.retain(|child| {
            let role = Role::Index(NODE_ENTRIES_OFFSET);
            found.insert(*child, role).is_none()
        });
        level = below;
    }
    let role = |block| found.get(block).copied().unwrap_or(Role::Leaf);
    Ok(Ok(blocks.iter().map(role).collect()))
}

/// Returns the end of the last name of a leaf, and the offset of its entry; none without names.
fn last_used(bytes: &[u8]) -> Option<(usize, usize)> {
    let used = entry::entries(bytes).filter_map(|found| found.ok().filter(|one| one.inode != 0));
    let last = used.last()?;
    let end = last.offset + size_of_name(last.name.len());
    Some((last.offset, end))
}

/// Returns true if a leaf has room for a tail, or has one.
pub(super) fn has_room(bytes: &[u8]) -> bool {
    last_used(bytes).is_none_or(|(_, end)| end + TAIL_SIZE <= bytes.len())
}

/// Gives a leaf with room a tail: its last name reaches up to it.
pub(super) fn give_tail(bytes: &mut [u8]) {
    let end = bytes.len() - TAIL_SIZE;
    match last_used(bytes) {
        Some((offset, used)) => {
            assert!(used <= end, "the leaf has room for a tail");
            set_length(bytes, offset, end - offset);
        }
        None => {
            bytes[..size_of::<EntryHeader>()].fill(0);
            set_length(bytes, 0, end);
        }
    }
    bytes[end..].copy_from_slice(EntryTail::new(0).as_bytes());
}

/// Sets the length of an entry.
fn set_length(bytes: &mut [u8], offset: usize, length: usize) {
    let (header, _) =
        EntryHeader::mut_from_prefix(&mut bytes[offset..]).expect("an entry has its header");
    header.record_length.set(length as u16);
}

/// Returns true if the entries of an index block fit one with or without a tail.
pub(super) fn fits_limit(bytes: &[u8], offset: usize, has_tail: bool) -> bool {
    let (head, _) = CountLimit::ref_from_prefix(&bytes[offset..]).expect("a block holds it");
    usize::from(head.count.get()) <= limit(bytes.len(), offset, has_tail)
}

/// Gives an index block the limit of one with or without a tail, and the room for it.
pub(super) fn set_limit(bytes: &mut [u8], offset: usize, has_tail: bool) {
    let most = limit(bytes.len(), offset, has_tail);
    let (head, _) = CountLimit::mut_from_prefix(&mut bytes[offset..]).expect("a block holds it");
    head.limit.set(most as u16);
    let end = bytes.len();
    bytes[end - size_of::<Tail>()..].fill(0);
}

/// Makes an index block one without names, except for `.` and `..` of the root.
pub(super) fn empty_index(bytes: &mut [u8], offset: usize, has_tail: bool) {
    let tail = if has_tail { TAIL_SIZE } else { 0 };
    let end = bytes.len() - tail;
    if offset == ROOT_ENTRIES_OFFSET {
        bytes[ROOT_INFO_OFFSET..].fill(0);
        let second = size_of_name(1);
        set_length(bytes, second, end - second);
    } else {
        bytes.fill(0);
        set_length(bytes, 0, end);
    }
    if has_tail {
        bytes[end..].copy_from_slice(EntryTail::new(0).as_bytes());
    }
}
