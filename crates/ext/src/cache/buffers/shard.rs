//! One shard of the cache: a map from block number to slot, and a clock hand that goes round the
//! slots.

use std::collections::BTreeMap;
use std::sync::Arc;

use jbd2::Buffer;
use layout::{BlockNr, Map};
use rt::{Condvar, Mutex, Nanos};

use crate::disk::metadata::Label;

/// A shard and its condition variable.
#[derive(Default)]
pub(super) struct Shard {
    /// The shard's state. // [shard]
    pub(super) state: Mutex<ShardState>,
    /// Notified when a read or a write of a block of this shard ends.
    pub(super) changed: Condvar,
}

/// The buffers of a shard.
#[derive(Default)]
pub(super) struct ShardState {
    /// The slot of each block.
    index: Map<BlockNr, usize>,
    slots: Vec<Option<Slot>>,
    /// Empty slots.
    vacant: Vec<usize>,
    /// Position of the clock hand.
    hand: usize,
    /// Dirty blocks that are not in flight, with the time since which they are dirty.
    dirty: BTreeMap<BlockNr, Nanos>,
}

struct Slot {
    block: BlockNr,
    /// The label of the buffer.
    label: Label,
    /// The buffer; `None` while the block is being read.
    buffer: Option<Arc<Buffer>>,
    /// True if the block was found since the hand last passed.
    is_referenced: bool,
    /// True while the block is being written.
    is_in_flight: bool,
}

/// The result of a look-up.
pub(super) enum Found {
    /// The block's buffer and its label.
    Ready(Arc<Buffer>, Label),
    /// The block is being read.
    Loading,
    /// The block is not in memory.
    Absent,
}

impl ShardState {
    /// Looks a block up.
    pub(super) fn find(&mut self, block: BlockNr) -> Found {
        let Some(slot) = self.slot(block) else {
            return Found::Absent;
        };
        slot.is_referenced = true;
        match &slot.buffer {
            Some(buffer) => Found::Ready(Arc::clone(buffer), slot.label),
            None => Found::Loading,
        }
    }

    /// Returns true if the block is being read or written.
    pub(super) fn is_busy(&mut self, block: BlockNr) -> bool {
        self.slot(block)
            .is_some_and(|slot| slot.is_in_flight || slot.buffer.is_none())
    }

    /// Notes that an absent block is being read.
    pub(super) fn begin_load(&mut self, block: BlockNr, label: Label) {
        self.place(Slot {
            block,
            label,
            buffer: None,
            is_referenced: false,
            is_in_flight: false,
        });
    }

    /// Ends a read, successful or not.
    pub(super) fn end_load(&mut self, block: BlockNr) {
        let slot = self
            .take(block)
            .expect("a block stays in the map while it is read");
        assert!(
            slot.buffer.is_none(),
            "nobody inserts a block that is being read"
        );
    }

    /// Inserts the buffer of an absent block.
    pub(super) fn insert(&mut self, buffer: Arc<Buffer>, label: Label) {
        let block = buffer.nr();
        self.place(Slot {
            block,
            label,
            buffer: Some(buffer),
            is_referenced: true,
            is_in_flight: false,
        });
    }

    /// Notes the new label of a block's buffer.
    pub(super) fn relabel(&mut self, block: BlockNr, label: Label) {
        if let Some(slot) = self.slot(block) {
            slot.label = label;
        }
    }

    /// Removes a block that is not busy. Returns its buffer, and true if it was dirty.
    pub(super) fn remove(&mut self, block: BlockNr) -> Option<(Arc<Buffer>, bool)> {
        let slot = self.take(block)?;
        let was_dirty = self.dirty.remove(&block).is_some();
        Some((
            slot.buffer
                .expect("a block that is being read is not removed"),
            was_dirty,
        ))
    }

    /// Marks a buffer dirty; returns true if it was clean. A buffer that has been removed meanwhile
    /// is not marked.
    pub(super) fn mark_dirty(&mut self, buffer: &Arc<Buffer>, now: impl FnOnce() -> Nanos) -> bool {
        let block = buffer.nr();
        let is_current = self.slot(block).is_some_and(|slot| {
            slot.is_referenced = true;
            slot.buffer
                .as_ref()
                .is_some_and(|current| Arc::ptr_eq(current, buffer))
        });
        if !is_current || self.dirty.contains_key(&block) {
            return false;
        }
        self.dirty.insert(block, now());
        true
    }

    /// Adds the blocks that have been dirty since `time` or longer.
    pub(super) fn dirty_before(&self, time: Nanos, blocks: &mut Vec<BlockNr>) {
        let old = self.dirty.iter().filter(|(_, since)| **since <= time);
        blocks.extend(old.map(|(block, _)| *block));
    }

    /// Clears the dirty mark of a block and puts it in flight, unless it is in flight already.
    pub(super) fn claim(&mut self, block: BlockNr) -> Claim {
        let Some(slot) = self
            .index
            .get(&block)
            .and_then(|at| self.slots[*at].as_mut())
        else {
            return Claim::Clean;
        };
        if slot.is_in_flight {
            return Claim::InFlight;
        }
        let Some(since) = self.dirty.remove(&block) else {
            return Claim::Clean;
        };
        let buffer = slot
            .buffer
            .as_ref()
            .expect("a dirty block is not being read");
        slot.is_in_flight = true;
        Claim::Taken(Arc::clone(buffer), since)
    }

    /// Adds the blocks that are dirty or being written.
    pub(super) fn unsettled(&self, blocks: &mut Vec<BlockNr>) {
        blocks.extend(self.dirty.keys());
        blocks.extend(
            self.slots
                .iter()
                .flatten()
                .filter(|slot| slot.is_in_flight)
                .map(|slot| slot.block),
        );
    }

    /// Ends the write of a block. After a failure the block is as dirty as before; returns true if
    /// it is not counted as dirty yet.
    pub(super) fn end_write(&mut self, block: BlockNr, failed_since: Option<Nanos>) -> bool {
        let slot = self
            .slot(block)
            .expect("a block stays in the map while it is written");
        slot.is_in_flight = false;
        match failed_since {
            Some(since) => self.dirty.insert(block, since).is_none(),
            None => false,
        }
    }

    /// Evicts up to `count` clean buffers without other references. Returns the number evicted.
    pub(super) fn evict(&mut self, count: u64) -> u64 {
        let mut evicted = 0;
        // The first round clears the marks of the slots that were found lately.
        for _ in 0..2 * self.slots.len() {
            if evicted == count {
                break;
            }
            self.hand = if self.hand + 1 < self.slots.len() {
                self.hand + 1
            } else {
                0
            };
            let Some(slot) = self.slots[self.hand].as_mut() else {
                continue;
            };
            if core::mem::take(&mut slot.is_referenced) || slot.is_in_flight {
                continue;
            }
            let block = slot.block;
            let is_idle = slot.buffer.as_mut().is_some_and(Buffer::is_idle);
            if is_idle && !self.dirty.contains_key(&block) {
                self.take(block);
                evicted += 1;
            }
        }
        evicted
    }

    fn slot(&mut self, block: BlockNr) -> Option<&mut Slot> {
        let at = *self.index.get(&block)?;
        self.slots[at].as_mut()
    }

    fn place(&mut self, slot: Slot) {
        let block = slot.block;
        let at = match self.vacant.pop() {
            Some(at) => {
                self.slots[at] = Some(slot);
                at
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() - 1
            }
        };
        let before = self.index.insert(block, at);
        assert!(before.is_none(), "a block has one slot");
    }

    fn take(&mut self, block: BlockNr) -> Option<Slot> {
        let at = self.index.remove(&block)?;
        self.vacant.push(at);
        self.slots[at].take()
    }
}

/// The result of `claim`.
pub(super) enum Claim {
    /// The block's buffer, and the time since which it was dirty.
    Taken(Arc<Buffer>, Nanos),
    /// Another thread writes the block.
    InFlight,
    /// The block is not dirty.
    Clean,
}
