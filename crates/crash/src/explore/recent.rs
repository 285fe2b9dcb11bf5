//! Values by the hashes of images, of which only those used lately stay in memory.

use std::collections::BTreeMap;

/// A map of two generations. A value moves into the newer one when it is used; a full newer one
/// replaces the older one.
pub(super) struct Recent<V> {
    newer: BTreeMap<u64, V>,
    older: BTreeMap<u64, V>,
    generation: usize,
}

impl<V> Recent<V> {
    /// Creates an empty map whose generations have at most `generation` values.
    pub(super) const fn new(generation: usize) -> Self {
        Self {
            newer: BTreeMap::new(),
            older: BTreeMap::new(),
            generation,
        }
    }

    /// Returns the value of an image, unless it was forgotten.
    pub(super) fn get_mut(&mut self, hash: u64) -> Option<&mut V> {
        if let Some(value) = self.older.remove(&hash) {
            self.insert(hash, value);
        }
        self.newer.get_mut(&hash)
    }

    pub(super) fn insert(&mut self, hash: u64, value: V) {
        if self.newer.len() >= self.generation {
            self.older = core::mem::take(&mut self.newer);
        }
        self.newer.insert(hash, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_forgotten() {
        let mut recent = Recent::new(4);
        for hash in 0..100 {
            recent.insert(hash, hash);
            assert_eq!(recent.get_mut(0).copied(), Some(0), "after {hash}");
            assert!(recent.newer.len() + recent.older.len() <= 8);
        }
        assert_eq!(recent.get_mut(99).copied(), Some(99));
        assert_eq!(recent.get_mut(50), None);
    }
}
