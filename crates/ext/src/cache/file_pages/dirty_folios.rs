//! The folios of a file that have dirty pages, and the age of each.
//!
//! A large file is listed anew after each of its write-back batches. The age of a folio spares that
//! a look at each of its pages.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use rt::Nanos;

use crate::cache::folio::Folio;

/// Indices of the folios with dirty pages, each with the time since which its oldest one is dirty.
#[derive(Debug, Default)]
pub(super) struct DirtyFolios(BTreeMap<u64, Nanos>);

impl DirtyFolios {
    /// Notes a page of a folio that has become dirty.
    pub(super) fn add(&mut self, index: u64, since: Nanos) {
        let oldest = self.0.entry(index).or_insert(since);
        *oldest = since.min(*oldest);
    }

    /// Notes the oldest dirty page that a folio is left with; none if it has no dirty page.
    pub(super) fn set(&mut self, index: u64, oldest: Option<Nanos>) {
        match oldest {
            Some(oldest) => self.0.insert(index, oldest),
            None => self.0.remove(&index),
        };
    }

    /// Returns the time since which the oldest page of all is dirty.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.0.values().min().copied()
    }

    /// Returns the folios of a range.
    pub(super) fn range(&self, range: impl RangeBounds<u64>) -> impl Iterator<Item = u64> {
        self.0.range(range).map(|(index, _)| *index)
    }

    /// Returns the last folio.
    pub(super) fn last(&self) -> Option<u64> {
        self.0.keys().next_back().copied()
    }
}

impl Folio {
    /// Returns the time since which the oldest page is dirty.
    pub(super) fn oldest_dirt(&self) -> Option<Nanos> {
        if self.dirty == 0 {
            return None;
        }
        let dirty = self.slots().filter(|slot| slot.is_dirty);
        dirty.map(|slot| slot.dirty_since).min()
    }
}
