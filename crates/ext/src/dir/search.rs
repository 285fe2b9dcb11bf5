//! [`Search`]: the work of a search, as a simulated host is charged for it.

use core::ops::Range;

use rt::{Cost, Mutex};

use crate::cache::names_index::NamesIndex;

/// Number of cache entries looked up to reach a block of a directory: its place and its buffer.
const LOOKUPS_PER_BLOCK: u64 = 2;

/// The work of a search that is not charged yet.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Number of entries compared or walked over.
    pub(super) entries: u64,
    /// Blocks that a linear search reads, and that the in-memory index saved.
    pub(super) skipped: Range<u64>,
}

impl Search {
    /// Charges the work.
    pub(super) fn charge(self, index: &Mutex<NamesIndex>) {
        self.charge_unless(index, || false);
    }

    /// Charges the work, unless a kernel would not search. `is_known` runs only where work is
    /// charged.
    pub(super) fn charge_unless(self, index: &Mutex<NamesIndex>, is_known: impl FnOnce() -> bool) {
        let Self { entries, skipped } = self;
        rt::charge_with(|| {
            if is_known() {
                return Cost::Search {
                    lookups: 0,
                    entries: 0,
                };
            }
            let saved = match skipped.is_empty() {
                true => 0,
                false => index.lock().entries_of(skipped.clone()),
            };
            Cost::Search {
                lookups: (skipped.end - skipped.start) * LOOKUPS_PER_BLOCK,
                entries: entries + saved,
            }
        });
    }
}
