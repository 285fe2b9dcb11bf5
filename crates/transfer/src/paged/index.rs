//! A hash table of the numbers of items, which lie elsewhere.
//!
//! A slot holds the upper half of an item's hash, and its number plus one. Slots are in the order
//! of hashes, so that a table of twice the size is filled in order, too.

use std::hash::{BuildHasher, Hash, RandomState};

use anyhow::{Result, ensure};

use super::Paged;

/// Binary logarithm of the number of slots at first, and at most.
const BITS_MIN: u32 = 10;
const BITS_MAX: u32 = 32;

/// The table.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Paged<u64>,
    bits: u32,
    count: usize,
    memory_bytes: usize,
    hasher: RandomState,
}

impl Index {
    /// Returns an empty table that takes at most approximately this memory, and twice while it
    /// grows.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self {
            slots: Paged::zeroed(memory_bytes, 1 << BITS_MIN),
            bits: BITS_MIN,
            count: 0,
            memory_bytes,
            hasher: RandomState::new(),
        }
    }

    /// Returns the hash of a key.
    pub(crate) fn hash(&self, key: impl Hash) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    /// Returns the item with this hash for which `is_it` returns true.
    pub(crate) fn find(
        &mut self,
        hash: u32,
        mut is_it: impl FnMut(u32) -> Result<bool>,
    ) -> Result<Option<u32>> {
        let mut at = first_slot(hash, self.bits);
        loop {
            let slot = self.slots.get(at)?;
            let (found, number) = ((slot >> 32) as u32, slot as u32);
            match number.checked_sub(1) {
                None => return Ok(None),
                Some(number) if found == hash && is_it(number)? => return Ok(Some(number)),
                Some(_) => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Adds an item that is not there, whose number is less than 2^32 - 1.
    pub(crate) fn add(&mut self, hash: u32, number: u32) -> Result<()> {
        if self.count * 4 >= self.slots.len() * 3 {
            self.grow()?;
        }
        self.count += 1;
        let slot = u64::from(hash) << 32 | (u64::from(number) + 1);
        put(&mut self.slots, self.bits, slot)
    }

    fn grow(&mut self) -> Result<()> {
        let bits = self.bits + 1;
        ensure!(bits <= BITS_MAX, "more than 3 * 2^30 files");
        let mut slots = Paged::zeroed(self.memory_bytes, 1 << bits);
        for at in 0..self.slots.len() {
            let slot = self.slots.get(at)?;
            if slot != 0 {
                put(&mut slots, bits, slot)?;
            }
        }
        (self.slots, self.bits) = (slots, bits);
        Ok(())
    }
}

fn first_slot(hash: u32, bits: u32) -> usize {
    ((u64::from(hash) << bits) >> 32) as usize
}

fn put(slots: &mut Paged<u64>, bits: u32, slot: u64) -> Result<()> {
    let mut at = first_slot((slot >> 32) as u32, bits);
    while slots.get(at)? != 0 {
        at = (at + 1) & (slots.len() - 1);
    }
    *slots.get_mut(at)? = slot;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_keys() {
        let mut index = Index::new(16 << 10);
        let keys: Vec<String> = (0..20_000).map(|number| format!("key {number}")).collect();
        for (number, key) in (0..).zip(&keys) {
            let hash = index.hash(key);
            let is_it = |found: u32| Ok(keys[found as usize] == *key);
            assert_eq!(index.find(hash, is_it).expect("works"), None);
            index.add(hash, number).expect("there is room");
        }
        for (number, key) in (0..).zip(&keys) {
            let hash = index.hash(key);
            let is_it = |found: u32| Ok(keys[found as usize] == *key);
            assert_eq!(index.find(hash, is_it).expect("works"), Some(number));
        }
    }
}
