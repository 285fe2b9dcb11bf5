//! Ordered data by transaction: what has to be on the device before a commit record.
//!
//! A file joins the set of the running transaction when one of its pages is written to within it. At the commit the
//! pages that are still dirty are written, and whatever of the file is in flight is waited for. A page that a later
//! transaction cuts off before that is handed to the set as a loose image: its block is not reused before the later
//! transaction is durable, and the earlier one must not become durable without the data.

use std::sync::Arc;

use block::DeviceError;
use layout::{Block, BlockNr, Tid};
use rt::Mutex;

use super::cache::Pages;
use super::folio::Slot;
use super::write_back::{Outgoing, Which, write_files};
use crate::cache::inode::Inode;
use crate::core::Core;

/// Attempts of a commit to write ordered data.
const ATTEMPTS: usize = 2;

/// The sets of the transactions that are running or committing.
#[derive(Default)]
pub(super) struct OrderedSets {
    sets: Mutex<Vec<OrderedSet>>, // leaf, below the pages of a file
}

struct OrderedSet {
    tid: Tid,
    files: Vec<Arc<Inode>>,
    loose: Vec<(BlockNr, Arc<Block>)>,
}

impl OrderedSets {
    /// A file has data that belongs to a transaction.
    pub(super) fn join(&self, tid: Tid, inode: &Arc<Inode>) {
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
    pub(super) fn keep(&self, slot: &Slot, tid: Option<Tid>) {
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
    fn take_or_close(&self, tid: Tid) -> Option<OrderedSet> {
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
    fn put_back(&self, set: OrderedSet) {
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

impl OrderedSet {
    /// Writes what the transaction waits for. A device that fails once may work the next time, and a commit without the
    /// data would show what its blocks held before.
    fn write(&self, core: &Core) -> Result<(), DeviceError> {
        let mut result = Ok(());
        for _ in 0..ATTEMPTS {
            let mut loose = Outgoing::default();
            for (nr, image) in &self.loose {
                loose.push_loose(*nr, Arc::clone(image));
            }
            result = write_files(core, &self.files, Which::Ordered(self.tid), loose);
            if result.is_ok() {
                break;
            }
        }
        result
    }
}

impl Pages {
    /// Writes the ordered data of a transaction and waits. Returns true if data writes have completed since the last
    /// flush.
    ///
    /// # Errors
    /// The first failed write, with `data_err=abort`; the set stays for another attempt. Otherwise every open file of the
    /// inode reports the failure, its pages stay dirty, and the transaction may commit.
    pub(crate) fn write_ordered(&self, core: &Core, tid: Tid) -> Result<bool, DeviceError> {
        while let Some(set) = self.ordered.take_or_close(tid) {
            let Err(error) = set.write(core) else {
                continue;
            };
            tracing::warn!(%tid, %error, "ordered data could not be written");
            if core.options.abort_on_data_error {
                self.ordered.put_back(set);
                return Err(error);
            }
        }
        Ok(self.flushes.is_owed())
    }
}
