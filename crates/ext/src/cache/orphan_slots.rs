//! The slots of the orphan file in memory: which inode is in which slot, and where a free one is.
//!
//! All blocks of the file are held, so that neither taking nor clearing a slot reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use jbd2::Buffer;
use layout::InodeNr;
use layout::orphan::{SLOT_SIZE, slots, used_slots};

/// The slots of a volume's orphan file; empty on a volume without one.
#[derive(Default)]
pub(crate) struct OrphanSlots {
    blocks: Vec<SlotBlock>,
    places: BTreeMap<InodeNr, Slot>,
    stale: Vec<Stale>,
}

/// A slot in use that names no orphan, or one that is also listed elsewhere.
pub(crate) struct Stale {
    pub(crate) slot: Slot,
    pub(crate) inode: InodeNr,
    pub(crate) why: &'static str,
}

struct SlotBlock {
    buffer: Arc<Buffer>,
    /// All slots before this one are in use.
    first_free: usize,
}

/// The place of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The block of the orphan file.
    block: usize,
    index: usize,
}

impl Slot {
    /// Returns the range of bytes in the block.
    pub(crate) fn bytes(self) -> core::ops::Range<usize> {
        let start = self.index * SLOT_SIZE;
        start..start + SLOT_SIZE
    }
}

impl OrphanSlots {
    /// Adds the next block of the file. Returns its slots that are in use, with the numbers in
    /// them.
    pub(crate) fn add_block(&mut self, buffer: Arc<Buffer>) -> Vec<(Slot, u32)> {
        let block = self.blocks.len();
        let numbers = used_slots(&buffer.read())
            .map(|(index, number)| (Slot { block, index }, number))
            .collect();
        self.blocks.push(SlotBlock {
            buffer,
            first_free: 0,
        });
        numbers
    }

    /// Notes a stale slot, to be cleared.
    pub(crate) fn note_stale(&mut self, slot: Slot, inode: InodeNr, why: &'static str) {
        self.stale.push(Stale { slot, inode, why });
    }

    /// Takes the stale slots.
    pub(crate) fn take_stale(&mut self) -> Vec<Stale> {
        core::mem::take(&mut self.stale)
    }

    /// Returns the number of inodes in slots.
    pub(crate) fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns the slot of an inode.
    pub(crate) fn find(&self, nr: InodeNr) -> Option<Slot> {
        self.places.get(&nr).copied()
    }

    /// Returns the inodes in slots.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = InodeNr> {
        self.places.keys().copied()
    }

    /// Returns the buffer of a slot's block.
    pub(crate) fn buffer(&self, slot: Slot) -> &Arc<Buffer> {
        &self.blocks[slot.block].buffer
    }

    /// Returns a free slot; none if all are in use.
    pub(crate) fn free(&mut self) -> Option<Slot> {
        for (block, held) in self.blocks.iter_mut().enumerate() {
            let bytes = held.buffer.read();
            let slots = slots(&bytes);
            let behind = slots[held.first_free..].iter();
            let used = behind.take_while(|number| number.get() != 0).count();
            held.first_free += used;
            if held.first_free < slots.len() {
                let index = held.first_free;
                return Some(Slot { block, index });
            }
        }
        None
    }

    /// Notes that an inode is in a slot.
    pub(crate) fn take(&mut self, nr: InodeNr, slot: Slot) {
        self.places.insert(nr, slot);
    }

    /// Notes that an inode has left its slot.
    pub(crate) fn leave(&mut self, nr: InodeNr) {
        if let Some(slot) = self.places.remove(&nr) {
            let held = &mut self.blocks[slot.block];
            held.first_free = held.first_free.min(slot.index);
        }
    }
}
