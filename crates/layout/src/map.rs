//! A hash map that is the same in every run: a fixed hasher, and no way to iterate in hash order.

#![allow(
    clippy::disallowed_types,
    reason = "this is the type that stands for the disallowed one"
)]

use core::hash::Hash;
use std::collections::HashMap;

use foldhash::fast::FixedState;

/// A hash map with a fixed hasher. It cannot be iterated: what depends on an order keeps one.
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
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.inner.get(key)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.inner.get_mut(key)
    }

    /// Whether the key is there.
    pub fn contains_key(&self, key: &K) -> bool {
        self.inner.contains_key(key)
    }

    /// Sets a key's value; the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.inner.insert(key, value)
    }

    /// The value of a key, made if it is not there.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.inner.entry(key).or_insert_with(make)
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.inner.remove(key)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.inner.clear();
    }

    /// All values, in the order of their keys.
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
