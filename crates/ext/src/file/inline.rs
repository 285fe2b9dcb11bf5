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
//! a block map, and what it held becomes the first block. That block is ordered in writeback mode,
//! too: it holds what was durable before. A file never moves back.

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
use crate::error::{Error, Result};
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
/// None if the inode has no room for that, or not for the file that there is.
fn resized(core: &Core, inode: &Inode, state: &InodeState, size: u64) -> Result<Option<Vec<u8>>> {
    let Contents { mut bytes, room } = contents::read(core, inode.nr, state)?;
    let fits = |size: u64| usize::try_from(size).ok().filter(|size| *size <= room);
    let (Some(old), Some(size)) = (fits(state.size), fits(size)) else {
        return Ok(None);
    };
    bytes.truncate(old);
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

/// Moves the contents out of the inode. If it fails, nothing has changed.
pub(super) fn move_out(core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
    loop {
        let has_pending = core.space.has_pending();
        match move_once(core, inode, state) {
            Err(Error::NoSpace) if has_pending && core.wait_for_space()? => {}
            result => return result,
        }
    }
}

fn move_once(core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
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
    let words = state.leave_inline(&mut handle, core.superblock.has_extents());
    if rt::mutant!("inline/moved-in-two-steps") {
        state.store(core, &mut handle, inode.nr, true)?;
        handle.tear(credits)?;
    }
    if !bytes.is_empty() {
        let (map, first) = (FileMap::of(state), FileBlock::new(0));
        let found = map.find_or_allocate(core, &mut handle, inode, state, first, 1);
        let run = match found {
            Ok((run, _)) => run,
            Err(error) => {
                state.return_inline(&mut handle, words);
                handle.finish()?;
                return Err(error);
            }
        };
        put_page(core, &mut handle, inode, state, (run.first, &bytes))?;
    }
    state.store(core, &mut handle, inode.nr, true)?;
    contents::remove(core, &mut handle, inode.nr)?;
    handle.finish().map(drop)
}

/// Puts what was within the inode into the file's first page.
fn put_page(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Arc<Inode>,
    state: &InodeState,
    (block, bytes): (BlockNr, &[u8]),
) -> Result<()> {
    let mut image = Block::zeroed(core.block_bytes());
    image[..bytes.len()].copy_from_slice(bytes);
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
        |_| image.into_arc(),
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
    state.leave_inline(handle, core.superblock.has_extents());
    state.store(core, handle, inode.nr, true)?;
    contents::remove(core, handle, inode.nr)
}
