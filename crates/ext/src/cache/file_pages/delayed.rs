//! Pages without a block, and the free blocks that are claimed for them.
//!
//! A write into a hole claims blocks from the volume's count, and its pages get theirs when they
//! are about to be written. The claim covers each page and the nodes that its extent may add to the
//! tree, so that a page that was accepted finds a block. The file holds what is claimed until its
//! pages have blocks or are dropped.

use layout::{FileBlock, Tid};

use super::{Inner, split};
use crate::cache::folio::{Backing, FOLIO_PAGES, Slot};
use crate::cache::page_counts::PageCounts;
use crate::disk::run::Run;

/// The pages of a file that have no block, and their claim.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    /// Number of pages. // Invariant: all of them are dirty, and none is in flight.
    pages: u64,
    /// Number of blocks claimed.
    claimed: u64,
}

impl Delayed {
    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the number of blocks claimed.
    pub(crate) fn claimed(&self) -> u64 {
        self.claimed
    }

    /// Adds claimed blocks.
    pub(crate) fn add_claim(&mut self, blocks: u64) {
        self.claimed += blocks;
    }

    /// Takes all claimed blocks, for a step that allocates some of them.
    pub(crate) fn take_claim(&mut self) -> u64 {
        core::mem::take(&mut self.claimed)
    }

    /// Counts pages that lost or got a block.
    pub(super) fn count(&mut self, counts: &PageCounts, change: i64) {
        self.pages = self.pages.wrapping_add_signed(change);
        counts.count_delayed(change);
    }

    /// Counts dropped pages. Returns their share of the claim, which the caller gives back. What is
    /// left may be less than the other pages need: the next claim of the file adds it.
    pub(super) fn drop_pages(&mut self, counts: &PageCounts, dropped: u64) -> u64 {
        if dropped == 0 {
            return 0;
        }
        let released = match self.pages - dropped {
            0 => self.claimed,
            _ => (u128::from(self.claimed) * u128::from(dropped) / u128::from(self.pages)) as u64,
        };
        self.count(counts, -(dropped as i64));
        self.claimed -= released;
        released
    }
}

impl Inner {
    /// Returns the pages without a block, and their claim.
    pub(crate) fn delayed(&mut self) -> &mut Delayed {
        &mut self.delayed
    }

    /// Returns the number of pages without a block.
    pub(crate) fn delayed_pages(&self) -> u64 {
        self.delayed.pages
    }

    /// Returns true if a page has no block.
    pub(crate) fn is_delayed(&self, block: FileBlock) -> bool {
        self.delayed.pages > 0 && self.slot(block).is_some_and(Slot::is_delayed)
    }

    /// Returns the first page without a block at or after a block.
    pub(crate) fn first_delayed(&self, from: FileBlock) -> Option<FileBlock> {
        if self.delayed.pages == 0 {
            return None;
        }
        let (first, place) = split(from);
        for index in self.dirty_folios.range(first..) {
            let folio = self.folios.get(index)?;
            let start = if index == first { place } else { 0 };
            let is_delayed = |place: &u64| folio.get(*place).is_some_and(Slot::is_delayed);
            if let Some(place) = (start..FOLIO_PAGES).find(is_delayed) {
                return Some(FileBlock::new(index * FOLIO_PAGES + place));
            }
        }
        None
    }

    /// Returns the number of consecutive pages without a block from a block on, at most `most`.
    pub(crate) fn delayed_length(&self, from: FileBlock, most: u64) -> u64 {
        let is_mapped = |step: &u64| !self.is_delayed(from + *step);
        (0..most).find(is_mapped).unwrap_or(most)
    }

    /// Gives the pages from a block on their blocks. The transaction that allocated them must not
    /// commit before they are written.
    pub(crate) fn map_delayed(
        &mut self,
        counts: &PageCounts,
        from: FileBlock,
        run: Run,
        ordered: Option<Tid>,
    ) {
        for step in 0..u64::from(run.count) {
            let (index, place) = split(from + step);
            let folio = self.folios.get_mut(index).expect("a dirty folio is there");
            let slot = folio.entry(place);
            assert!(slot.is_delayed(), "only pages without a block get one");
            slot.set_backing(Backing::Mapped(run.first + step));
            slot.ordered = slot.ordered.or(ordered);
        }
        self.delayed.count(counts, -i64::from(run.count));
    }
}
