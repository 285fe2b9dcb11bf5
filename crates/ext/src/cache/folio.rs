//! Folios: 16 pages of one file, and the map of a file's folios.
//!
//! A page is one block of the file. The first folio lies in the map itself, because most files have
//! no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use layout::{Block, BlockNr, Tid};
use rt::Nanos;

/// Number of pages in a folio.
pub(crate) const FOLIO_PAGES: u64 = 16;

/// The backing of a page: where its contents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// A block of the device that the file's block map has.
    Mapped(BlockNr),
    /// No block yet: one is claimed from the volume's free blocks, and allocated before the page is
    /// written (delayed allocation).
    Delayed,
}

/// The block of a slot whose page has no block yet. No file has this block: it holds the superblock
/// or group descriptors.
const DELAYED: u64 = 1;

/// One page.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// The current contents; none while the page is absent.
    pub(crate) image: Option<Arc<Block>>,
    /// The block of a mapped page, lower half; [`DELAYED`] without one; 0 while the page is absent.
    /// Six bytes in all, because there is a slot for every page.
    block_low: u32,
    /// The block, bits 32 to 47.
    block_high: u16,
    /// Time since which the page is dirty.
    pub(crate) dirty_since: Nanos,
    /// The oldest transaction that must not commit before this page is written.
    pub(crate) ordered: Option<Tid>,
    /// True if the page holds contents that the device lacks.
    pub(crate) is_dirty: bool,
    /// True while a write of the page is in flight.
    pub(crate) is_in_flight: bool,
    /// True if the last write of the page failed. // Invariant: the page is dirty or in flight.
    pub(crate) has_failed: bool,
    /// True if bytes beyond the file's size were not zero on the device.
    pub(crate) has_masked_tail: bool,
}

impl Slot {
    /// Returns the page's backing; none while the page is absent.
    pub(crate) fn backing(&self) -> Option<Backing> {
        match u64::from(self.block_low) | (u64::from(self.block_high) << 32) {
            0 => None,
            DELAYED => Some(Backing::Delayed),
            block => Some(Backing::Mapped(BlockNr::new(block))),
        }
    }

    /// Returns true if the page has no block yet.
    pub(crate) fn is_delayed(&self) -> bool {
        self.block_low == DELAYED as u32 && self.block_high == 0
    }

    /// Sets the page's backing.
    pub(crate) fn set_backing(&mut self, backing: Backing) {
        let block = match backing {
            Backing::Mapped(block) => block.get(),
            Backing::Delayed => DELAYED,
        };
        self.block_low = block as u32;
        self.block_high = u16::try_from(block >> 32).expect("volumes have at most 2^48 blocks");
    }
}

/// Consecutive pages of a file.
#[derive(Debug, Default)]
pub(crate) struct Folio {
    slots: Vec<Slot>,
    /// Number of pages with an image.
    pub(crate) resident: u8,
    /// Number of dirty pages.
    pub(crate) dirty: u8,
    /// Number of pages in flight.
    pub(crate) in_flight: u8,
    /// True if the folio was used since eviction last passed.
    pub(crate) is_referenced: bool,
}

impl Folio {
    /// Returns the slot of a page, if it has one.
    pub(crate) fn get(&self, index: u64) -> Option<&Slot> {
        self.slots.get(index as usize)
    }

    /// Returns the slot of a page for changes, if it has one.
    pub(crate) fn get_mut(&mut self, index: u64) -> Option<&mut Slot> {
        self.slots.get_mut(index as usize)
    }

    /// Returns the slot of a page, created if it has none.
    pub(crate) fn entry(&mut self, index: u64) -> &mut Slot {
        let index = index as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, Slot::default);
        }
        &mut self.slots[index]
    }

    /// Returns all slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter()
    }

    /// Returns all slots from an index on, for changes.
    pub(crate) fn slots_mut(&mut self, from: u64) -> impl Iterator<Item = (u64, &mut Slot)> {
        (from..).zip(self.slots.iter_mut().skip(from as usize))
    }

    /// Forgets the pages from an index on.
    pub(crate) fn truncate(&mut self, from: u64) {
        self.slots.truncate(from as usize);
    }

    /// Returns true if the folio may be evicted.
    pub(crate) fn is_clean(&self) -> bool {
        self.dirty == 0 && self.in_flight == 0
    }
}

/// The folios of one file.
#[derive(Debug, Default)]
pub(crate) struct Folios {
    first: Folio,
    rest: BTreeMap<u64, Folio>,
}

impl Folios {
    /// Returns a folio, if it exists.
    pub(crate) fn get(&self, index: u64) -> Option<&Folio> {
        if index == 0 {
            Some(&self.first)
        } else {
            self.rest.get(&index)
        }
    }

    /// Returns a folio for changes, if it exists.
    pub(crate) fn get_mut(&mut self, index: u64) -> Option<&mut Folio> {
        if index == 0 {
            Some(&mut self.first)
        } else {
            self.rest.get_mut(&index)
        }
    }

    /// Returns a folio, created if it does not exist.
    pub(crate) fn entry(&mut self, index: u64) -> &mut Folio {
        if index == 0 {
            &mut self.first
        } else {
            self.rest.entry(index).or_default()
        }
    }

    /// Returns the folios from an index on, in order.
    pub(crate) fn range_mut(&mut self, from: u64) -> impl Iterator<Item = (u64, &mut Folio)> {
        let first = (from == 0).then_some((0, &mut self.first));
        first.into_iter().chain(
            self.rest
                .range_mut(from.max(1)..)
                .map(|(index, folio)| (*index, folio)),
        )
    }

    /// Forgets a folio.
    pub(crate) fn remove(&mut self, index: u64) {
        if index == 0 {
            self.first = Folio::default();
        } else {
            self.rest.remove(&index);
        }
    }

    /// Forgets all folios from an index on.
    pub(crate) fn remove_from(&mut self, index: u64) {
        if index <= 1 {
            self.rest = BTreeMap::new();
        } else {
            drop(self.rest.split_off(&index));
        }
        if index == 0 {
            self.first = Folio::default();
        }
    }
}
