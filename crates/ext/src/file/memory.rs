//! The one budget of memory: file pages, metadata, inodes, and images that the journal pins.
//!
//! When it is exceeded, clean pages are evicted by second chance over all files, then clean metadata. Metadata is taken
//! first only where it has grown above half of the budget. If that is not enough, dirty pages are written and the journal
//! writes home what it owes, which makes both evictable.
//!
//! Whoever makes pages dirty above the limit writes some of the oldest itself and waits, as in Linux 2.4.

use rt::atomic::{AtomicBool, AtomicU64, Ordering};
use rt::{Mutex, Nanos};

use super::cache::Pages;
use super::write_back::write_some;
#[cfg(not(debug_assertions))]
use crate::cache::inode::Inode;
use crate::cache::inodes::Position;
use crate::core::Core;
use crate::error::Result;

/// The budget is looked at after so many new pages...
const GROWTH_PAGES: u64 = 16;
/// ... or so many transactions.
const TRANSACTIONS: u64 = 128;
/// After eviction so much of the budget is free: one part in this many.
const SLACK: u64 = 32;
/// Files in a step of a sweep.
const FILES_AT_A_TIME: usize = 32;
/// Folios of one file that a step looks at.
const FOLIOS_AT_A_TIME: usize = 256;
/// How often eviction, writing and checkpointing are tried in turn.
const ROUNDS_MAX: usize = 4;
/// The least number of pages that a throttled writer writes.
const THROTTLE_PAGES_MIN: usize = 64;
/// Metadata blocks written home at a time.
const METADATA_BLOCKS: usize = 1024;
/// What an inode takes. Locks are larger in debug builds, and a budget that they shared in would give simulated runs other
/// figures there than in release builds.
const INODE_BYTES: u64 = 752;

#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Inode>() as u64 == INODE_BYTES);

/// When to look at the budget, and where eviction stands.
#[derive(Default)]
pub(super) struct Reclaim {
    growth: AtomicU64,
    transactions: AtomicU64,
    hand: Mutex<Position>,
    /// The last write-back that a writer of data did failed.
    has_failed: AtomicBool,
}

impl Reclaim {
    /// So many pages are new.
    pub(super) fn note_growth(&self, pages: u64) {
        self.growth.fetch_add(pages, Ordering::Relaxed);
    }
}

impl Pages {
    /// A transaction begins: now and then metadata may have outgrown the budget. The caller holds no transaction.
    pub(crate) fn tick(&self, core: &Core) {
        let count = self.reclaim.transactions.fetch_add(1, Ordering::Relaxed);
        if count % TRANSACTIONS == TRANSACTIONS - 1 {
            self.reclaim.growth.store(GROWTH_PAGES, Ordering::Relaxed);
            self.make_room(core);
            throttle_metadata(core);
        }
    }

    /// A caller's part in keeping the budget, counted as a stall.
    fn make_room(&self, core: &Core) {
        let began = rt::monotonic();
        self.balance(core);
        self.stalls.memory.add_since(began);
    }

    /// Evicts until the budget is kept. The caller holds no transaction and no leaf.
    pub(super) fn balance(&self, core: &Core) {
        if self.reclaim.growth.load(Ordering::Relaxed) < GROWTH_PAGES {
            return;
        }
        self.reclaim.growth.store(0, Ordering::Relaxed);
        let budget = self.limits.budget;
        if used(core) <= budget {
            return;
        }
        let Some(mut hand) = self.reclaim.hand.try_lock() else {
            return;
        };
        let target = budget - budget / SLACK;
        for _ in 0..ROUNDS_MAX {
            evict(core, &mut hand, target);
            let excess = used(core).saturating_sub(target);
            if used(core) <= budget {
                return;
            }
            release(core, excess);
        }
    }

    /// Before data is taken into the cache: where the cache holds as much dirty data as it may because write-back fails, the
    /// caller learns why. The caller holds no transaction and no inode lock.
    ///
    /// # Errors
    /// The device's, if an attempt to write the excess fails again.
    pub(super) fn admit(&self, core: &Core) -> Result<()> {
        if !self.reclaim.has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let excess = self.dirty_bytes().saturating_sub(self.limits.dirty);
        if excess == 0 || rt::mutant!("error/writer-not-stopped") {
            return Ok(());
        }
        let excess = excess.div_ceil(self.block_bytes) as usize;
        match write_some(core, excess + THROTTLE_PAGES_MIN) {
            Ok(_) => self.reclaim.has_failed.store(false, Ordering::Relaxed),
            // One page that cannot be written stops nobody.
            Err(error) if self.dirty_bytes() > self.limits.dirty => return Err(error.into()),
            Err(_) => {}
        }
        Ok(())
    }

    /// After a write of so many pages: above the limits, wakes the writer or writes some pages here. The caller holds no
    /// transaction and no inode lock.
    pub(super) fn throttle(&self, core: &Core, pages: usize) {
        self.make_room(core);
        let dirty = self.dirty_bytes();
        if dirty > self.limits.dirty {
            let began = rt::monotonic();
            let wanted = THROTTLE_PAGES_MIN.max(pages * 2);
            if let Err(error) = write_some(core, wanted) {
                tracing::warn!(%error, "write-back failed; the pages stay dirty");
                self.reclaim.has_failed.store(true, Ordering::Relaxed);
            }
            self.stalls.dirty_limit.add_since(began);
        } else if dirty > self.limits.background {
            self.wake().request();
        }
    }
}

/// Without a journal, dirty metadata counts like dirty data.
fn throttle_metadata(core: &Core) {
    if core.journal.is_some() {
        return;
    }
    let (_, dirty) = core.buffers.bytes();
    if dirty > core.pages.limits.dirty
        && let Err(error) = core.buffers.write_back(Nanos::MAX, METADATA_BLOCKS)
    {
        tracing::warn!(%error, "metadata could not be written; it stays dirty");
    }
}

/// Bytes in use.
pub(crate) fn used(core: &Core) -> u64 {
    let inodes = core.inodes.count() as u64 * INODE_BYTES;
    let pinned = core
        .journal
        .as_ref()
        .map_or(0, |journal| journal.pinned_bytes());
    core.pages.bytes().0 + core.buffers.bytes().0 + inodes + pinned
}

/// Evicts clean pages and clean metadata until `target` is reached or nothing is left.
fn evict(core: &Core, hand: &mut Position, target: u64) {
    let half = core.pages.limits.budget / 2;
    if core.buffers.bytes().0 > half {
        core.buffers.shrink(half);
    }
    // The first revolution takes marks away, the second takes the pages.
    let mut revolutions = 0;
    while revolutions < 2 && used(core) > target {
        let (files, next) = core.inodes.sweep(*hand, FILES_AT_A_TIME);
        for inode in &files {
            let mut folio = Some(0);
            while let Some(from) = folio {
                (_, folio) = inode
                    .pages
                    .lock()
                    .sweep(&core.pages, from, FOLIOS_AT_A_TIME);
            }
        }
        *hand = next;
        revolutions += usize::from(next == Position::default());
    }
    let excess = used(core).saturating_sub(target);
    if excess > 0 {
        let metadata = core.buffers.bytes().0;
        core.buffers.shrink(metadata.saturating_sub(excess));
    }
}

/// Makes dirty memory clean: writes dirty pages, and what the journal owes.
fn release(core: &Core, excess: u64) {
    let pages = excess.div_ceil(u64::from(core.geometry.block_bytes)) as usize;
    let written = write_some(core, pages.max(THROTTLE_PAGES_MIN)).unwrap_or(0);
    let metadata = match &core.journal {
        Some(journal) => journal.write_back(Nanos::MAX, METADATA_BLOCKS).unwrap_or(0),
        None => core
            .buffers
            .write_back(Nanos::MAX, METADATA_BLOCKS)
            .unwrap_or(0),
    };
    if written + metadata == 0
        && let Some(journal) = &core.journal
    {
        journal.request_commit();
    }
}
