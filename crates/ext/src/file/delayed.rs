//! Delayed allocation: blocks for pages that were written into holes.
//!
//! A write into a hole of a file with extents only claims blocks from the volume's count, so that
//! [`Error::NoSpace`] comes from the write and not later. The pages get their blocks
//!
//! - before they are written back: by the writer daemon when they are old or too many, by writers
//!   above the dirty limit, and by the sync calls;
//! - before an operation that has to see the whole block map, or that publishes a larger size;
//! - when the file replaces another (`auto_da_alloc`).
//!
//! Allocation takes the inode lock and a handle, and its pages join the ordered set of the handle's
//! transaction: from then on they are like pages written into blocks. The committer, which takes no
//! inode lock, never allocates. The size in the inode table stays below the first page without a
//! block, so that a crash leaves a file that ends earlier.

use std::sync::Arc;

use jbd2::Credits;
use layout::FileBlock;
use layout::extent::DEPTH_MAX;
use rt::Nanos;
use rt::atomic::Ordering;

use crate::alloc::shortage;
use crate::cache::file_pages::{Dirt, Inner, Which};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::inode::table::fits_sectors;
use crate::disk::kind::FileKind;
use crate::error::{Error, Result};
use crate::map::FileMap;
use crate::options::DataMode;
use crate::tuning::Writers;
use crate::writeback::pages::{write_file, write_pages};
use crate::writeback::{self, memory};

/// Largest number of blocks allocated in one transaction: those of one extent.
const BLOCKS_MAX: u64 = 32_768;
/// Number of metadata blocks besides those of the map: the inode.
const CREDITS_BASE: u32 = 1;
/// Number of clusters claimed once for a file: a split of every level of the deepest tree.
const CLAIM_BASE: u64 = DEPTH_MAX as u64 + 1;
/// Number of files taken from the dirty list at a time.
const FILES_AT_A_TIME: usize = 64;
/// Number of further attempts to find blocks that are claimed, and of attempts of a step that finds
/// no space while blocks are claimed for pages.
const ATTEMPTS: u32 = 3;

/// Returns true if writes into holes of the file may leave the allocation for later.
pub(super) fn is_possible(core: &Core, state: &InodeState) -> bool {
    core.options.delayed_allocation
        && core.tuning.writeback.writers == Writers::Wait
        && !core.options.is_being_made
        && state.kind == FileKind::Regular
        && FileMap::of(state).has_unwritten()
        && !state.is_journaled(core)
}

/// Claims clusters for `count` pieces of pages in holes that are not in the cache yet, those of
/// earlier calls included. Returns false if too few are free: the caller allocates at once.
pub(super) fn claim(core: &Core, inode: &Inode, state: &InodeState, count: u64) -> bool {
    let mut inner = inode.pages.lock();
    let needed = clusters_for(core, FileMap::of(state), inner.delayed_pieces() + count);
    let clusters = needed.saturating_sub(inner.delayed().claimed());
    let sectors = state.sectors + needed * core.sectors_per_cluster();
    let is_claimed = fits_sectors(&core.superblock, sectors)
        && core.space.claim_delayed(clusters, core.may_use_reserve());
    if is_claimed {
        inner.delayed().add_claim(clusters);
    } else if core.pages.counts.delayed() > 0 {
        core.pages.wake().request();
    }
    is_claimed
}

/// Returns the number of clusters claimed for pieces of a file: for each its own, and one for a
/// node on each level that its extent may split.
fn clusters_for(core: &Core, map: FileMap, pieces: u64) -> u64 {
    let each = match map {
        FileMap::Indirect | FileMap::Inline => 1,
        FileMap::Extents { depth } => 1 + u64::from(depth.max(1)),
    };
    let count = match pieces {
        0 => 0,
        _ => CLAIM_BASE + pieces * each,
    };
    match rt::mutant!("clusters/claimed-in-blocks") {
        true => count >> core.geometry().cluster_log,
        false => count,
    }
}

/// Sets the size that the inode table gets, after a change of the size or of pages without a block.
/// `stored` is the size that it had before.
pub(super) fn publish(core: &Core, inner: &Inner, state: &mut InodeState, stored: u64) {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let first = inner.first_delayed(FileBlock::new(stored / block_bytes));
    let limit = first.map(|block| stored.max(block.get() * block_bytes));
    state.size_on_disk = limit.filter(|limit| *limit < state.size);
    if rt::mutant!("delayed/size-on-disk-shrinks") {
        let first = inner.first_delayed(FileBlock::new(0));
        state.size_on_disk = first.map(|block| block.get() * block_bytes);
    }
    if rt::mutant!("delayed/size-before-data") {
        state.size_on_disk = None;
    }
}

/// Allocates the blocks of all pages without one. The caller holds the inode lock exclusively, and
/// has no open handle.
///
/// # Errors
/// The pages that have no block yet keep their claim and stay dirty.
pub(crate) fn allocate(core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
    if inode.pages.lock().delayed_pages() == 0 {
        return Ok(());
    }
    let _table = core.hold_table(inode.nr)?;
    let mut at = FileBlock::default();
    let mut attempts = ATTEMPTS;
    loop {
        let inner = inode.pages.lock();
        let Some(first) = inner.first_delayed(at) else {
            drop(inner);
            if inode.pins.load(Ordering::Relaxed) == 0 {
                core.discard_window(&inode.window);
            }
            return Ok(());
        };
        let count = inner.delayed_length(first, BLOCKS_MAX) as u32;
        drop(inner);
        let before = core.space.before();
        match allocate_extent(core, inode, state, first, count) {
            Ok(count) => at = first + u64::from(count),
            Err(Error::NoSpace) if core.wait_for_space(before)? => {}
            // A search can miss blocks that are freed behind it, and these are claimed.
            Err(Error::NoSpace) if attempts > 0 => {
                attempts -= 1;
                core.wait_for_freed()?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Allocates one extent for consecutive pages without blocks. Returns the number of pages that have
/// one now.
fn allocate_extent(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    first: FileBlock,
    count: u32,
) -> Result<u32> {
    let map = FileMap::of(state);
    let mut handle = core.begin_accepted(Credits {
        blocks: map.credits_to_map() + CREDITS_BASE,
        revokes: 0,
    })?;
    handle.describe();
    handle.lend(inode.pages.lock().delayed().take_claim());
    let found = map.find_or_allocate(core, &mut handle, inode, state, first, count);
    let mut inner = inode.pages.lock();
    let left = handle.take_back();
    let (run, _) = match found {
        Ok(found) => found,
        Err(error) => {
            inner.delayed().add_claim(left);
            drop(inner);
            handle.finish()?;
            return Err(error);
        }
    };
    let ordered = match rt::mutant!("delayed/not-ordered") {
        true => None,
        false => handle.ordering(),
    };
    inner.map_delayed(&core.pages.counts, first, run, ordered);
    let since = inner.listed.unwrap_or_else(rt::monotonic);
    core.pages
        .announce(&mut inner, inode, Dirt { ordered, since });
    let needed = clusters_for(core, FileMap::of(state), inner.delayed_pieces());
    inner.delayed().add_claim(left.min(needed));
    core.space.unclaim_delayed(left.saturating_sub(needed));
    publish(core, &inner, state, state.stored_size());
    drop(inner);
    state.store(core, &mut handle, inode.nr, true)?;
    handle.finish()?;
    Ok(run.count)
}

/// Allocates the blocks of all pages of a file without one. Takes the inode lock.
pub(crate) fn settle(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    if inode.pages.lock().delayed_pages() == 0 {
        return Ok(());
    }
    allocate(core, inode, &mut inode.state.write())
}

/// Allocates the blocks of a file that replaced its contents, when it is closed.
pub(crate) fn close(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    if !inode.state.read().is_replaced || rt::mutant!("delayed/closed-without-blocks") {
        return Ok(());
    }
    inode.state.write().is_replaced = false;
    if core.options.auto_da_alloc {
        settle_for_order(core, inode)?;
    }
    Ok(())
}

/// Allocates the blocks of a file that is about to replace another, before the directories are
/// locked.
pub(crate) fn before_rename(core: &Core, moved: &Arc<Inode>) {
    let is_off = !core.options.auto_da_alloc || rt::mutant!("delayed/renamed-without-data");
    if !is_off && let Err(error) = settle_for_order(core, moved) {
        tracing::warn!(inode = %moved.nr, %error, "a file that replaces another has no blocks yet");
    }
}

/// Does the same for pages that were written since then, if commits wait for data: without that,
/// the file is better short than full of old blocks. The caller holds the inode lock
/// exclusively, and has no open handle.
pub(crate) fn before_rename_locked(core: &Core, moved: &Arc<Inode>, state: &mut InodeState) {
    let is_off = !core.options.auto_da_alloc || rt::mutant!("delayed/renamed-without-data");
    if !is_off
        && is_ordered(core)
        && let Err(error) = allocate(core, moved, state)
    {
        tracing::warn!(inode = %moved.nr, %error, "a file that replaces another has no blocks yet");
    }
}

/// Returns true if commits wait for the data of the blocks that they allocate.
fn is_ordered(core: &Core) -> bool {
    core.journal.is_some() && core.options.data != DataMode::Writeback
}

/// Allocates the blocks of a file, and writes its data where no commit waits for it. Takes the
/// inode lock.
fn settle_for_order(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    if inode.pages.lock().delayed_pages() == 0 {
        return Ok(());
    }
    settle(core, inode)?;
    if !is_ordered(core) {
        let written = write_file(core, inode, Which::All);
        written.map_err(|cause| Error::DataLost {
            inode: inode.nr,
            cause,
        })?;
    }
    Ok(())
}

/// Makes a file or directory durable; see [`writeback::sync`].
pub(crate) fn sync(core: &Core, inode: &Arc<Inode>, data_only: bool) -> Result<()> {
    if !rt::mutant!("delayed/sync-without-blocks") {
        settle(core, inode)?;
    }
    writeback::sync(core, inode, data_only)
}

/// Makes the whole volume durable.
///
/// # Errors
/// Fails also if the blocks of a file could not be allocated; everything else is durable then.
pub(crate) fn sync_all(core: &Core) -> Result<()> {
    let mut allocated = Ok(());
    if core.pages.counts.delayed() > 0 {
        for inode in core.pages.list.all() {
            allocated = allocated.and(settle(core, &inode));
        }
    }
    writeback::sync_all(core).and(allocated)
}

/// Allocates the blocks of old pages, and of as many as the background limit requires, before a
/// round of the writer daemon. Returns the files with old pages whose lock was not free.
pub(crate) fn allocate_old(core: &Core) -> (Vec<Arc<Inode>>, Result<()>) {
    let mut busy = Vec::new();
    if core.pages.counts.delayed() == 0 {
        return (busy, Ok(()));
    }
    let mut result = Ok(());
    let cutoff = cutoff(core);
    walk(core, cutoff, |inode| {
        let Some(mut state) = inode.state.try_write() else {
            busy.push(Arc::clone(inode));
            return true;
        };
        let allocated = allocate(core, inode, &mut state);
        result = core::mem::replace(&mut result, Ok(())).and(allocated);
        true
    });
    let wanted = match core.space.is_short() {
        true => usize::MAX,
        false => memory::background_excess(core),
    };
    if wanted > 0 {
        result = result.and(allocate_oldest(core, wanted, false).1);
    }
    (busy, result)
}

/// Allocates and writes the old pages of files that were locked before: their writers may hold the
/// locks for long.
pub(crate) fn write_busy(core: &Core, busy: &[Arc<Inode>]) -> Result<()> {
    let cutoff = cutoff(core);
    let mut result = Ok(());
    for inode in busy {
        let written = settle(core, inode)
            .and_then(|()| Ok(write_pages(core, inode, Which::Before(cutoff)).map(drop)?));
        result = result.and(written);
    }
    result
}

/// Returns the time before which dirty pages are old.
fn cutoff(core: &Core) -> Nanos {
    rt::monotonic().saturating_sub(core.options.memory.dirty_expiry)
}

/// Allocates blocks above the dirty limit, so that pages can be written. The caller holds no lock
/// and has no open handle.
///
/// # Errors
/// Fails if blocks could be allocated for no page: a writer must not add more.
pub(super) fn admit(core: &Core) -> Result<()> {
    if core.pages.counts.delayed() == 0 {
        return Ok(());
    }
    match memory::excess(core) {
        0 => Ok(()),
        excess => match allocate_oldest(core, excess, false) {
            (0, result) => result,
            _ => Ok(()),
        },
    }
}

/// Allocates the blocks of files, oldest first, until enough pages have got one. Passes over files
/// whose lock is not free, unless it `waits`. Returns the number of pages, and the first error.
fn allocate_oldest(core: &Core, pages: usize, waits: bool) -> (usize, Result<()>) {
    let (mut done, mut result) = (0, Ok(()));
    walk(core, Nanos::MAX, |inode| {
        let count = inode.pages.lock().delayed_pages() as usize;
        let state = match waits {
            true => Some(inode.state.write()),
            false => inode.state.try_write(),
        };
        let Some(mut state) = state else {
            return true;
        };
        match allocate(core, inode, &mut state) {
            Ok(()) => done += count,
            Err(error) => result = core::mem::replace(&mut result, Ok(())).and(Err(error)),
        }
        done < pages
    });
    (done, result)
}

/// Visits the files with pages that have no block and are dirty since before a time, oldest first,
/// until `visit` returns false.
fn walk(core: &Core, before: Nanos, mut visit: impl FnMut(&Arc<Inode>) -> bool) {
    let mut last = None;
    loop {
        let files = core.pages.list.after(last, before, FILES_AT_A_TIME);
        let Some((key, _)) = files.last() else { return };
        last = Some(*key);
        let is_delayed = |inode: &&Arc<Inode>| inode.pages.lock().delayed_pages() > 0;
        for inode in files.iter().map(|(_, inode)| inode).filter(is_delayed) {
            if !visit(inode) {
                return;
            }
        }
    }
}

/// Allocates the blocks of all files, so that what was claimed for their trees is free again. The
/// caller holds no lock and has no open handle.
fn give_back(core: &Core) {
    if let (_, Err(error)) = allocate_oldest(core, usize::MAX, true) {
        tracing::warn!(%error, "blocks could not be allocated; the pages stay dirty");
    }
}

/// Runs a step that fails with `NoSpace` if there is no room, again as long as a commit releases
/// blocks, or if delayed allocation had claimed some. The step must leave nothing changed then.
pub(crate) fn with_space<T>(core: &Core, mut step: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempts = ATTEMPTS;
    loop {
        let has_claims = core.space.delayed_clusters.load(Ordering::Acquire) > 0;
        match shortage::with_space(core, &mut step) {
            Err(Error::NoSpace) if has_claims && attempts > 0 => {
                attempts -= 1;
                give_back(core);
            }
            result => return result,
        }
    }
}
