//! Files within their inodes (`inline_data`).
//!
//! The inode table has the only copy of the contents: such a file has no pages, and a change of it
//! is one of metadata, in one transaction with its size. In every mode it is journaled.
//!
//! | operation | fits the inode | does not |
//! |---|---|---|
//! | write, truncate | stays | moves out first |
//! | punch, zero within the file | stays | |
//! | allocate, zero beyond the end | moves out | moves out |
//!
//! To move out is a transaction of its own, which changes neither size nor contents: the inode gets
//! a block map, and what it held becomes the first block. That block holds what was durable before.
//! So it is written before the inode changes, and if that fails, nothing moves; and it is ordered
//! in writeback mode, too, so that the commit flushes it. A file never moves back.

use core::ops::Range;
use std::sync::Arc;

use jbd2::Credits;
use layout::{Block, BlockNr, FileBlock};

use crate::cache::file_pages::Dirt;
use crate::cache::folio::Backing;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::{InodeState, now};
use crate::disk::metadata::Kind;
use crate::error::Result;
use crate::map::FileMap;
use crate::xattr::contents::{self, Contents};

/// Number of blocks that moving out may dirty besides those that mapping a block may: the inode,
/// and its journaled contents.
const CREDITS_MOVE: u32 = 2;

/// Reads at an offset; the caller has cut the range off at the end of the file.
pub(super) fn read(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    offset: u64,
    into: &mut [u8],
) -> Result<()> {
    let Contents { bytes, .. } = contents::read(core, inode.nr, state)?;
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let found = bytes.get(start..).unwrap_or_default();
    let count = found.len().min(into.len());
    into[..count].copy_from_slice(&found[..count]);
    into[count..].fill(0);
    Ok(())
}

/// Returns the contents as far as the file reaches, cut off or filled up with zeroes to a size.
/// A file may say that it reaches further than the inode has bytes; the rest reads as zeroes. None
/// if the inode has no room for the size.
fn resized(core: &Core, inode: &Inode, state: &InodeState, size: u64) -> Result<Option<Vec<u8>>> {
    let Contents { mut bytes, room } = contents::read(core, inode.nr, state)?;
    let Some(size) = usize::try_from(size).ok().filter(|size| *size <= room) else {
        return Ok(None);
    };
    bytes.truncate(usize::try_from(state.size).unwrap_or(usize::MAX));
    bytes.resize(size, 0);
    Ok(Some(bytes))
}

/// Stores all contents, with their length as the size, in one transaction.
fn store(core: &Core, inode: &Inode, state: &mut InodeState, bytes: &[u8]) -> Result<()> {
    let _table = core.hold_table(inode.nr)?;
    let mut handle = core.begin(Credits {
        blocks: 1,
        revokes: 0,
    })?;
    state.size = bytes.len() as u64;
    state.mtime = now();
    state.ctime = state.mtime;
    contents::store(core, &mut handle, inode.nr, state, bytes)?;
    handle.finish().map(drop)
}

/// Writes at an offset. Returns false if the contents have to move out first.
pub(super) fn write(
    core: &Core,
    inode: &Inode,
    state: &mut InodeState,
    offset: u64,
    from: &[u8],
) -> Result<bool> {
    let end = offset + from.len() as u64;
    let Some(mut bytes) = resized(core, inode, state, end.max(state.size))? else {
        return Ok(false);
    };
    rt::charge(rt::Cost::Copy(from.len() as u64));
    bytes[offset as usize..end as usize].copy_from_slice(from);
    store(core, inode, state, &bytes)?;
    Ok(true)
}

/// Sets the size. Returns false if the contents have to move out first.
pub(super) fn set_size(
    core: &Core,
    inode: &Inode,
    state: &mut InodeState,
    size: u64,
) -> Result<bool> {
    let Some(bytes) = resized(core, inode, state, size)? else {
        return Ok(false);
    };
    let is_cut = size < state.size;
    store(core, inode, state, &bytes)?;
    state.is_replaced |= is_cut && size == 0;
    Ok(true)
}

/// Writes zeroes to a range within the file. Returns false if the contents have to move out first.
pub(super) fn zero(
    core: &Core,
    inode: &Inode,
    state: &mut InodeState,
    range: Range<u64>,
) -> Result<bool> {
    let Some(mut bytes) = resized(core, inode, state, state.size)? else {
        return Ok(false);
    };
    bytes[range.start as usize..range.end as usize].fill(0);
    store(core, inode, state, &bytes)?;
    Ok(true)
}

/// Moves the contents out of the inode. If it fails, nothing has changed, and the caller tries
/// again by [`with_space`](super::with_space), without the inode lock in between.
pub(super) fn move_out(core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
    let Contents { mut bytes, .. } = contents::read(core, inode.nr, state)?;
    bytes.truncate(usize::try_from(state.size).unwrap_or(usize::MAX));
    if rt::mutant!("inline/moved-without-attribute") {
        bytes.truncate(contents::WORDS_BYTES);
    }
    let _table = core.hold_table(inode.nr)?;
    let credits = Credits {
        blocks: FileMap::DEEPEST.credits_to_map() + CREDITS_MOVE,
        revokes: 0,
    };
    let mut handle = core.begin(credits)?;
    if bytes.is_empty() {
        state.leave_inline(&mut handle, core.superblock.has_extents());
    } else {
        let mut image = Block::zeroed(core.block_bytes());
        image[..bytes.len()].copy_from_slice(&bytes);
        let image = image.into_arc();
        match contents::leave(core, &mut handle, inode, state, &image) {
            Ok(block) => put_page(core, &mut handle, inode, state, (block, image))?,
            Err(error) => {
                handle.finish()?;
                return Err(error);
            }
        }
    }
    contents::remove(core, &mut handle, inode.nr)?;
    if rt::mutant!("inline/moved-in-two-steps") {
        handle.tear(credits)?;
    }
    state.store(core, &mut handle, inode.nr, true)?;
    handle.finish().map(drop)
}

/// Puts what was within the inode into the file's first page.
fn put_page(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Arc<Inode>,
    state: &InodeState,
    (block, image): (BlockNr, Arc<Block>),
) -> Result<()> {
    let dirt = Dirt {
        ordered: match rt::mutant!("inline/moved-without-order") {
            true => None,
            false => handle.tid(),
        },
        since: rt::monotonic(),
    };
    let is_journaled = state.is_journaled(core);
    let mut inner = inode.pages.lock();
    let image = inner.change(
        &core.pages.counts,
        FileBlock::new(0),
        Backing::Mapped(block),
        (!is_journaled).then_some(dirt),
        |_| image,
    );
    if is_journaled {
        drop(inner);
        let buffer = core.buffers.get_new(block, Kind::Contents.of_volume());
        return handle.replace(&buffer, image);
    }
    core.pages.announce(&mut inner, inode, dirt);
    Ok(())
}

/// Drops the empty contents of a file that gets all of its blocks in the same handle.
pub(super) fn leave_empty(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
) -> Result<()> {
    contents::remove(core, handle, inode.nr)?;
    state.leave_inline(handle, core.superblock.has_extents());
    state.store(core, handle, inode.nr, true)
}
