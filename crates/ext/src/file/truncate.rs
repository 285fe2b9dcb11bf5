//! Setting the size, and deleting.
//!
//! Shrinking puts the inode on the orphan list and stores the new size in the transaction that
//! starts to free blocks; the transaction that frees the last block removes the inode from the
//! list. After a crash in between, the next open completes the truncation. The part of the last
//! block beyond the new size becomes zero, ordered before the new size. If a device fails in
//! between, the inode stays on the list, and the remaining blocks are freed before the file grows
//! again.
//!
//! Pages in flight are waited for before blocks are freed, because the blocks may soon be allocated
//! again.

use std::sync::Arc;

use jbd2::Credits;
use layout::inode_flags::InodeFlags;
use layout::{BlockNr, FileBlock};
use rt::atomic::Ordering;

use super::read::load;
use super::{ahead, delayed, inline, kept_clusters};
use crate::cache::folio::Backing;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::credits::Step;
use crate::core::handle::{CREDITS_MAX, CREDITS_MAX_EXTENTS, Handle};
use crate::disk::extents::FILE_BLOCKS;
use crate::disk::inode::{InodeState, now};
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::file::large_file::{hold_for_large_file, note_large_file};
use crate::file::live::begin_change;
use crate::file::tail::{clear_tail, zero_from};
use crate::map::{FileMap, Mapped};
use crate::writeback::pages::wait_written;
use crate::{orphan, xattr};

/// Returns the credits of a truncation's first part: freeing, and the journaled last block.
const fn credits_to_shrink(map: FileMap) -> Credits {
    let free = map.credits_to_free();
    Credits {
        blocks: free.blocks + 4,
        revokes: free.revokes,
    }
}
const _: () = assert!(credits_to_shrink(FileMap::Indirect).blocks <= CREDITS_MAX);
const _: () = assert!(credits_to_shrink(FileMap::DEEPEST).blocks <= CREDITS_MAX_EXTENTS);

/// Sets the size, freeing or zeroing as needed, protected by the orphan list. Takes the inode lock.
pub(crate) fn truncate(core: &Core, inode: &Arc<Inode>, size: u64) -> Result<()> {
    core.check_writable()?;
    let is_set = core.superblock.has_inline_data()
        && delayed::with_space(core, || set_size_within(core, inode, size))?;
    let is_synchronous = {
        let mut state = inode.state.write();
        begin_change(core, &mut state)?;
        if size > FileMap::of(&state).size_max(core) {
            return Err(Error::FileTooLarge);
        }
        ahead::settle(inode);
        if !is_set {
            set_size(core, inode, &mut state, size)?;
        }
        core.options.sync || state.flags.contains(InodeFlags::SYNC)
    };
    if is_synchronous {
        delayed::sync(core, inode, false)?;
    }
    Ok(())
}

/// Sets the size of a file within its inode, or moves the contents out. Returns true if the size is
/// set; otherwise the file has a block map, or cannot have the size.
fn set_size_within(core: &Core, inode: &Arc<Inode>, size: u64) -> Result<bool> {
    let mut state = inode.state.write();
    begin_change(core, &mut state)?;
    if !state.is_inline() || size > FileMap::of(&state).size_max(core) {
        return Ok(false);
    }
    ahead::settle(inode);
    let is_set = inline::set_size(core, inode, &mut state, size)?;
    if !is_set {
        inline::move_out(core, inode, &mut state)?;
    }
    Ok(is_set)
}

/// Sets the size of a file with a block map.
fn set_size(core: &Core, inode: &Arc<Inode>, state: &mut InodeState, size: u64) -> Result<()> {
    let _table = core.hold_table(inode.nr)?;
    if size < state.size {
        return shrink(core, inode, state, size);
    }
    finish_cut(core, inode, state)?;
    if size == state.size {
        free_behind(core, inode, state)?;
    } else {
        // The new size is published at once.
        delayed::allocate(core, inode, state)?;
    }
    grow(core, inode, state, size)
}

/// Continues a truncation that a device failure interrupted, before the size grows, so that the
/// blocks it was to free never appear. The caller holds the inode's block of the table.
pub(super) fn finish_cut(core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
    if !state.is_cut {
        return Ok(());
    }
    let size = state.size;
    shrink(core, inode, state, size)
}

/// Cuts a file to its size at the start of an allocation, or to what was written since.
pub(super) fn cut_to_written(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    let mut state = inode.state.write();
    let size = inode.written_end.load(Ordering::Relaxed);
    if state.size <= size {
        return Ok(());
    }
    ahead::settle(inode);
    let _table = core.hold_table(inode.nr)?;
    shrink(core, inode, &mut state, size)
}

/// Frees the blocks that were preallocated beyond the end.
fn free_behind(core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
    let size = state.size;
    let end = FileBlock::new(size.div_ceil(u64::from(core.geometry().block_bytes)));
    if FileMap::of(state).has_blocks_from(core, inode, state, end)? {
        shrink(core, inode, state, size)?;
    }
    Ok(())
}

pub(super) fn grow(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    size: u64,
) -> Result<()> {
    if size > state.size {
        clear_tail(core, inode, state)?;
    }
    let _superblock = hold_for_large_file(core, size)?;
    let mut handle = core.begin(Credits {
        blocks: 2,
        revokes: 0,
    })?;
    handle.describe();
    let has_grown = size > state.size;
    state.size = size;
    state.mtime = now();
    state.ctime = state.mtime;
    note_large_file(core, &mut handle, size)?;
    state.store(core, &mut handle, inode.nr, has_grown)?;
    handle.finish()?;
    Ok(())
}

/// Completes a truncation that a crash interrupted, at open.
pub(crate) fn finish_truncation(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    let mut state = inode.state.write();
    let _table = core.hold_table(inode.nr)?;
    // Blocks beyond the end of a file with verity are its hashes.
    let has_hashes = state.flags.contains(InodeFlags::VERITY);
    let is_kept = has_hashes && !rt::mutant!("verity/hashes-freed");
    if !state.has_map(core) || is_kept {
        return leave_list(core, inode, &mut state);
    }
    let size = state.size;
    shrink(core, inode, &mut state, size)
}

/// Removes an inode that keeps its blocks from the orphan list.
fn leave_list(core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
    let _held = core.hold_for_names(&[inode.nr])?;
    let mut handle = core.begin(orphan::CREDITS_FINISH)?;
    orphan::remove(core, &mut handle, inode.nr, state)?;
    state.store(core, &mut handle, inode.nr, true)?;
    handle.finish()?;
    Ok(())
}

/// Truncates a file (or directory) to a size that is at most its own.
fn shrink(core: &Core, inode: &Arc<Inode>, state: &mut InodeState, size: u64) -> Result<()> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let keep = FileBlock::new(size.div_ceil(block_bytes));
    let last = FileBlock::new(size / block_bytes);
    // Zeroes would not be zeroes to a reader with the key.
    let is_encrypted = state.flags.contains(InodeFlags::ENCRYPT);
    let is_encrypted = is_encrypted && !rt::mutant!("encrypted/tail-zeroed");
    let tail = if size.is_multiple_of(block_bytes) || is_encrypted {
        None
    } else {
        load(core, inode, state, last)?
    };
    let tail_at = match &tail {
        Some(_) => backing_of(core, inode, state, last)?,
        None => None,
    };
    let _superblock = core.hold_superblock()?;
    let map = FileMap::of(state);
    kept_clusters::write(core, inode, keep.get()..FILE_BLOCKS)?;
    let mut handle = drop_pages(core, inode, state, keep)?;
    orphan::add(core, &mut handle, inode.nr, state)?;
    state.is_cut = true;
    // Continuing an earlier truncation has no visible effect.
    if size < state.size {
        state.is_replaced |= size == 0;
        state.size = size;
        if !rt::mutant!("delayed/size-on-disk-not-cut") {
            state.size_on_disk = state.size_on_disk.filter(|on_disk| *on_disk < size);
        }
        state.mtime = now();
        state.ctime = state.mtime;
    }
    if let Some(backing) = tail_at {
        zero_from(core, &mut handle, inode, state, backing, last, tail)?;
    }
    state.store(core, &mut handle, inode.nr, true)?;
    let freed = map.free_from(core, &mut handle, inode, state, keep);
    state.is_cut = freed.is_err();
    // An inode without links stays on the list until it is deleted.
    if freed.is_ok() && state.links > 0 {
        orphan::remove(core, &mut handle, inode.nr, state)?;
    }
    core.discard_window(&inode.window);
    state.store(core, &mut handle, inode.nr, true)?;
    handle.finish()?;
    freed
}

/// Returns the place of the contents of a block; none in a hole.
fn backing_of(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    block: FileBlock,
) -> Result<Option<Backing>> {
    if inode.pages.lock().is_delayed(block) {
        return Ok(Some(Backing::Delayed));
    }
    match FileMap::of(state).find(core, inode, state, block, 1)? {
        Mapped::Run(run) => Ok(Some(Backing::Mapped(run.first))),
        Mapped::Unwritten(_) | Mapped::Hole(_) => Ok(None),
    }
}

/// Drops the pages from a block on, within a new transaction.
fn drop_pages<'c>(
    core: &'c Core,
    inode: &Arc<Inode>,
    state: &InodeState,
    from: FileBlock,
) -> Result<Handle<'c>> {
    let credits = credits_to_shrink(FileMap::of(state));
    let credits = core.credits(Step::Free(state.sectors), credits);
    loop {
        wait_written(core, inode);
        let mut handle = core.begin(credits)?;
        handle.describe();
        let mut inner = inode.pages.lock();
        if !inner.is_busy(from) {
            let tid = handle.tid();
            core.drop_pages(&mut inner, inode, from, None, tid);
            drop(inner);
            return Ok(handle);
        }
        drop(inner);
        handle.finish()?;
    }
}

/// Frees all blocks of an inode without links and pins, and the inode itself; it is on the orphan
/// list. Does nothing if another thread has deleted or opened it meanwhile.
pub(crate) fn delete(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    let mut state = inode.state.write();
    if state.links > 0 || !state.is_orphan || core.inodes.is_pinned(inode) {
        return Ok(());
    }
    ahead::settle(inode);
    let has_values = xattr::drop_values(core, inode, &mut state)?;
    let _table = core.hold_table(inode.nr)?;
    let _attributes = xattr::hold_for_release(core, state.attribute_block)?;
    let _superblock = core.hold_superblock()?;
    let _bitmap = core.hold_inode_bitmap(inode.nr)?;
    let mut handle = drop_pages(core, inode, &state, FileBlock::new(0))?;
    let result = delete_within(core, &mut handle, inode, &mut state);
    handle.finish()?;
    drop(state);
    if has_values && let Err(error) = delete_left(core) {
        tracing::error!(%error, "an inode of a value stays on the orphan list");
    }
    result
}

/// Deletes an inode. If a device fails or is full, the deletion is retried later: by the writer
/// daemon, at close, and at the next open.
pub(crate) fn delete_or_leave(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    match delete(core, inode) {
        Err(error) if matches!(error, Error::Device(_)) || error.is_device_full() => {
            tracing::error!(inode = %inode.nr, %error, "a deleted inode stays on the orphan list");
            orphan::note_left(core, inode.nr);
            Ok(())
        }
        result => result,
    }
}

/// Retries deletions that have failed, and deletes inodes of values that no entry names any more.
pub(crate) fn delete_left(core: &Core) -> Result<()> {
    let left = orphan::take_left(core);
    if rt::mutant!("orphan/left-until-close") {
        return Ok(());
    }
    let mut result = Ok(());
    for nr in left {
        // Whatever has happened to the inode since, it is deleted only if it has no links and is
        // not open.
        let inode = core.inode(nr);
        match inode.and_then(|inode| delete_or_leave(core, &inode)) {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => result = result.and(Err(error)),
        }
    }
    result
}

/// Runs a step that may store or drop values of attributes in inodes of their own, as
/// [`delayed::with_space`] does, and deletes the inodes that it has left.
pub(crate) fn with_values<T>(core: &Core, mut step: impl FnMut() -> Result<T>) -> Result<T> {
    delayed::with_space(core, || {
        let result = step();
        if core.superblock.has_ea_inode()
            && let Err(error) = delete_left(core)
        {
            tracing::error!(%error, "a deleted inode stays on the orphan list");
        }
        result
    })
}

/// Returns true if an inode that loses its last name can be deleted in the same step: it has no
/// blocks and nothing else that takes a step of its own, so that no crash leaves half of it, and it
/// need not go onto the orphan list. The caller holds the inode's lock.
pub(crate) fn is_deleted_at_once(core: &Core, inode: &Inode, state: &InodeState) -> bool {
    let has_attributes = state.attribute_block != BlockNr::new(0) || core.superblock.has_ea_inode();
    let maps_nothing = !state.has_map(core) || FileMap::of(state).is_empty(state);
    state.sectors == 0
        && !state.is_orphan
        && maps_nothing
        && !has_attributes
        && state.kind != FileKind::Directory
        && !core.tuning.asks_as_ext3
        && !core.inodes.is_pinned(inode)
}

/// Deletes an inode for which [`is_deleted_at_once`] holds, in the step that takes its last name:
/// with [`CREDITS_INODE`](crate::alloc::CREDITS_INODE) more. If that is not possible now, puts it
/// onto the orphan list, and the caller goes on as with any other inode.
pub(crate) fn delete_at_once(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Arc<Inode>,
    state: &mut InodeState,
) -> Result<()> {
    let mut pages = inode.pages.lock();
    let is_busy = pages.is_busy(FileBlock::new(0));
    if !is_busy {
        core.drop_pages(&mut pages, inode, FileBlock::new(0), None, handle.tid());
    }
    drop(pages);
    if is_busy || release_blocks(core, handle, inode, state).is_err() {
        orphan::add(core, handle, inode.nr, state)?;
        return state.store(core, handle, inode.nr, true);
    }
    finish_deletion(core, handle, inode, state)
}

/// Deletes an inode within a handle. After an error the inode is stored without the blocks freed so
/// far, and stays on the orphan list.
fn delete_within(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Arc<Inode>,
    state: &mut InodeState,
) -> Result<()> {
    let released = release_blocks(core, handle, inode, state);
    if let Err(error) = released {
        if rt::mutant!("delete/freed-blocks-not-stored") {
            state.discard(handle);
            return Err(error);
        }
        state.store(core, handle, inode.nr, true)?;
        return Err(error);
    }
    orphan::remove(core, handle, inode.nr, state)?;
    finish_deletion(core, handle, inode, state)
}

/// Frees an inode that has no blocks any more and is on no list.
fn finish_deletion(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
) -> Result<()> {
    state.forget_map(handle);
    state.size = 0;
    core.note_deletion(state);
    state.store(core, handle, inode.nr, true)?;
    core.release_share(handle, inode.nr)?;
    // From here on a new inode may get the number and must not find this one in the cache.
    core.inodes.remove(inode.nr);
    core.free_inode(handle, inode.nr, state.kind == FileKind::Directory)
}

/// Frees the blocks of an inode and drops its reference to the attribute block. After an error the
/// caller stores the completed part.
fn release_blocks(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Arc<Inode>,
    state: &mut InodeState,
) -> Result<()> {
    let is_kept = state.size == 0 && rt::mutant!("extents/blocks-behind-end-kept");
    if state.has_map(core) && !is_kept {
        let from = FileBlock::new(0);
        FileMap::of(state).free_from(core, handle, inode, state, from)?;
    }
    core.discard_window(&inode.window);
    if rt::mutant!("delete/inode-freed-in-another-step") {
        state.store(core, handle, inode.nr, true)?;
        handle.restart(orphan::CREDITS_FINISH)?;
        orphan::remove(core, handle, inode.nr, state)?;
        state.store(core, handle, inode.nr, true)?;
        handle.tear(orphan::CREDITS_FINISH)?;
    }
    xattr::release(core, handle, inode.nr, state)
}
