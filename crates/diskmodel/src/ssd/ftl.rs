//! The flash translation layer: the map from slots to pages of dies, and garbage collection.
//!
//! Flash is written page by page into the open block of a die, and erased block by block. A slot
//! that is written again leaves a dead one behind. When a die has fewer than [`FREE_BLOCKS_MIN`]
//! free blocks left, the full block with the fewest live slots is the victim (*greedy*): its live
//! slots are written to the open block, and it is erased. The host sees the cost as write
//! amplification.

use std::collections::{BTreeMap, BTreeSet};

use super::SsdModel;

/// Number of free blocks of a die below which garbage is collected. One of them receives the
/// victim's live slots.
const FREE_BLOCKS_MIN: usize = 2;

/// No slot, no page.
const NOTHING: u64 = u64::MAX;

/// Minimum over-provisioning in percent: with less, a victim may not free a whole page.
const OVER_PROVISIONING_MIN: u32 = 5;

/// Maximum live part of a die, in percent of its slots, so that garbage collection always frees
/// space.
const LIVE_PERCENT_MAX: u64 = 97;

/// The location of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) die: usize,
    /// Number of the page within the die.
    pub(super) page: u64,
}

/// The work of garbage collection before a page was programmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) reads: u64,
    pub(super) programs: u64,
    pub(super) moved: u64,
    pub(super) erases: u64,
}

#[derive(Debug, Clone)]
struct FlashBlock {
    /// Slots written, page after page; [`NOTHING`] for dead ones, and for the rest of a page that
    /// was not full.
    slots: Vec<u64>,
    live: u64,
}

#[derive(Debug, Clone)]
struct Die {
    blocks: BTreeMap<u64, FlashBlock>,
    free: Vec<u64>,
    open: u64,
    /// Full blocks as (live slots, number).
    full: BTreeSet<(u64, u64)>,
    /// Number of live slots.
    live: u64,
}

/// The map and the dies.
#[derive(Debug, Clone)]
pub(super) struct Ftl {
    /// Die, and index within it, by slot.
    map: BTreeMap<u64, (usize, u64)>,
    dies: Vec<Die>,
    page_slots: usize,
    block_slots: usize,
    /// Maximum number of live slots of a die.
    live_max: u64,
}

impl Ftl {
    /// Creates an empty layer for a number of slots.
    ///
    /// # Panics
    /// Panics if there is too little flash beyond the capacity.
    pub(super) fn new(model: &SsdModel, slots: u64) -> Self {
        let is_enough = model.over_provisioning_percent >= OVER_PROVISIONING_MIN;
        assert!(is_enough, "flash needs space to collect garbage in");
        let block_slots = u64::from(model.page_slots) * u64::from(model.block_pages);
        let physical = slots + slots * u64::from(model.over_provisioning_percent) / 100;
        let per_die = physical.div_ceil(u64::from(model.dies));
        // The open block and the reserve exist even if the percentage is less than that.
        let spare = FREE_BLOCKS_MIN as u64 + 2;
        let live = slots.div_ceil(u64::from(model.dies)).div_ceil(block_slots);
        let blocks = per_die.div_ceil(block_slots).max(live + spare);
        let die = Die {
            blocks: BTreeMap::new(),
            free: (1..blocks).rev().collect(),
            open: 0,
            full: BTreeSet::new(),
            live: 0,
        };
        Self {
            map: BTreeMap::new(),
            dies: vec![die; model.dies as usize],
            page_slots: model.page_slots as usize,
            block_slots: block_slots as usize,
            live_max: (blocks - spare).min(blocks * LIVE_PERCENT_MAX / 100) * block_slots,
        }
    }

    /// Returns true if a die can take slots from other dies or new ones. At least one die always
    /// can.
    pub(super) fn has_room(&self, die: usize) -> bool {
        self.dies[die].live < self.live_max
    }

    /// Returns the location of a slot, if it was written.
    pub(super) fn place(&self, slot: u64) -> Option<Place> {
        let (die, index) = *self.map.get(&slot)?;
        Some(Place {
            die,
            page: index / self.page_slots as u64,
        })
    }

    /// Drops a slot.
    pub(super) fn forget(&mut self, slot: u64) {
        let Some((die, index)) = self.map.remove(&slot) else {
            return;
        };
        let number = index / self.block_slots as u64;
        let die = &mut self.dies[die];
        let block = die
            .blocks
            .get_mut(&number)
            .expect("a mapped slot is in a block");
        block.slots[(index % self.block_slots as u64) as usize] = NOTHING;
        if die.full.remove(&(block.live, number)) {
            die.full.insert((block.live - 1, number));
        }
        block.live -= 1;
        die.live -= 1;
    }

    /// Programs one page of a die with up to a page of slots.
    pub(super) fn program(&mut self, die: usize, slots: &[u64]) -> Work {
        let mut work = Work::default();
        while self.dies[die].free.len() < FREE_BLOCKS_MIN && self.collect(die, &mut work) {}
        self.append(die, slots);
        work
    }

    /// Writes a page to the open block.
    fn append(&mut self, number: usize, slots: &[u64]) {
        slots.iter().for_each(|slot| self.forget(*slot));
        let (page_slots, block_slots) = (self.page_slots, self.block_slots);
        let die = &mut self.dies[number];
        let open = die.open;
        let empty = || FlashBlock {
            slots: Vec::with_capacity(block_slots),
            live: 0,
        };
        let block = die.blocks.entry(open).or_insert_with(empty);
        for slot in slots {
            let index = open * block_slots as u64 + block.slots.len() as u64;
            block.slots.push(*slot);
            self.map.insert(*slot, (number, index));
        }
        block.live += slots.len() as u64;
        die.live += slots.len() as u64;
        let padded = block.slots.len().next_multiple_of(page_slots);
        block.slots.resize(padded, NOTHING);
        if padded == block_slots {
            die.full.insert((block.live, open));
            die.open = die
                .free
                .pop()
                .expect("garbage is collected before the last block is taken");
        }
    }

    /// Empties the full block with the fewest live slots. Returns false if that would gain nothing.
    fn collect(&mut self, number: usize, work: &mut Work) -> bool {
        let die = &mut self.dies[number];
        let Some((live, victim)) = die.full.first().copied() else {
            return false;
        };
        if live as usize + self.page_slots > self.block_slots {
            return false;
        }
        die.full.remove(&(live, victim));
        let slots = die.blocks[&victim].slots.clone();
        let pages = slots.chunks(self.page_slots);
        work.reads += pages
            .filter(|page| page.iter().any(|slot| *slot != NOTHING))
            .count() as u64;
        let alive: Vec<u64> = slots.into_iter().filter(|slot| *slot != NOTHING).collect();
        work.moved += alive.len() as u64;
        for page in alive.chunks(self.page_slots) {
            self.append(number, page);
            work.programs += 1;
        }
        let die = &mut self.dies[number];
        die.blocks.remove(&victim);
        die.free.push(victim);
        work.erases += 1;
        true
    }

    /// Checks that the map and the blocks agree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        for (slot, (die, index)) in &self.map {
            let block = &self.dies[*die].blocks[&(index / self.block_slots as u64)];
            assert_eq!(
                block.slots[(index % self.block_slots as u64) as usize],
                *slot
            );
        }
        let mut live = 0;
        for die in &self.dies {
            assert_eq!(
                die.live,
                die.blocks.values().map(|block| block.live).sum::<u64>()
            );
            for (number, block) in &die.blocks {
                let count = block.slots.iter().filter(|slot| **slot != NOTHING).count() as u64;
                assert_eq!(count, block.live);
                let is_full = block.slots.len() == self.block_slots;
                assert_eq!(die.full.contains(&(count, *number)), is_full);
                live += count;
            }
            assert!(!die.free.is_empty());
        }
        assert_eq!(live, self.map.len() as u64);
    }
}
