//! The files of a run: a table with twice as many slots as initial files.
//!
//! A transaction draws slots until one holds a file, so the number of draws depends on the fill of
//! the table and on the positions of the files. Slots are therefore allocated and freed exactly as
//! in the original.

use super::random::Mt19937;

/// A file, or an empty slot if its size is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    /// Number of the file, which is its name.
    pub(super) number: u64,
    /// Index of its location.
    pub(super) location: u32,
    /// Index of its subdirectory.
    pub(super) subdirectory: u32,
    /// Size in bytes.
    pub(super) size: u32,
}

/// The table.
#[derive(Debug)]
pub(super) struct Pool {
    slots: Vec<Slot>,
    next: usize,
    // Number of slots with a size. Invariant: `fill` and `clear` keep it up to date.
    live: u64,
}

impl Pool {
    pub(super) fn new(files: u32) -> Self {
        let slots = usize::try_from(files).expect("32 bits fit") * 2;
        Self {
            slots: vec![Slot::default(); slots],
            next: 0,
            live: 0,
        }
    }

    pub(super) fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn get(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    /// Returns an empty slot: the next one if it is empty, else the first of the table.
    pub(super) fn vacant(&mut self) -> Option<usize> {
        let empty = |slot: &Slot| slot.size == 0;
        let index = match self.slots.get(self.next) {
            Some(slot) if empty(slot) => self.next,
            _ => self.slots.iter().position(empty)?,
        };
        self.next = index + 1;
        Some(index)
    }

    pub(super) fn fill(&mut self, index: usize, slot: Slot) {
        assert_eq!(self.slots[index].size, 0, "the slot is taken");
        assert_ne!(slot.size, 0, "a file has a size");
        self.slots[index] = slot;
        self.live += 1;
    }

    pub(super) fn grow(&mut self, index: usize, amount: u32) {
        self.slots[index].size += amount;
    }

    pub(super) fn clear(&mut self, index: usize) {
        assert_ne!(self.slots[index].size, 0, "the slot is empty");
        self.slots[index].size = 0;
        self.live -= 1;
    }

    /// Draws a random file, if there is one.
    pub(super) fn draw(&self, random: &mut Mt19937) -> Option<usize> {
        if self.live == 0 {
            return None;
        }
        let bound = u32::try_from(self.slots.len()).expect("at most twice i32::MAX");
        loop {
            let index = random.below(bound) as usize;
            if self.slots[index].size != 0 {
                return Some(index);
            }
        }
    }

    /// Returns the first file at or after this slot.
    pub(super) fn first_from(&self, index: usize) -> Option<usize> {
        self.slots[index..]
            .iter()
            .position(|slot| slot.size != 0)
            .map(|at| index + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Slot {
        Slot {
            size: 1,
            ..Slot::default()
        }
    }

    #[test]
    fn slots_are_taken_in_turn_and_then_from_the_beginning() {
        let mut pool = Pool::new(2);
        let take = |pool: &mut Pool| {
            let index = pool.vacant();
            index.inspect(|index| pool.fill(*index, file()))
        };
        assert_eq!(
            [take(&mut pool), take(&mut pool), take(&mut pool)],
            [Some(0), Some(1), Some(2)]
        );
        pool.clear(0);
        pool.clear(1);
        assert_eq!(take(&mut pool), Some(3), "the next slot is empty");
        assert_eq!(take(&mut pool), Some(0), "beyond the end it begins again");
        assert_eq!(take(&mut pool), Some(1), "the next slot again");
        assert_eq!(take(&mut pool), None, "the table is full");
        assert_eq!(pool.live(), 4);
    }

    #[test]
    fn drawing_from_an_empty_table_ends() {
        let mut pool = Pool::new(100);
        let mut random = Mt19937::new(1);
        assert_eq!(pool.draw(&mut random), None);
        pool.fill(150, file());
        assert_eq!(pool.draw(&mut random), Some(150));
        assert_eq!(pool.first_from(0), Some(150));
        assert_eq!(pool.first_from(151), None);
    }
}
