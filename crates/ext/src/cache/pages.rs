//! The state that all files share: page counts, the list of dirty files, and the limits.
//!
//! A file's own pages are [`FilePages`]. Operations that change both the pages and the lists are
//! here and run under the lock of the file's pages.

use std::sync::Arc;

use block::DeviceError;
use layout::{FileBlock, InodeNr, Tid};
use rt::Mutex;
use rt::atomic::{AtomicBool, AtomicU64};

use super::dirty_list::DirtyList;
use super::file_pages::{Dirt, FilePages, Inner, Written};
use super::flushes::Flushes;
use super::inode::Inode;
use super::ordered::OrderedSets;
use super::page_counts::PageCounts;
use super::stalls::{CacheStalls, Stalls};
use super::submitted::SubmittedWrites;
use super::wake::Wake;
use crate::options::MountOptions;
use crate::tuning::MemoryAccounting;

/// Bytes that a block in memory takes besides its contents: the gap of its alignment, and its
/// bookkeeping.
const BLOCK_OVERHEAD: u64 = layout::block::ALIGNMENT as u64 + 160;

/// The state that all files share: memory budget, dirty list, ordered sets by transaction.
pub(crate) struct Pages {
    pub(crate) block_bytes: u64,
    pub(crate) counts: PageCounts,
    pub(crate) limits: Limits,
    pub(crate) list: DirtyList,
    pub(crate) ordered: OrderedSets,
    pub(crate) flushes: Flushes,
    pub(crate) reclaim: Reclaim,
    /// The writes that any thread may wait for (`writers=submit`).
    pub(crate) submitted: SubmittedWrites<Self>,
    /// Wakes the daemon that writes above the background limit (`writers=submit`).
    pub(crate) flusher: Arc<Wake>,
    /// Wakes the daemon that writes metadata blocks (`writers=submit`).
    pub(crate) metadata_writer: Arc<Wake>,
    /// Nanoseconds of the time before which it writes blocks that were committed.
    pub(crate) metadata_cutoff: AtomicU64,
    pub(crate) stalls: Stalls,
    /// True if the superblock has the large-file feature.
    pub(crate) has_large_file: AtomicBool,
    wake: Arc<Wake>,
}

/// State of reclaim: when to check the budget, and the position of eviction.
#[derive(Default)]
pub(crate) struct Reclaim {
    pub(crate) transactions: AtomicU64,
    pub(crate) hand: Mutex<Hand>,
    /// Bytes of inodes that counted when the budget was last checked: the sum takes many locks.
    pub(crate) inode_bytes: AtomicU64,
    /// The cause of the last failed write of a page.
    pub(crate) failure: Mutex<Option<DeviceError>>, // a leaf, below the pages of a file
}

/// The file that eviction has visited last; none at the start of a revolution.
#[derive(Default)]
pub(crate) struct Hand(pub(crate) Option<InodeNr>);

/// The budget in bytes, and the dirty limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Limit of all memory in bytes.
    pub(crate) budget: u64,
    /// Percentage that may be dirty before writeback starts in the background.
    pub(crate) background_percent: u8,
    /// Percentage at which it stops.
    pub(crate) stop_percent: u8,
    /// Percentage that may be dirty before writers of data wait.
    pub(crate) dirty_percent: u8,
}

/// Returns the bytes of block contents that the budget covers.
fn budget_of_contents(options: &MountOptions, block_bytes: u64) -> u64 {
    let budget = options.memory.budget_bytes;
    match options.tuning.memory_accounting {
        MemoryAccounting::WithOverhead => budget / (block_bytes + BLOCK_OVERHEAD) * block_bytes,
        MemoryAccounting::Contents => budget,
    }
}

impl Pages {
    /// Creates the state without pages.
    pub(crate) fn new(options: &MountOptions, block_bytes: u32, cluster_log: u32) -> Self {
        let memory = &options.memory;
        let budget = budget_of_contents(options, u64::from(block_bytes));
        Self {
            block_bytes: u64::from(block_bytes),
            counts: PageCounts::new(block_bytes, cluster_log),
            limits: Limits {
                budget,
                background_percent: memory.dirty_background_percent,
                stop_percent: options
                    .tuning
                    .writeback
                    .stop_percent
                    .min(memory.dirty_background_percent),
                dirty_percent: memory.dirty_percent,
            },
            submitted: SubmittedWrites::default(),
            flusher: Arc::default(),
            metadata_writer: Arc::default(),
            metadata_cutoff: AtomicU64::new(0),
            list: DirtyList::default(),
            ordered: OrderedSets::default(),
            flushes: Flushes::default(),
            reclaim: Reclaim::default(),
            stalls: Stalls::default(),
            has_large_file: AtomicBool::new(false),
            wake: Arc::new(Wake::default()),
        }
    }

    /// Returns the time that callers have waited so far.
    pub(crate) fn stalls(&self) -> CacheStalls {
        self.stalls.read()
    }

    /// Returns the handle that wakes and stops the writer daemon.
    pub(crate) fn wake(&self) -> &Arc<Wake> {
        &self.wake
    }

    /// Puts a changed file on the dirty list and in the ordered set of the transaction, unless it
    /// is there.
    pub(crate) fn announce(&self, inner: &mut Inner, inode: &Arc<Inode>, dirt: Dirt) {
        if inner.listed.is_none() {
            inner.listed = Some(dirt.since);
            self.list.insert(dirt.since, inode);
        }
        if let Some(tid) = dirt.ordered
            && inner.ordered_in != Some(tid)
        {
            inner.ordered_in = Some(tid);
            self.ordered.join(tid, inode);
        }
    }

    /// Updates a file's position in the dirty list.
    pub(crate) fn relist(&self, inner: &mut Inner, inode: &Arc<Inode>) {
        let oldest = inner.oldest();
        if oldest == inner.listed {
            return;
        }
        // A sync that reads the list meanwhile finds the file at one place or at both.
        if let Some(new) = oldest {
            self.list.insert(new, inode);
        }
        if let Some(old) = inner.listed {
            self.list.remove(old, inode.nr);
        }
        inner.listed = oldest;
    }

    /// Drops a file's pages from a block on, up to a block or to the end; none may be in flight.
    /// Ordered data of transactions before `tid` is passed to their sets, which still have to write
    /// it. Returns the number of claimed blocks that they no longer need.
    #[must_use = "claimed blocks are given back"]
    pub(crate) fn drop_range(
        &self,
        inner: &mut Inner,
        inode: &Arc<Inode>,
        from: FileBlock,
        to: Option<FileBlock>,
        tid: Option<Tid>,
    ) -> u64 {
        let keep = |slot: &_| self.ordered.keep(slot, tid);
        let released = inner.drop_range(&self.counts, from, to, keep);
        self.relist(inner, inode);
        released
    }

    /// Completes a writeback batch of a file: marks its pages clean, or dirty again if they failed.
    pub(crate) fn note_results(
        &self,
        inode: &Arc<Inode>,
        batch: u64,
        written: impl Iterator<Item = Written>,
    ) {
        let pages: &FilePages = &inode.pages;
        let mut inner = pages.lock();
        if inner.note_results(&self.counts, batch, written) {
            self.reclaim.failure.lock().clone_from(inner.last_error());
        }
        inner.note_written(&self.flushes);
        self.relist(&mut inner, inode);
        drop(inner);
        pages.notify_written();
    }
}
