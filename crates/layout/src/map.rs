//! A deterministic hash map: it has a fixed hasher and no iteration in hash order.

#![allow(
    clippy::disallowed_types,
    reason = "this is the type that stands for the disallowed one"
)]

use core::hash::Hash;
use std::collections::HashMap;

use foldhash::fast::FixedState;

/// A hash map with a fixed hasher. It cannot be iterated; code that depends on an order keeps its
/// own.
#[derive(Debug, Clone)]
pub struct Map<K, V> {
    inner: HashMap<K, V, FixedState>,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self {
            inner: HashMap::with_hasher(FixedState::default()),
        }
    }
}

impl<K: Hash + Eq, V> Map<K, V> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.inner.get(key)
    }

    /// Returns the value of a key, mutable.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.inner.get_mut(key)
    }

    /// True if the map contains the key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.inner.contains_key(key)
    }

    /// Sets a key's value and returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.inner.insert(key, value)
    }

    /// Returns the value of a key; inserts the result of `make` if there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.inner.entry(key).or_insert_with(make)
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.inner.remove(key)
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// True if the map is empty.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.inner.clear();
    }

    /// Returns all keys and values, sorted by key.
    pub fn sorted(&self) -> Vec<(&K, &V)>
    where
        K: Ord,
    {
        let mut all: Vec<(&K, &V)> = Vec::with_capacity(self.inner.len());
        #[expect(clippy::iter_over_hash_type, reason = "sorted at once")]
        for pair in &self.inner {
            all.push(pair);
        }
        all.sort_by(|a, b| a.0.cmp(b.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_in_the_order_of_their_keys() {
        let mut map = Map::new();
        for key in [3, 1, 2] {
            map.insert(key, key * 10);
        }
        assert_eq!(map.sorted(), [(&1, &10), (&2, &20), (&3, &30)]);
        assert_eq!(map.remove(&2), Some(20));
        assert_eq!(map.len(), 2);
    }
}
