//! What all files share: how many pages there are, which files are dirty, and the limits.
//!
//! A file's own pages are [`FilePages`]. Where they and the lists here change together, it is done
//! here, under the lock of the file's pages.

use std::sync::Arc;

use layout::{FileBlock, Tid};
use rt::atomic::{AtomicBool, AtomicU64};
use rt::{Mutex, Nanos};

use super::dirty_list::DirtyList;
use super::file_pages::{Dirt, FilePages, Inner, Landed};
use super::flushes::Flushes;
use super::inode::Inode;
use super::inodes::Position;
use super::ordered::OrderedSets;
use super::page_counts::PageCounts;
use super::stalls::{CacheStalls, Stalls};
use super::wake::Wake;
use crate::options::MountOptions;

/// What a block in memory takes beside its bytes: the gap that its alignment leaves, and what refers to it.
const BLOCK_OVERHEAD: u64 = layout::block::ALIGNMENT as u64 + 160;

/// What all files share: memory budget, dirty lists, ordered sets by transaction.
pub(crate) struct Pages {
    pub(crate) block_bytes: u64,
    pub(crate) counts: PageCounts,
    pub(crate) limits: Limits,
    pub(crate) list: DirtyList,
    pub(crate) ordered: OrderedSets,
    pub(crate) flushes: Flushes,
    pub(crate) reclaim: Reclaim,
    pub(crate) stalls: Stalls,
    /// Whether the superblock says that there are large files.
    pub(crate) has_large_file: AtomicBool,
    wake: Arc<Wake>,
}

/// When to look at the budget, and where eviction stands.
#[derive(Default)]
pub(crate) struct Reclaim {
    pub(crate) transactions: AtomicU64,
    pub(crate) hand: Mutex<Position>,
    /// The last write-back that a writer of data did failed.
    pub(crate) has_failed: AtomicBool,
}

/// The limits, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Everything.
    pub(crate) budget: u64,
    /// Dirty bytes from which on the writer works.
    pub(crate) background: u64,
    /// Dirty bytes from which on writers of data wait.
    pub(crate) dirty: u64,
}

/// How many bytes of blocks a budget holds. Real memory also holds what is beside them, and has to keep the budget with it;
/// a simulated host's pages have it in the memory that its kernel takes.
fn budget_of_contents(budget_bytes: u64, block_bytes: u64) -> u64 {
    if rt::is_simulated() {
        return budget_bytes;
    }
    budget_bytes / (block_bytes + BLOCK_OVERHEAD) * block_bytes
}

impl Pages {
    /// No pages yet.
    pub(crate) fn new(options: &MountOptions, block_bytes: u32) -> Self {
        let memory = &options.memory;
        let budget = budget_of_contents(memory.budget_bytes, u64::from(block_bytes));
        let share = |percent: u8| budget / 100 * u64::from(percent);
        Self {
            block_bytes: u64::from(block_bytes),
            counts: PageCounts::new(block_bytes),
            limits: Limits {
                budget,
                background: share(memory.dirty_background_percent),
                dirty: share(memory.dirty_percent),
            },
            list: DirtyList::default(),
            ordered: OrderedSets::default(),
            flushes: Flushes::default(),
            reclaim: Reclaim::default(),
            stalls: Stalls::default(),
            has_large_file: AtomicBool::new(false),
            wake: Arc::new(Wake::default()),
        }
    }

    /// What callers have waited for so far.
    pub(crate) fn stalls(&self) -> CacheStalls {
        self.stalls.read()
    }

    /// The journal flushed the home device: covers writes completed before `submitted`.
    pub(crate) fn home_flushed(&self, submitted: Nanos) {
        self.flushes.note_flushed(submitted);
    }

    /// How the writer daemon is woken and told to stop.
    pub(crate) fn wake(&self) -> &Arc<Wake> {
        &self.wake
    }

    /// After changes: the file joins the dirty list and the ordered set of the transaction, unless it is there.
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

    /// Brings a file's place in the dirty list up to date.
    pub(crate) fn relist(&self, inner: &mut Inner, inode: &Arc<Inode>) {
        let oldest = inner.oldest();
        if oldest == inner.listed {
            return;
        }
        if let Some(old) = inner.listed {
            self.list.remove(old, inode.nr);
        }
        if let Some(new) = oldest {
            self.list.insert(new, inode);
        }
        inner.listed = oldest;
    }

    /// Drops a file's pages from a block on, to a block or to the end; none is in flight. Ordered
    /// data of transactions before `tid` is handed to their sets: they still have to write it.
    pub(crate) fn drop_range(
        &self,
        inner: &mut Inner,
        inode: &Arc<Inode>,
        from: FileBlock,
        to: Option<FileBlock>,
        tid: Option<Tid>,
    ) {
        inner.drop_range(&self.counts, from, to, |slot| self.ordered.keep(slot, tid));
        self.relist(inner, inode);
    }

    /// Ends a flight of a file: marks its pages clean, or dirty again if they failed.
    pub(crate) fn land(
        &self,
        inode: &Arc<Inode>,
        flight: u64,
        landed: impl Iterator<Item = Landed>,
    ) {
        let pages: &FilePages = &inode.pages;
        let mut inner = pages.lock();
        inner.land(&self.counts, flight, landed);
        self.flushes.note_written(inner.written_at);
        self.relist(&mut inner, inode);
        drop(inner);
        pages.notify_landed();
    }
}
