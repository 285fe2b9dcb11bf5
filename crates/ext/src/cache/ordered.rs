//! Ordered data by transaction: the data that must reach the device before a commit block.
//!
//! A file joins the set of the running transaction when a handle writes to one of its pages. The
//! commit writes the pages that are still dirty and waits for those in flight. A page that a later
//! transaction truncates before that is moved to the set as a loose image: its block is not reused
//! before the later transaction is durable, and the earlier one must not become durable without the
//! data.

use std::sync::Arc;

use layout::{Block, BlockNr, Tid};
use rt::Mutex;

use super::folio::{Backing, Slot};
use super::inode::Inode;

/// The sets of the running and committing transactions.
#[derive(Default)]
pub(crate) struct OrderedSets {
    sets: Mutex<Vec<OrderedSet>>, // leaf, below the pages of a file
}

/// Data that must be written before a transaction commits.
pub(crate) struct OrderedSet {
    pub(crate) tid: Tid,
    pub(crate) files: Vec<Arc<Inode>>,
    pub(crate) loose: Vec<(BlockNr, Arc<Block>)>,
}

impl OrderedSet {
    /// Takes the data, and leaves an empty set.
    fn split_off(&mut self) -> Self {
        Self {
            tid: self.tid,
            files: std::mem::take(&mut self.files),
            loose: std::mem::take(&mut self.loose),
        }
    }
}

impl OrderedSets {
    /// Adds a file to the ordered set of a transaction.
    pub(crate) fn join(&self, tid: Tid, inode: &Arc<Inode>) {
        if rt::mutant!("data/not-ordered") {
            return;
        }
        let mut sets = self.sets.lock();
        match sets.iter_mut().rev().find(|set| set.tid == tid) {
            Some(set) => set.files.push(Arc::clone(inode)),
            None => sets.push(OrderedSet {
                tid,
                files: vec![Arc::clone(inode)],
                loose: Vec::new(),
            }),
        }
    }

    /// Keeps the image of a dirty page that transaction `tid` truncates, if an earlier transaction
    /// still waits for it.
    pub(crate) fn keep(&self, slot: &Slot, tid: Option<Tid>) {
        let (Some(owner), Some(image), Some(backing)) = (slot.ordered, &slot.image, slot.backing())
        else {
            return;
        };
        let Backing::Mapped(nr) = backing else {
            return;
        };
        if Some(owner) == tid || rt::mutant!("data/cut-off-page-not-written") {
            return;
        }
        let mut sets = self.sets.lock();
        if let Some(set) = sets.iter_mut().find(|set| set.tid == owner) {
            set.loose.push((nr, Arc::clone(image)));
        }
    }

    /// Takes the data to be written for a transaction, or removes the set if it is empty.
    pub(crate) fn take_or_close(&self, tid: Tid) -> Option<OrderedSet> {
        let mut sets = self.sets.lock();
        let place = sets.iter().position(|set| set.tid == tid)?;
        let set = &mut sets[place];
        if set.files.is_empty() && set.loose.is_empty() {
            sets.swap_remove(place);
            return None;
        }
        Some(set.split_off())
    }

    /// Takes the data that a running transaction has so far.
    pub(crate) fn take(&self, tid: Tid) -> Option<OrderedSet> {
        let mut sets = self.sets.lock();
        let set = sets.iter_mut().find(|set| set.tid == tid)?;
        Some(set.split_off())
    }

    /// Puts back a set that could not be written.
    pub(crate) fn put_back(&self, set: OrderedSet) {
        let mut sets = self.sets.lock();
        match sets.iter_mut().find(|other| other.tid == set.tid) {
            Some(rest) => {
                rest.files.extend(set.files);
                rest.loose.extend(set.loose);
            }
            None => sets.push(set),
        }
    }
}
