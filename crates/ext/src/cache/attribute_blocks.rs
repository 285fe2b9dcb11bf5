//! Attribute blocks by their contents, so that inodes with equal attributes share one.

use std::collections::{BTreeMap, BTreeSet};

use layout::BlockNr;

/// Largest number of attribute blocks in the index.
const KNOWN_MAX: usize = 4096;
/// Largest number of blocks to compare for one hash.
const LIKELY_MAX: usize = 4;

/// An index of attribute blocks by the hash of all their attributes.
#[derive(Debug, Default)]
pub(crate) struct SharedBlocks {
    by_hash: BTreeSet<(u32, BlockNr)>,
    known: BTreeMap<BlockNr, Known>,
    /// The known blocks by age.
    by_age: BTreeMap<u64, BlockNr>,
    /// The age of the next block.
    next: u64,
}

/// A block in the index.
#[derive(Debug)]
struct Known {
    hash: u32,
    age: u64,
}

impl SharedBlocks {
    /// Notes a block that may get one more reference. Blocks with the hash 0 are not shared. The
    /// block noted longest ago makes room.
    pub(crate) fn note(&mut self, block: BlockNr, hash: u32) {
        self.forget(block);
        if hash == 0 {
            return;
        }
        if self.known.len() >= KNOWN_MAX
            && let Some((_, oldest)) = self.by_age.first_key_value()
        {
            self.forget(*oldest);
        }
        let age = self.next;
        self.next += 1;
        self.by_hash.insert((hash, block));
        self.by_age.insert(age, block);
        self.known.insert(block, Known { hash, age });
    }

    /// Returns true if a call of [`note`](Self::note) would change nothing but the age of a block.
    pub(crate) fn is_noted(&self, block: BlockNr, hash: u32) -> bool {
        self.known.get(&block).map_or(0, |known| known.hash) == hash
    }

    pub(crate) fn forget(&mut self, block: BlockNr) {
        if let Some(Known { hash, age }) = self.known.remove(&block) {
            self.by_hash.remove(&(hash, block));
            self.by_age.remove(&age);
        }
    }

    /// Returns blocks that probably hold the attributes with this hash.
    pub(crate) fn likely(&self, hash: u32) -> Vec<BlockNr> {
        let range = (hash, BlockNr::new(0))..=(hash, BlockNr::new(u64::MAX));
        let blocks = self.by_hash.range(range).map(|(_, block)| *block);
        blocks.take(LIKELY_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_known_by_their_newest_hash() {
        let mut shared = SharedBlocks::default();
        let block = BlockNr::new;
        shared.note(block(7), 1);
        shared.note(block(8), 1);
        shared.note(block(9), 0);
        assert_eq!(shared.likely(1), [block(7), block(8)]);
        assert!(shared.is_noted(block(7), 1) && !shared.is_noted(block(7), 2));
        assert!(shared.is_noted(block(9), 0) && !shared.is_noted(block(9), 1));
        assert_eq!(shared.likely(0), []);
        shared.note(block(7), 2);
        assert_eq!(shared.likely(1), [block(8)]);
        shared.forget(block(8));
        shared.forget(block(8));
        assert_eq!(shared.likely(1), []);
        assert_eq!(shared.likely(2), [block(7)]);
    }

    /// The block that was noted first makes room, whatever its number.
    #[test]
    fn the_oldest_block_is_forgotten() {
        let mut shared = SharedBlocks::default();
        let blocks = (1..=KNOWN_MAX as u64).rev().map(BlockNr::new);
        for block in blocks {
            shared.note(block, block.get() as u32);
        }
        let [lowest, highest] = [1, KNOWN_MAX as u64].map(BlockNr::new);
        // Noted again, it is not the oldest any more.
        shared.note(highest, 7_000_000);
        shared.note(BlockNr::new(1_000_000), 8_000_000);
        let is_known = |block: BlockNr| shared.known.contains_key(&block);
        assert!(is_known(lowest) && is_known(highest));
        assert!(!is_known(BlockNr::new(KNOWN_MAX as u64 - 1)));
    }

    #[test]
    fn no_more_are_known_than_may_be() {
        let mut shared = SharedBlocks::default();
        for number in 0..KNOWN_MAX as u64 + 10 {
            shared.note(BlockNr::new(number), 5);
        }
        assert_eq!(shared.known.len(), KNOWN_MAX);
        assert_eq!(shared.by_age.len(), KNOWN_MAX);
        assert_eq!(shared.by_hash.len(), KNOWN_MAX);
        assert_eq!(shared.likely(5).len(), LIKELY_MAX);
    }
}
