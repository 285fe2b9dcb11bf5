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
    hashes: BTreeMap<BlockNr, u32>,
}

impl SharedBlocks {
    /// Notes a block that may get one more reference. Blocks with the hash 0 are not shared.
    pub(crate) fn note(&mut self, block: BlockNr, hash: u32) {
        self.forget(block);
        if hash == 0 {
            return;
        }
        if self.hashes.len() >= KNOWN_MAX
            && let Some((oldest, _)) = self.hashes.first_key_value()
        {
            self.forget(*oldest);
        }
        self.by_hash.insert((hash, block));
        self.hashes.insert(block, hash);
    }

    pub(crate) fn forget(&mut self, block: BlockNr) {
        if let Some(hash) = self.hashes.remove(&block) {
            self.by_hash.remove(&(hash, block));
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
        assert_eq!(shared.likely(0), []);
        shared.note(block(7), 2);
        assert_eq!(shared.likely(1), [block(8)]);
        shared.forget(block(8));
        shared.forget(block(8));
        assert_eq!(shared.likely(1), []);
        assert_eq!(shared.likely(2), [block(7)]);
    }

    #[test]
    fn no_more_are_known_than_may_be() {
        let mut shared = SharedBlocks::default();
        for number in 0..KNOWN_MAX as u64 + 10 {
            shared.note(BlockNr::new(number), 5);
        }
        assert_eq!(shared.hashes.len(), KNOWN_MAX);
        assert_eq!(shared.by_hash.len(), KNOWN_MAX);
        assert_eq!(shared.likely(5).len(), LIKELY_MAX);
    }
}
