//! [`Overwritten`]: the contents that a power cut would bring back.
//!
//! A drive with a volatile write cache acknowledges a write when it has the data. The new contents
//! are in the store then, and the old ones are kept here until the arm has written the new ones.
//! The platters hold the store with the kept contents put back.
//!
//! A write in flight, from the host or from the cache, has not reached the platters at all: a power
//! cut leaves the old contents of its whole extent.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, Outcome, Request};
use layout::{Block, SectorNr};

/// An extent of sectors: the first, and the one after the last.
pub(super) type Extent = (u64, u64);

/// The old contents of the sectors whose new contents are only in volatile memory.
#[derive(Debug, Default)]
pub(super) struct Overwritten {
    sectors: BTreeMap<u64, Arc<Block>>,
}

impl Overwritten {
    /// Forgets extents that have been written to the platters.
    pub(super) fn destaged(&mut self, extents: &[Extent]) {
        for (start, end) in extents {
            self.forget(*start, *end);
        }
    }

    /// Prepares a write of an extent to the store, of which the parts in `volatile` are in the
    /// cache only. Keeps the old contents of those, unless older ones are kept already.
    pub(super) fn before_write(
        &mut self,
        store: &dyn BlockDevice,
        (start, end): Extent,
        volatile: &[Extent],
    ) {
        let mut durable = start;
        for (from, to) in volatile {
            self.forget(durable, *from);
            self.keep(store, *from, *to);
            durable = *to;
        }
        self.forget(durable, end);
    }

    /// Returns the kept contents, in ascending order.
    pub(super) fn contents(&self) -> Vec<(SectorNr, Arc<Block>)> {
        let sectors = self.sectors.iter();
        sectors
            .map(|(sector, block)| (SectorNr::new(*sector), Arc::clone(block)))
            .collect()
    }

    fn forget(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let kept: Vec<u64> = self.sectors.range(start..end).map(|(at, _)| *at).collect();
        for sector in kept {
            self.sectors.remove(&sector);
        }
    }

    fn keep(&mut self, store: &dyn BlockDevice, start: u64, end: u64) {
        let request = Request::Read {
            sector: SectorNr::new(start),
            blocks: u32::try_from(end - start).expect("a cache is smaller than 2 TiB"),
            block_bytes: SectorNr::SIZE as u32,
        };
        let Some(Ok(Outcome::Read(old))) = store.submit(vec![request]).wait().pop() else {
            return;
        };
        for (sector, block) in (start..end).zip(old) {
            self.sectors.entry(sector).or_insert(block);
        }
    }
}
