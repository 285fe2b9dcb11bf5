//! [`Search`]: the work of a search, as a simulated host is charged for it.

use core::ops::Range;

use rt::Mutex;

use crate::cache::names_index::NamesIndex;

/// Number of cache entries looked up to reach a block of a directory: its place and its buffer.
const LOOKUPS_PER_BLOCK: u64 = 2;

/// The work of a search that is not charged yet.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Number of entries compared or walked over.
    pub(super) entries: u64,
    /// Number of blocks that the in-memory index saved.
    skipped: u64,
}

impl Search {
    /// Adds blocks that a linear search reads and the index saved. Does nothing in the real world.
    pub(super) fn skip(&mut self, index: &Mutex<NamesIndex>, blocks: Range<u64>) {
        if rt::is_simulated() {
            self.skipped += blocks.end - blocks.start;
            self.entries += index.lock().entries_of(blocks);
        }
    }

    /// Charges the work.
    pub(super) fn charge(self) {
        if rt::is_simulated() {
            for _ in 0..self.skipped * LOOKUPS_PER_BLOCK {
                rt::charge(rt::Cost::Lookup);
            }
            rt::charge(rt::Cost::Entries(self.entries));
        }
    }
}
