//! The nodes of extent trees that directories keep, so that a look-up of a name takes none of them
//! from the cache of buffers.
//!
//! They are not part of the memory budget, and stay as long as their directories are in memory. So
//! a volume has only so many of them.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use layout::{Block, BlockNr};

/// Largest number of nodes that the directories of a volume keep.
const KEPT_MAX: u64 = 1024;

/// The number of nodes that are kept. Its accesses order nothing, so they are not scheduling
/// points.
#[derive(Default)]
pub(crate) struct KeptNodes(Arc<AtomicU64>);

/// A node of an extent tree.
pub(crate) struct KeptNode {
    pub(crate) block: BlockNr,
    pub(crate) image: Arc<Block>,
    /// [`BufferCache::removals`](super::buffers::BufferCache::removals) before it was read.
    pub(crate) removals: u64,
    _place: Place,
}

/// The place of a node among those that are kept.
struct Place(Arc<AtomicU64>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl KeptNodes {
    /// Makes a node that can be kept; none if there are too many.
    pub(crate) fn keep(
        &self,
        block: BlockNr,
        image: Arc<Block>,
        removals: u64,
    ) -> Option<KeptNode> {
        let place = Place(Arc::clone(&self.0));
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        (before < KEPT_MAX).then_some(KeptNode {
            block,
            image,
            removals,
            _place: place,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_keeps_so_many_nodes() {
        let nodes = KeptNodes::default();
        let keep = || nodes.keep(BlockNr::new(7), Block::zeroed(1024).into_arc(), 0);
        let mut all: Vec<_> = (0..KEPT_MAX).map(|_| keep()).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(keep().is_none() && keep().is_none());
        all.pop();
        assert!(keep().is_some() && keep().is_some());
        drop(all);
        assert_eq!(nodes.0.load(Ordering::Relaxed), 0);
    }
}
