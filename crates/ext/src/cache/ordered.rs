//! Ordered data by transaction: what has to be on the device before a commit record.
//!
//! A file joins the set of the running transaction when one of its pages is written to within it. At the commit the
//! pages that are still dirty are written, and whatever of the file is in flight is waited for. A page that a later
//! transaction cuts off before that is handed to the set as a loose image: its block is not reused before the later
//! transaction is durable, and the earlier one must not become durable without the data.

use std::sync::Arc;

use layout::{Block, BlockNr, Tid};
use rt::Mutex;

use super::folio::Slot;
use super::inode::Inode;

/// The sets of the transactions that are running or committing.
#[derive(Default)]
pub(crate) struct OrderedSets {
    sets: Mutex<Vec<OrderedSet>>, // leaf, below the pages of a file
}

/// Data that has to be written before a transaction commits.
pub(crate) struct OrderedSet {
    pub(crate) tid: Tid,
    pub(crate) files: Vec<Arc<Inode>>,
    pub(crate) loose: Vec<(BlockNr, Arc<Block>)>,
}

impl OrderedSets {
    /// A file has data that belongs to a transaction.
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

    /// A dirty page is cut off within transaction `tid`: if an earlier one still waits for it, keeps its image.
    pub(crate) fn keep(&self, slot: &Slot, tid: Option<Tid>) {
        let (Some(owner), Some(image), Some(nr)) = (slot.ordered, &slot.image, slot.block()) else {
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

    /// What is to be written for a transaction; when nothing is left, the set is gone.
    pub(crate) fn take_or_close(&self, tid: Tid) -> Option<OrderedSet> {
        let mut sets = self.sets.lock();
        let place = sets.iter().position(|set| set.tid == tid)?;
        let set = &mut sets[place];
        if set.files.is_empty() && set.loose.is_empty() {
            sets.swap_remove(place);
            return None;
        }
        let (files, loose) = (
            std::mem::take(&mut set.files),
            std::mem::take(&mut set.loose),
        );
        Some(OrderedSet { tid, files, loose })
    }

    /// Returns a set that could not be written.
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
