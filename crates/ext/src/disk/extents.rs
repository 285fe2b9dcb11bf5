//! Nodes of extent trees, decoded and checked: a header, then entries that ascend by file block.
//!
//! The root lies in the words of the inode, other nodes take a block each. What a node shows by
//! itself is checked here; that a node continues the tree above it is checked by its reader.

use core::ops::Range;

use layout::extent::{DEPTH_MAX, ENTRY_SIZE, Extent, Header, Index, MAGIC, capacity};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::entry::Bad;

/// Number of file blocks that extents can map.
pub(crate) const FILE_BLOCKS: u64 = u32::MAX as u64;

/// A checked node.
#[derive(Clone, Copy)]
pub(crate) struct Node<'b> {
    depth: u16,
    /// The bytes of the entries in use.
    entries: &'b [u8],
}

impl<'b> Node<'b> {
    /// Decodes and checks a node from all of its bytes.
    pub(crate) fn decode(bytes: &'b [u8]) -> Result<Self, Bad> {
        let bad = |why| Bad { offset: 0, why };
        let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| bad("the header is cut"))?;
        if header.magic.get() != MAGIC {
            return Err(bad("it does not start with the magic of extents"));
        }
        if header.depth.get() > DEPTH_MAX {
            return Err(bad("the tree is deeper than 5 levels"));
        }
        let (count, most) = (header.entry_count.get(), header.entry_max.get());
        if most == 0 || most > capacity(bytes.len()) || count > most {
            return Err(bad("the number of entries is impossible"));
        }
        if count == 0 && header.depth.get() > 0 {
            return Err(bad("a node above others has no entry"));
        }
        let node = Self::of(header, bytes);
        node.check_order()?;
        Ok(node)
    }

    /// Returns a node that [`decode`](Self::decode) has accepted before.
    pub(crate) fn of_checked(bytes: &'b [u8]) -> Self {
        let (header, _) = Header::ref_from_prefix(bytes).expect("the node was checked");
        Self::of(header, bytes)
    }

    fn of(header: &Header, bytes: &'b [u8]) -> Self {
        let end = ENTRY_SIZE * (1 + usize::from(header.entry_count.get()));
        Self {
            depth: header.depth.get(),
            entries: &bytes[ENTRY_SIZE..end],
        }
    }

    /// Checks that the entries ascend and do not overlap.
    fn check_order(self) -> Result<(), Bad> {
        let mut free_from = 0;
        for at in 0..self.count() {
            let bad = |why| Bad {
                offset: ENTRY_SIZE * (1 + at),
                why,
            };
            let blocks = self.span(at);
            if blocks.is_empty() {
                return Err(bad("an extent has no blocks"));
            }
            if blocks.end > FILE_BLOCKS {
                return Err(bad("an extent reaches beyond the largest file"));
            }
            if blocks.start < free_from {
                return Err(bad("entries are not in order"));
            }
            free_from = blocks.end;
        }
        Ok(())
    }

    /// Returns the file blocks that an entry names itself: those of an extent, or the first one
    /// below an index entry.
    fn span(self, at: usize) -> Range<u64> {
        if self.depth > 0 {
            let first = u64::from(self.index(at).file_block.get());
            return first..first + 1;
        }
        blocks_of(self.extent(at))
    }

    /// Returns the number of levels below the node.
    pub(crate) fn depth(self) -> u16 {
        self.depth
    }

    /// Returns the number of entries.
    pub(crate) fn count(self) -> usize {
        self.entries.len() / ENTRY_SIZE
    }

    /// Returns the first file block of an entry; none if there is no such entry.
    pub(crate) fn file_block(self, at: usize) -> Option<u64> {
        (at < self.count()).then(|| self.span(at).start)
    }

    /// Returns the number of entries that start at a file block or before it.
    pub(crate) fn count_to(self, file_block: u64) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            if self.span(middle).start <= file_block {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns an entry of a leaf.
    pub(crate) fn extent(self, at: usize) -> &'b Extent {
        self.entry(at)
    }

    /// Returns an entry of a node above others.
    pub(crate) fn index(self, at: usize) -> &'b Index {
        self.entry(at)
    }

    fn entry<T: FromBytes + KnownLayout + Immutable + Unaligned>(self, at: usize) -> &'b T {
        let (entry, _) =
            T::ref_from_prefix(&self.entries[at * ENTRY_SIZE..]).expect("the entries are whole");
        entry
    }
}

/// Returns the file blocks of an extent.
pub(crate) fn blocks_of(extent: &Extent) -> Range<u64> {
    let first = u64::from(extent.file_block.get());
    first..first + u64::from(extent.block_count())
}

#[cfg(test)]
mod tests {
    use layout::extent::LENGTH_MAX;
    use zerocopy::IntoBytes;

    use super::*;

    fn leaf(extents: &[(u32, u16)]) -> Vec<u8> {
        let mut header = Header::default();
        header.magic.set(MAGIC);
        header.entry_max.set(4);
        header.entry_count.set(extents.len() as u16);
        let mut bytes = header.as_bytes().to_vec();
        for (file_block, length) in extents {
            let mut extent = Extent::default();
            extent.file_block.set(*file_block);
            extent.length.set(*length);
            bytes.extend(extent.as_bytes());
        }
        bytes.resize(60, 0);
        bytes
    }

    fn why(bytes: &[u8]) -> &'static str {
        Node::decode(bytes).map(|_| ()).expect_err("damaged").why
    }

    #[test]
    fn entries_are_found_by_file_block() {
        let bytes = leaf(&[(2, 3), (5, 1), (9, LENGTH_MAX + 2)]);
        let node = Node::decode(&bytes).expect("sound");
        for (block, count) in [(0, 0), (2, 1), (4, 1), (5, 2), (8, 2), (9, 3), (1 << 40, 3)] {
            assert_eq!(node.count_to(block), count, "{block}");
        }
        assert_eq!(blocks_of(node.extent(2)), 9..11);
        assert_eq!((node.file_block(2), node.file_block(3)), (Some(9), None));
        assert_eq!(Node::of_checked(&bytes).count(), 3);
    }

    #[test]
    fn damage_is_named() {
        assert!(why(&[0; 60]).contains("magic"));
        assert!(why(&[0; 4]).contains("cut"));
        assert!(why(&leaf(&[(2, 3), (4, 1)])).contains("order"));
        assert!(why(&leaf(&[(2, 0)])).contains("no blocks"));
        assert!(why(&leaf(&[(u32::MAX, 1)])).contains("largest file"));
        for (offset, value, reason) in [(4, 5, "number"), (2, 5, "number"), (6, 6, "deeper")] {
            let mut bytes = leaf(&[(0, 1)]);
            bytes[offset] = value;
            assert!(why(&bytes).contains(reason), "{reason}");
        }
        let mut empty = leaf(&[]);
        assert!(Node::decode(&empty).is_ok());
        empty[6] = 1;
        assert!(why(&empty).contains("no entry"));
    }
}
