//! Pages without a block, and the free blocks that are claimed for them.
//!
//! A write into a hole claims clusters from the volume's count, and its pages get theirs when they
//! are about to be written. The claim covers each *piece* and the nodes that its extent may add to
//! the tree, so that a page that was accepted finds a block. A piece is a row of pages within one
//! cluster: it needs one cluster at most, and is one extent. Without `bigalloc` each page is a
//! piece. The file holds what is claimed until its pages have blocks or are dropped.

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
    /// Number of pieces.
    pieces: u64,
    /// Number of clusters claimed.
    claimed: u64,
}

impl Delayed {
    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the number of clusters claimed.
    pub(crate) fn claimed(&self) -> u64 {
        self.claimed
    }

    /// Adds claimed clusters.
    pub(crate) fn add_claim(&mut self, clusters: u64) {
        self.claimed += clusters;
    }

    /// Takes all claimed clusters, for a step that allocates some of them.
    pub(crate) fn take_claim(&mut self) -> u64 {
        core::mem::take(&mut self.claimed)
    }

    /// Counts pages that lost or got a block, and their pieces.
    pub(super) fn count(&mut self, counts: &PageCounts, pages: i64, pieces: i64) {
        self.pages = self.pages.wrapping_add_signed(pages);
        self.pieces = self.pieces.wrapping_add_signed(pieces);
        counts.count_delayed(pages, pieces);
    }

    /// Counts dropped pages, and the pieces that there are fewer without them; there may be one
    /// more if they were amid one. Returns their share of the claim, which the caller gives back.
    /// What is left may be less than the other pages need: the next claim of the file adds it.
    fn drop_pages(&mut self, counts: &PageCounts, pages: u64, pieces: i64) -> u64 {
        if pages == 0 {
            return 0;
        }
        let fewer = u128::from(pieces.max(0).unsigned_abs());
        let released = match self.pages - pages {
            0 => self.claimed,
            _ => (u128::from(self.claimed) * fewer / u128::from(self.pieces)) as u64,
        };
        self.count(counts, -(pages as i64), -pieces);
        self.claimed -= released;
        released
    }
}

/// Pages of a range that are dropped, in order.
pub(super) struct Dropped {
    pages: u64,
    pieces: i64,
    /// The block behind the last page without a block, also of one before the range.
    next: u64,
}

impl Dropped {
    /// Starts with a range.
    pub(super) fn new(inner: &Inner, from: u64) -> Self {
        let before = from.checked_sub(1);
        let is_joined = before.is_some_and(|block| inner.is_delayed(FileBlock::new(block)));
        Self {
            pages: 0,
            pieces: 0,
            next: if is_joined { from } else { u64::MAX },
        }
    }

    /// Notes a page that was dropped.
    pub(super) fn note(&mut self, counts: &PageCounts, block: u64, is_delayed: bool) {
        if !is_delayed {
            return;
        }
        self.pages += 1;
        self.pieces += i64::from(!joins(counts, block) || self.next != block);
        self.next = block + 1;
    }

    /// Counts the pages as dropped, up to the end of the range. Returns the number of claimed
    /// clusters that the file no longer needs.
    pub(super) fn end(self, counts: &PageCounts, inner: &mut Inner, end: u64) -> u64 {
        let is_divided = self.pages > 0
            && self.next == end
            && joins(counts, end)
            && inner.is_delayed(FileBlock::new(end));
        let pieces = self.pieces - i64::from(is_divided);
        inner.delayed.drop_pages(counts, self.pages, pieces)
    }
}

/// Returns true if a block lies in the cluster of the one before it.
fn joins(counts: &PageCounts, block: u64) -> bool {
    !block.is_multiple_of(1 << counts.cluster_log())
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

    /// Returns the number of pieces that they make up.
    pub(crate) fn delayed_pieces(&self) -> u64 {
        self.delayed.pieces
    }

    /// Returns the number of pieces by which a page without a block makes them more: the page may
    /// be one, extend one, or join two.
    pub(super) fn pieces_of(&self, counts: &PageCounts, block: FileBlock) -> i64 {
        if counts.cluster_log() == 0 || self.delayed.pages == 0 {
            return 1;
        }
        let at = block.get();
        let is_joined =
            |next: u64, other: u64| joins(counts, next) && self.is_delayed(FileBlock::new(other));
        let before = at > 0 && is_joined(at, at - 1);
        1 - i64::from(before) - i64::from(is_joined(at + 1, at + 1))
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
            let pieces = self.pieces_of(counts, from + step);
            let (index, place) = split(from + step);
            let folio = self.folios.get_mut(index).expect("a dirty folio is there");
            let slot = folio.entry(place);
            assert!(slot.is_delayed(), "only pages without a block get one");
            slot.set_backing(Backing::Mapped(run.first + step));
            slot.ordered = slot.ordered.or(ordered);
            self.delayed.count(counts, -1, -pieces);
        }
    }
}
