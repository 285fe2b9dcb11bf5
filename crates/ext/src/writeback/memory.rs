//! The memory budget: file pages, metadata, inodes, and images that the journal pins.
//!
//! Inodes of open files cannot be evicted: they count up to three quarters of the budget.
//!
//! When it is exceeded, some inodes beyond their share are evicted, then clean pages by second
//! chance over all files, then clean metadata. Metadata is taken first only if it exceeds half of
//! the budget. If that is not enough, dirty pages are written and the journal checkpoints, which
//! makes both evictable.
//!
//! A thread that makes pages dirty above the limit writes some of the oldest itself and waits, as
//! in Linux 2.4.

use std::sync::Arc;

use jbd2::Credits;
use rt::Nanos;
use rt::atomic::Ordering;

use super::background::balance_dirty;
use super::limits::{counted, counted_for_inodes, dirt, used_by_contents};
use super::pages::{complete_ready, wait_written, write_oldest, write_some};
use crate::cache::file_pages::Which;
use crate::cache::inode::Inode;
use crate::cache::pages::Hand;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::error::{Error, Result};
use crate::tuning::Writers;

/// Number of new pages after which the budget is checked.
const GROWTH_PAGES: u64 = 16;
/// Number of transactions after which the budget is checked.
const TRANSACTIONS: u64 = 128;
/// Divisor of the budget: the share that is free after eviction.
const SLACK: u64 = 32;
/// Number of files in a step of a sweep.
const FILES_AT_A_TIME: usize = 32;
/// Number of folios of one file in a step.
const FOLIOS_AT_A_TIME: usize = 256;
/// Number of attempts at eviction, writing and checkpointing in turn.
const ROUNDS_MAX: usize = 4;
/// Least number of pages that a throttled writer writes.
const THROTTLE_PAGES_MIN: usize = 64;
/// Number of metadata blocks checkpointed at a time.
const METADATA_BLOCKS: usize = 1024;
impl Core {
    /// Starts a handle for one step of an operation. May wait for the journal, and occasionally for
    /// memory.
    ///
    /// # Errors
    /// - [`Error::ReadOnly`](crate::Error::ReadOnly) if the volume is, or has become, read-only.
    pub(crate) fn begin(&self, credits: Credits) -> Result<Handle<'_>> {
        self.check_writable()?;
        tick(self);
        Handle::begin(self, credits)
    }

    /// Starts a handle for a change that was accepted before, also on a volume that damage has made
    /// read-only since.
    ///
    /// # Errors
    /// - [`Error::ReadOnly`](crate::Error::ReadOnly) after an abort.
    pub(crate) fn begin_accepted(&self, credits: Credits) -> Result<Handle<'_>> {
        if self.is_aborted.load(Ordering::Acquire) {
            return Err(Error::ReadOnly);
        }
        tick(self);
        Handle::begin(self, credits)
    }
}

/// Counts a transaction, and checks periodically if metadata has outgrown the budget. The caller
/// has no open handle.
fn tick(core: &Core) {
    let count = core
        .pages
        .reclaim
        .transactions
        .fetch_add(1, Ordering::Relaxed);
    if count % TRANSACTIONS == TRANSACTIONS - 1 {
        core.pages
            .counts
            .growth
            .store(GROWTH_PAGES, Ordering::Relaxed);
        make_room(core);
        throttle_metadata(core);
    }
}

/// Keeps the budget on behalf of a caller, and counts the time as a stall.
fn make_room(core: &Core) {
    let began = rt::monotonic();
    balance(core);
    core.pages.stalls.memory.add_since(began);
}

/// Evicts until the budget is kept. The caller has no open handle and holds no leaf lock.
pub(crate) fn balance(core: &Core) {
    if core.pages.counts.growth.load(Ordering::Relaxed) < GROWTH_PAGES {
        return;
    }
    core.pages.counts.growth.store(0, Ordering::Relaxed);
    let inodes = counted_for_inodes(core);
    core.pages
        .reclaim
        .inode_bytes
        .store(inodes, Ordering::Relaxed);
    let budget = core.pages.limits.budget;
    if inodes + used_by_contents(core) <= budget {
        return;
    }
    let Some(mut hand) = core.pages.reclaim.hand.try_lock() else {
        return;
    };
    // Failed pages are dirty again, and writers of data are refused.
    let _ = complete_ready(core);
    core.inodes.shrink(core);
    let target = budget - budget / SLACK;
    for _ in 0..ROUNDS_MAX {
        evict(core, &mut hand, target);
        let used = counted(core);
        if used <= budget {
            return;
        }
        release(core, used - target);
    }
}

/// Checks, before data is taken into the cache, if the cache is above its dirty limit with pages
/// that could not be written, and tries to write them. The caller holds no transaction and no inode
/// lock.
///
/// # Errors
/// Returns the device's error if pages that cannot be written are above the limit by themselves.
/// Fewer of them do not refuse writers whose own pages can be written, and neither does metadata.
pub(crate) fn admit(core: &Core) -> Result<()> {
    if core.pages.counts.failed_bytes() == 0 || rt::mutant!("error/writer-not-stopped") {
        return Ok(());
    }
    loop {
        let excess = above_limit(core, dirt(core).0);
        if excess == 0 {
            return Ok(());
        }
        let sent = write_some(core, excess + THROTTLE_PAGES_MIN);
        if sent.pages == 0 {
            return retry_failed(core);
        }
        if sent.failure.is_none() {
            return Ok(());
        }
    }
}

/// Tries again to write pages that could not be written, if they are above the dirty limit by
/// themselves.
///
/// # Errors
/// Returns the device's error if they still are.
fn retry_failed(core: &Core) -> Result<()> {
    let excess = above_limit(core, core.pages.counts.failed_bytes());
    if excess == 0 {
        return Ok(());
    }
    let is_enough = |count| count >= excess + THROTTLE_PAGES_MIN;
    let sent = write_oldest(core, Nanos::MAX, Which::Failed, is_enough);
    if sent.pages == 0 {
        // Other threads are trying: nothing written is not success.
        let files = core.pages.list.all();
        let has_failed = |inode: &&Arc<Inode>| inode.pages.lock().has_failed(Which::Failed);
        if let Some(inode) = files.iter().find(has_failed) {
            wait_written(core, inode);
        }
    }
    if above_limit(core, core.pages.counts.failed_bytes()) == 0 {
        return Ok(());
    }
    let failure = core.pages.reclaim.failure.lock().clone();
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// Returns the number of pages by which bytes exceed the limit of writers.
fn above_limit(core: &Core, bytes: u64) -> usize {
    let (_, limits) = dirt(core);
    let excess = bytes.saturating_sub(limits.wait);
    excess.div_ceil(core.pages.block_bytes) as usize
}

/// Returns the number of pages by which dirty data exceeds the limit of writers.
pub(crate) fn excess(core: &Core) -> usize {
    above_limit(core, dirt(core).0)
}

/// Returns the number of pages that the writer daemon has to write because of the background limit.
pub(crate) fn background_excess(core: &Core) -> usize {
    let (dirty, limits) = dirt(core);
    if dirty <= limits.start {
        return 0;
    }
    let excess = dirty.saturating_sub(limits.stop);
    excess.div_ceil(core.pages.block_bytes) as usize
}

/// Wakes the writer or writes some pages here if a limit is exceeded, after a write of `pages`
/// pages. The caller holds no transaction and no inode lock.
pub(crate) fn throttle(core: &Core, pages: usize) {
    make_room(core);
    if core.tuning.writeback.writers == Writers::Submit {
        if let Err(error) = balance_dirty(core, pages) {
            tracing::warn!(%error, "write-back failed; the pages stay dirty");
        }
        return;
    }
    let (dirty, limits) = dirt(core);
    if dirty > limits.wait {
        let began = rt::monotonic();
        let wanted = THROTTLE_PAGES_MIN.max(pages * 2);
        if let Err(error) = write_some(core, wanted).result() {
            tracing::warn!(%error, "write-back failed; the pages stay dirty");
        }
        core.pages.stalls.dirty_limit.add_since(began);
    } else if dirty > limits.start {
        core.pages.wake().request();
    }
}

/// Throttles by dirty metadata, which without a journal counts like dirty data.
fn throttle_metadata(core: &Core) {
    if core.journal.is_some() {
        return;
    }
    let (_, dirty) = core.buffers.bytes();
    if dirty > dirt(core).1.wait
        && let Err(error) = core.buffers.write_back(Nanos::MAX, METADATA_BLOCKS)
    {
        tracing::warn!(%error, "metadata could not be written; it stays dirty");
    }
}

/// Evicts clean pages and clean metadata until `target` is reached or nothing is left.
fn evict(core: &Core, hand: &mut Hand, target: u64) {
    let half = core.pages.limits.budget / 2;
    if core.buffers.bytes().0 > half {
        core.buffers.shrink(half);
    }
    // The first revolution clears marks, the second evicts pages.
    let mut revolutions = 0;
    while revolutions < 2 && core.pages.counts.has_clean() && counted(core) > target {
        let files = core.pages.counts.files.after(hand.0, FILES_AT_A_TIME);
        for inode in files.iter().filter_map(|nr| core.inodes.peek(*nr)) {
            let mut folio = Some(0);
            while let Some(from) = folio {
                (_, folio) = inode
                    .pages
                    .lock()
                    .sweep(&core.pages.counts, from, FOLIOS_AT_A_TIME);
            }
        }
        let is_over = files.len() < FILES_AT_A_TIME;
        hand.0 = files.last().copied().filter(|_| !is_over);
        revolutions += usize::from(is_over);
    }
    let excess = counted(core).saturating_sub(target);
    if excess > 0 {
        let metadata = core.buffers.bytes().0;
        core.buffers.shrink(metadata.saturating_sub(excess));
    }
}

/// Makes dirty memory clean: writes dirty pages, and checkpoints metadata.
fn release(core: &Core, excess: u64) {
    if let Some(oldest) = core.pages.submitted.oldest() {
        let _ = oldest.complete(&core.pages);
        let _ = complete_ready(core);
    }
    let pages = excess.div_ceil(u64::from(core.geometry().block_bytes)) as usize;
    let written = write_some(core, pages.max(THROTTLE_PAGES_MIN))
        .result()
        .unwrap_or(0);
    let metadata = match &core.journal {
        Some(journal) => journal.write_back(Nanos::MAX, METADATA_BLOCKS).unwrap_or(0),
        None => core
            .buffers
            .write_back(Nanos::MAX, METADATA_BLOCKS)
            .unwrap_or(0),
    };
    if written + metadata > 0 {
        return;
    }
    if core.pages.counts.delayed() > 0 {
        core.pages.wake().request();
    }
    if let Some(journal) = &core.journal {
        journal.request_commit();
    }
}
