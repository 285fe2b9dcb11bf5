//! What all files share: how many pages there are, which files are dirty, and the limits.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use layout::InodeNr;
use rt::atomic::{AtomicBool, AtomicU64, Ordering};
use rt::{Condvar, Mutex, Nanos};

use super::flush::Flushes;
use super::memory::Reclaim;
use super::ordered::OrderedSets;
use super::stalls::{CacheStalls, Stalls};
use crate::cache::inode::Inode;
use crate::options::MountOptions;

/// What a block in memory takes beside its bytes: the gap that its alignment leaves, and what refers to it.
const BLOCK_OVERHEAD: u64 = layout::block::ALIGNMENT as u64 + 160;

/// What all files share: memory budget, dirty lists, ordered sets by transaction.
pub(crate) struct Pages {
    pub(super) block_bytes: u64,
    /// Pages with an image.
    resident: AtomicU64,
    /// Pages that are dirty or on their way to the device.
    dirty: AtomicU64,
    pub(super) limits: Limits,
    pub(super) list: DirtyList,
    pub(super) ordered: OrderedSets,
    pub(super) flushes: Flushes,
    pub(super) reclaim: Reclaim,
    pub(super) stalls: Stalls,
    /// Whether the superblock says that there are large files.
    pub(super) has_large_file: AtomicBool,
    wake: Arc<Wake>,
}

/// The limits, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Everything.
    pub(super) budget: u64,
    /// Dirty bytes from which on the writer works.
    pub(super) background: u64,
    /// Dirty bytes from which on writers of data wait.
    pub(super) dirty: u64,
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
            resident: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
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

    /// Bytes of file pages in memory, and of them how many are dirty or being written.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let resident = self.resident.load(Ordering::Relaxed) * self.block_bytes;
        (resident, self.dirty_bytes())
    }

    /// Bytes that are dirty or being written.
    pub(super) fn dirty_bytes(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed) * self.block_bytes
    }

    /// Counts pages that came or went.
    pub(super) fn count_resident(&self, change: i64) {
        add(&self.resident, change);
        if change > 0 {
            self.reclaim.note_growth(change.unsigned_abs());
        }
    }

    /// Counts pages that became dirty or clean.
    pub(super) fn count_dirty(&self, change: i64) {
        add(&self.dirty, change);
    }
}

fn add(counter: &AtomicU64, change: i64) {
    if change != 0 {
        counter.fetch_add(change as u64, Ordering::Relaxed);
    }
}

/// Where a file stands in the dirty list.
pub(super) type DirtyKey = (Nanos, InodeNr);

/// Files with dirty pages, by the age of the oldest.
#[derive(Default)]
pub(super) struct DirtyList {
    files: Mutex<BTreeMap<DirtyKey, Arc<Inode>>>, // leaf, below the pages of a file
}

impl DirtyList {
    pub(super) fn insert(&self, since: Nanos, inode: &Arc<Inode>) {
        self.files
            .lock()
            .insert((since, inode.nr), Arc::clone(inode));
    }

    pub(super) fn remove(&self, since: Nanos, nr: InodeNr) {
        let removed = self.files.lock().remove(&(since, nr));
        drop(removed);
    }

    /// All files, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Inode>> {
        self.files.lock().values().map(Arc::clone).collect()
    }

    /// Some files behind a key, oldest first, dirty since before a time.
    pub(super) fn after(
        &self,
        key: Option<DirtyKey>,
        before: Nanos,
        count_max: usize,
    ) -> Vec<(DirtyKey, Arc<Inode>)> {
        let start = key.map_or(Bound::Unbounded, Bound::Excluded);
        let files = self.files.lock();
        let found = files.range((start, Bound::Unbounded)).take(count_max);
        found
            .take_while(|((since, _), _)| *since <= before)
            .map(|(key, inode)| (*key, Arc::clone(inode)))
            .collect()
    }
}

/// How the writer daemon is woken and told to stop. Shared with the daemon, which does not keep the volume alive.
#[derive(Default)]
pub(crate) struct Wake {
    state: Mutex<WakeState>,
    changed: Condvar,
}

#[derive(Default)]
struct WakeState {
    is_stopping: bool,
    is_wanted: bool,
}

impl Wake {
    /// Asks the daemon for a round now.
    pub(crate) fn request(&self) {
        let mut state = self.state.lock();
        if !state.is_wanted {
            state.is_wanted = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Tells the daemon to stop.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// The daemon sleeps for an interval or until it is asked for; true if it is time to stop.
    pub(crate) fn sleep(&self, interval: Nanos) -> bool {
        let deadline = rt::monotonic() + interval;
        let mut state = self.state.lock();
        while !state.is_stopping && !state.is_wanted {
            if self.changed.wait_until(&mut state, deadline) {
                break;
            }
        }
        state.is_wanted = false;
        state.is_stopping
    }
}
