//! Choices of dirty pages.

use std::ops::RangeInclusive;

use layout::{FileBlock, Tid};
use rt::Nanos;

use super::split;
use crate::cache::folio::Slot;

/// A choice of dirty pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// All dirty pages.
    All,
    /// Pages that have been dirty since before a time.
    Before(Nanos),
    /// Pages that a transaction waits for.
    Ordered(Tid),
    /// Pages whose last write has failed.
    Failed,
    /// Pages whose last write has not failed. The others would fail again at once, and take the
    /// place of pages that can be written.
    NotFailed,
    /// Pages in a range of blocks, both ends included.
    Range(FileBlock, FileBlock),
}

impl Which {
    /// Returns the folios that may hold such pages, from the folio of a block on.
    pub(crate) fn folios_from(self, block: FileBlock) -> RangeInclusive<u64> {
        let (first, last) = match self {
            Self::Range(first, last) => (split(first).0, split(last).0),
            _ => (0, u64::MAX),
        };
        // `BTreeMap::range` panics if the start of a range lies after its end.
        first.max(split(block).0).min(last)..=last
    }

    /// Returns true if the choice includes a dirty page.
    pub(crate) fn wants(self, block: FileBlock, slot: &Slot) -> bool {
        match self {
            Self::All => true,
            Self::Failed => slot.has_failed,
            Self::NotFailed => !slot.has_failed,
            Self::Before(time) => slot.dirty_since <= time,
            Self::Ordered(tid) => slot.ordered.is_some_and(|owner| tid.is_at_or_after(owner)),
            Self::Range(first, last) => (first..=last).contains(&block),
        }
    }
}
