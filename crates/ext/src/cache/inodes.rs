//! The cache of inodes in memory, and their pins.
//!
//! An inode stays while a file of it is open or it has dirty pages; others are evicted when the
//! memory budget requires it. An inode without links is deleted when its last pin ends.
//!
//! A kernel may know millions of inodes, each of which has a pin. Such an inode leaves memory, too:
//! the number of its pins stays, and the inode gets it back when it is read again.
//!
//! # Rules
//!
//! - A number has at most one [`Inode`]. It is read from the table outside the shard's lock, behind
//!   a mark that makes other threads wait and that a panic removes.
//! - An inode is evicted only if it has no other references (its reference count is 1 under the
//!   shard's lock, which every new reference needs), if its last transaction is durable and if it
//!   is not an orphan: fsync after a later reload must not miss anything.

use std::sync::Arc;

use layout::{InodeNr, Map, Tid};
use rt::atomic::Ordering;
use rt::{Condvar, Mutex};

use super::inode::Inode;
use super::{shard_of, shards};
use crate::awaited::awaited;
use crate::error::{Error, Result};

/// Number of independent parts of the cache.
const SHARDS: usize = 32;
/// Number of consecutive inodes in the same shard. A thread that makes or removes many files goes
/// through their numbers in order, and so stays in a shard for a while.
const SHARD_RUN: usize = 16;
/// Bytes of the memory budget for each inode.
const BUDGET_BYTES_PER_INODE: u64 = 4096;
/// Number of inodes in a shard below which none is evicted.
const SHARD_INODES_MIN: usize = 32;
/// Number of inodes that an insertion into a full shard checks for eviction.
const EVICTION_STEPS: usize = 8;
/// Number of inodes of each full shard that are checked when memory is needed for something else.
const SHRINK_STEPS: usize = 256;
/// Number of consecutive inodes that cannot leave after which the search ends: many are open then.
const FUTILE_STEPS: usize = 32;
/// Largest number of pins of an inode that is not in memory.
const ABSENT_PINS_MAX: u64 = 0xFFFF_FFFF;

/// The cache of inodes.
pub(crate) struct InodeCache {
    shards: Box<[Shard; SHARDS]>,
}

#[derive(Default)]
struct Shard {
    table: Mutex<Table>,
    loaded: Condvar,
}

#[derive(Default)]
struct Table {
    /// The place of each inode in `slots`.
    places: Map<u32, usize>,
    /// The inodes, without gaps: eviction, which goes round, finds one at every step.
    slots: Vec<Slot>,
    hand: usize,
    /// The pins of inodes that are not in memory.
    absent_pins: Map<u32, u32>,
}

enum Slot {
    Loading(InodeNr),
    Ready {
        inode: Arc<Inode>,
        is_referenced: bool,
    },
}

/// The part of the volume that the cache needs to evict an inode.
pub(crate) trait Eviction {
    /// Returns the memory budget of the volume in bytes.
    fn budget_bytes(&self) -> u64;

    /// Returns true if a transaction is durable.
    fn is_durable(&self, tid: Tid) -> bool;

    /// Releases the state that an idle inode has outside of the cache: its pages and its window.
    fn evict(&self, inode: &Inode);
}

impl InodeCache {
    /// Creates an empty cache.
    pub(crate) fn new() -> Self {
        Self {
            shards: shards(Shard::default),
        }
    }

    fn shard(&self, nr: InodeNr) -> &Shard {
        &self.shards[shard_of((nr.index() / SHARD_RUN) as u64, SHARDS)]
    }

    /// Returns the inode; one that is not in memory is loaded by one thread while others wait.
    pub(crate) fn get(
        &self,
        nr: InodeNr,
        eviction: &impl Eviction,
        load: impl FnOnce() -> Result<Inode>,
    ) -> Result<Arc<Inode>> {
        let shard = self.shard(nr);
        let mut table = shard.table.lock();
        loop {
            match table.find(nr) {
                Some(Slot::Ready {
                    inode,
                    is_referenced,
                }) => {
                    *is_referenced = true;
                    return Ok(Arc::clone(inode));
                }
                Some(_) => shard.loaded.wait(&mut table),
                None => break,
            }
        }
        table.make_room(eviction, EVICTION_STEPS);
        table.put(nr, Slot::Loading(nr));
        drop(table);
        let loaded = awaited(load, || shard.abandon(nr));
        let mut table = shard.table.lock();
        let result = table.settle(nr, loaded);
        drop(table);
        shard.loaded.notify_all();
        result
    }

    /// Returns the inode if it is in memory. It does not count as a use.
    pub(crate) fn peek(&self, nr: InodeNr) -> Option<Arc<Inode>> {
        match self.shard(nr).table.lock().find(nr)? {
            Slot::Ready { inode, .. } => Some(Arc::clone(inode)),
            Slot::Loading(_) => None,
        }
    }

    /// Returns true if the inode is in memory. It does not count as a use.
    pub(crate) fn has(&self, nr: InodeNr) -> bool {
        let mut table = self.shard(nr).table.lock();
        table.find(nr).is_some()
    }

    /// Inserts a new inode.
    pub(crate) fn insert(&self, inode: Arc<Inode>, eviction: &impl Eviction) {
        let nr = inode.nr;
        let shard = self.shard(nr);
        let slot = Slot::Ready {
            inode,
            is_referenced: true,
        };
        let mut table = shard.table.lock();
        table.make_room(eviction, EVICTION_STEPS);
        // The pins were those of another file, whose number damage has given to this one.
        table.absent_pins.remove(&nr.get());
        table.put(nr, slot);
        drop(table);
        shard.loaded.notify_all();
    }

    /// Adds a pin: the inode stays in memory while it has one.
    pub(crate) fn pin(&self, inode: &Inode) {
        inode.pins.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends a pin; returns true if it was the last.
    pub(crate) fn unpin(&self, inode: &Inode) -> bool {
        let before = inode.pins.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a pin is ended once");
        before == 1
    }

    /// Ends `count` pins, or all if there are fewer; returns true if there was a pin and none is
    /// left.
    pub(crate) fn unpin_many(&self, inode: &Inode, count: u64) -> bool {
        let less = |pins: u64| Some(pins.saturating_sub(count));
        let before = inode
            .pins
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .unwrap_or(0);
        before > 0 && before <= count
    }

    /// Ends `count` pins, or all if there are fewer, of an inode that has pins and is not in
    /// memory: it has links, and nothing follows. Returns false, and does nothing, for any other.
    pub(crate) fn unpin_absent(&self, nr: InodeNr, count: u64) -> bool {
        let mut table = self.shard(nr).table.lock();
        let Some(pins) = table.absent_pins.get_mut(&nr.get()) else {
            return false;
        };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        *pins = pins.saturating_sub(count);
        if *pins == 0 {
            table.absent_pins.remove(&nr.get());
        }
        true
    }

    /// Ends all pins, when the volume closes and with it all open files.
    pub(crate) fn unpin_all(&self) {
        for shard in self.shards.iter() {
            let mut table = shard.table.lock();
            table.absent_pins.clear();
            for slot in &table.slots {
                if let Slot::Ready { inode, .. } = slot {
                    inode.pins.store(0, Ordering::Release);
                }
            }
        }
    }

    /// Returns true if the inode has pins.
    pub(crate) fn is_pinned(&self, inode: &Inode) -> bool {
        inode.pins.load(Ordering::Acquire) > 0
    }

    /// Removes a deleted inode from the cache.
    pub(crate) fn remove(&self, nr: InodeNr) {
        let shard = self.shard(nr);
        shard.table.lock().take(nr);
        shard.loaded.notify_all();
    }

    /// Calls `visit` for the inodes in memory. It may take locks that [`Eviction::evict`] may take.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Inode)) {
        for shard in self.shards.iter() {
            for slot in &shard.table.lock().slots {
                if let Slot::Ready { inode, .. } = slot {
                    visit(inode);
                }
            }
        }
    }

    /// Evicts inodes of full shards, because memory is needed for something else.
    pub(crate) fn shrink(&self, eviction: &impl Eviction) {
        for shard in self.shards.iter() {
            shard.table.lock().make_room(eviction, SHRINK_STEPS);
        }
    }

    /// Returns the number of inodes in memory, and of others that have pins.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(present, absent), shard| {
            let table = shard.table.lock();
            let known = table.absent_pins.len();
            (present + table.places.len(), absent + known)
        })
    }
}

impl Slot {
    fn nr(&self) -> InodeNr {
        match self {
            Self::Loading(nr) => *nr,
            Self::Ready { inode, .. } => inode.nr,
        }
    }
}

impl Shard {
    /// Ends the load of an inode after a panic.
    fn abandon(&self, nr: InodeNr) {
        let mut table = self.table.lock();
        if matches!(table.find(nr), Some(Slot::Loading(_))) {
            table.take(nr);
        }
        drop(table);
        self.loaded.notify_all();
    }
}

impl Table {
    fn find(&mut self, nr: InodeNr) -> Option<&mut Slot> {
        let place = *self.places.get(&nr.get())?;
        Some(&mut self.slots[place])
    }

    fn put(&mut self, nr: InodeNr, slot: Slot) {
        if let Some(old) = self.find(nr) {
            *old = slot;
            return;
        }
        self.places.insert(nr.get(), self.slots.len());
        self.slots.push(slot);
    }

    fn take(&mut self, nr: InodeNr) {
        let Some(place) = self.places.remove(&nr.get()) else {
            return;
        };
        self.slots.swap_remove(place);
        if let Some(moved) = self.slots.get(place) {
            self.places.insert(moved.nr().get(), place);
        }
    }

    /// Ends a load. Another thread may have inserted a new inode in its place, or have deleted it.
    fn settle(&mut self, nr: InodeNr, loaded: Result<Inode>) -> Result<Arc<Inode>> {
        match self.find(nr) {
            Some(Slot::Ready { inode, .. }) => Ok(Arc::clone(inode)),
            Some(_) => match loaded {
                Ok(inode) => {
                    let pins = self.absent_pins.remove(&nr.get()).unwrap_or(0);
                    inode.pins.store(pins.into(), Ordering::Release);
                    let inode = Arc::new(inode);
                    let ready = Slot::Ready {
                        inode: Arc::clone(&inode),
                        is_referenced: true,
                    };
                    self.put(nr, ready);
                    Ok(inode)
                }
                Err(error) => {
                    self.take(nr);
                    Err(error)
                }
            },
            None => Err(loaded.err().unwrap_or(Error::NotFound)),
        }
    }

    /// Checks a number of inodes when the shard is full, and evicts those that may leave.
    fn make_room(&mut self, eviction: &impl Eviction, mut steps: usize) {
        let share = eviction.budget_bytes() / BUDGET_BYTES_PER_INODE / SHARDS as u64;
        let limit = SHARD_INODES_MIN.max(usize::try_from(share).unwrap_or(usize::MAX));
        let mut futile = 0;
        while self.places.len() >= limit && steps > 0 && futile < FUTILE_STEPS {
            steps -= 1;
            futile += 1;
            self.hand = (self.hand + 1) % self.slots.len();
            let evicted = match &mut self.slots[self.hand] {
                Slot::Ready { is_referenced, .. } if *is_referenced => {
                    *is_referenced = false;
                    futile = 0;
                    None
                }
                Slot::Ready { inode, .. } => {
                    is_evictable(inode, eviction).then(|| Arc::clone(inode))
                }
                Slot::Loading(_) => None,
            };
            if let Some(inode) = evicted {
                futile = 0;
                eviction.evict(&inode);
                self.take(inode.nr);
                // Only this reference is left, so that the number of pins does not change.
                let pins = u32::try_from(inode.pins.load(Ordering::Acquire));
                let pins = pins.expect("an inode with more pins stays");
                if pins > 0 {
                    self.absent_pins.insert(inode.nr.get(), pins);
                }
            }
        }
    }
}

fn is_evictable(inode: &mut Arc<Inode>, eviction: &impl Eviction) -> bool {
    // Unlike the reference count alone, this acquires what the last other reference has changed.
    if Arc::get_mut(inode).is_none() {
        return false;
    }
    let Some(state) = inode.state.try_read() else {
        return false;
    };
    let is_durable = state.last_tid.is_none_or(|tid| eviction.is_durable(tid));
    let may_leave = match inode.pins.load(Ordering::Acquire) {
        0 => true,
        // A later fsync still has to report the errors of its pages.
        1..=ABSENT_PINS_MAX => state.links > 0 && inode.pages.error_count() == 0,
        _ => false,
    };
    is_durable && !state.is_orphan && may_leave && inode.pages.is_idle()
}
