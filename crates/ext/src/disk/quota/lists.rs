//! The two lists of a quota file: free blocks, and data blocks with a free entry.
//!
//! The header has the first block of each. A free block is in the list by its first word alone, and
//! the rest of it is zero; a data block with room knows both of its neighbours.
//!
//! Both lists are checked when the file is decoded, because a block that is taken from them is
//! overwritten. One that is not right is given up: it becomes empty, and the file grows instead.

use std::collections::BTreeSet;

use layout::quota::{BLOCK_SIZE, DataHeader, ENTRIES_PER_BLOCK, Entry, ROOT_BLOCK};

use super::{QuotaTree, Used};

/// Size of the first word of a free block in bytes.
const NEXT: usize = 4;

impl QuotaTree {
    /// Checks both lists, and gives up one that is not right.
    pub(super) fn check_lists(&mut self, used: &Used) {
        if let Err(fault) = self.check_free(used) {
            self.list_fault = Some(fault);
            self.edit_header(|header| header.free_block.set(0));
        }
        match self.check_with_room(used) {
            Ok(with_room) => self.with_room = with_room,
            Err(fault) => {
                self.list_fault = Some(fault);
                self.edit_header(|header| header.block_with_room.set(0));
            }
        }
    }

    /// Checks that the list of free blocks leads to empty blocks outside the tree.
    fn check_free(&self, used: &Used) -> Result<(), &'static str> {
        if rt::mutant!("quota/free-list-believed") {
            return Ok(());
        }
        let mut seen = BTreeSet::new();
        let mut block = self.header().free_block.get();
        while block != 0 {
            let is_within = block > ROOT_BLOCK && block < self.header().blocks.get();
            if !is_within || !seen.insert(block) {
                return Err("the list of free blocks leads outside, or in a circle");
            }
            let is_used = used.nodes.contains(&block) || used.data.contains(&block);
            if is_used || self.block(block)[NEXT..].iter().any(|byte| *byte != 0) {
                return Err("the list of free blocks leads to a block in use");
            }
            block = self.data_header(block).next.get();
        }
        Ok(())
    }

    /// Checks that the list of data blocks with room leads to data blocks with room. Returns them.
    fn check_with_room(&self, used: &Used) -> Result<BTreeSet<u32>, &'static str> {
        let mut with_room = BTreeSet::new();
        let (mut previous, mut block) = (0, self.header().block_with_room.get());
        while block != 0 {
            if !used.data.contains(&block) || !with_room.insert(block) {
                return Err("the list of blocks with room leads to no data block, or in a circle");
            }
            let header = self.data_header(block);
            let count = self.entries_in(block);
            let is_right = usize::from(header.entries.get()) == count
                && count < ENTRIES_PER_BLOCK
                && header.previous.get() == previous;
            if !is_right {
                return Err("the list of blocks with room leads to one that is not right");
            }
            (previous, block) = (block, header.next.get());
        }
        Ok(with_room)
    }

    /// Returns the number of entries in a data block.
    fn entries_in(&self, block: u32) -> usize {
        let slots = self.slots(block);
        slots
            .filter(|at| self.entry_at(*at) != Entry::default())
            .count()
    }

    /// Returns a data block with a free entry.
    pub(super) fn block_with_room(&mut self) -> u32 {
        match self.header().block_with_room.get() {
            0 => {
                let block = self.new_block();
                self.add_with_room(block);
                block
            }
            block => block,
        }
    }

    /// Counts a new entry of a block with room; a block that is full leaves the list.
    pub(super) fn count_entry(&mut self, block: u32) {
        let count = self.entries_in(block);
        self.store_count(block, count);
        if count == ENTRIES_PER_BLOCK {
            self.remove_with_room(block);
        }
    }

    /// Counts an entry that was removed from a block. The block is freed if that was its last one,
    /// and has room otherwise.
    pub(super) fn discount_entry(&mut self, block: u32) {
        let count = self.entries_in(block);
        self.store_count(block, count);
        if count == 0 {
            self.remove_with_room(block);
            self.free_block(block);
        } else if !self.with_room.contains(&block) {
            self.add_with_room(block);
        }
    }

    fn store_count(&mut self, block: u32, count: usize) {
        let mut header = self.data_header(block);
        header.entries.set(count as u16);
        self.put_data_header(block, header);
    }

    /// Puts a data block at the head of the list of those with room.
    fn add_with_room(&mut self, block: u32) {
        let next = self.header().block_with_room.get();
        self.link(block, 0, next);
        if next != 0 {
            let behind = self.data_header(next).next.get();
            self.link(next, block, behind);
        }
        self.edit_header(|header| header.block_with_room.set(block));
        self.with_room.insert(block);
    }

    /// Takes a data block out of the list of those with room, if it is in it.
    fn remove_with_room(&mut self, block: u32) {
        if !self.with_room.remove(&block) {
            return;
        }
        let DataHeader { previous, next, .. } = self.data_header(block);
        let (previous, next) = (previous.get(), next.get());
        match previous {
            0 => self.edit_header(|header| header.block_with_room.set(next)),
            _ => {
                let before = self.data_header(previous).previous.get();
                self.link(previous, before, next);
            }
        }
        if next != 0 {
            let behind = self.data_header(next).next.get();
            self.link(next, previous, behind);
        }
        self.link(block, 0, 0);
    }

    fn link(&mut self, block: u32, previous: u32, next: u32) {
        let mut header = self.data_header(block);
        header.previous.set(previous);
        header.next.set(next);
        self.put_data_header(block, header);
    }

    /// Returns a block of zeroes: a free one, or one more.
    pub(super) fn new_block(&mut self) -> u32 {
        let header = self.header();
        let free = header.free_block.get();
        if free != 0 {
            let next = self.data_header(free).next.get();
            self.edit_header(|header| header.free_block.set(next));
            self.clear(free);
            return free;
        }
        let block = header.blocks.get();
        self.edit_header(|header| header.blocks.set(block + 1));
        self.bytes.resize((block as usize + 1) * BLOCK_SIZE, 0);
        self.changed.insert(block);
        block
    }

    /// Returns the number of free blocks, at most this one.
    pub(super) fn free_blocks(&self, most: usize) -> usize {
        let mut block = self.header().free_block.get();
        let mut count = 0;
        while block != 0 && count < most {
            count += 1;
            block = self.data_header(block).next.get();
        }
        count
    }

    /// Puts a block that nothing leads to at the head of the list of free blocks.
    pub(super) fn free_block(&mut self, block: u32) {
        let next = self.header().free_block.get();
        self.clear(block);
        self.link(block, 0, next);
        self.edit_header(|header| header.free_block.set(block));
    }

    fn clear(&mut self, block: u32) {
        let at = block as usize * BLOCK_SIZE;
        self.put(at, &[0; BLOCK_SIZE]);
        self.changed.insert(block);
    }
}
