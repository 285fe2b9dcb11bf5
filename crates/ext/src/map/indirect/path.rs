//! The path through the trees to one block of a file.

use layout::{BlockNr, FileBlock};

use super::DIRECT;
use super::block::Indirect;

/// A word of the inode, and an index in each indirect block on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    /// The word of the inode.
    pub(super) root: usize,
    /// Number of indirect blocks on the path; 0 for a direct pointer.
    pub(super) depth: usize,
    /// The index in each of them, from the root on.
    pub(super) offsets: [u32; 3],
    per_block: u32,
}

impl Path {
    /// Returns the path to a block; none if the trees do not reach it.
    pub(super) fn of(block: FileBlock, per_block: u32) -> Option<Self> {
        if block.get() < DIRECT {
            return Some(Self {
                root: block.index(),
                depth: 0,
                offsets: [0; 3],
                per_block,
            });
        }
        let width = u64::from(per_block);
        let mut index = block.get() - DIRECT;
        for depth in 1..=3 {
            let reach = width.pow(depth);
            if index < reach {
                let mut offsets = [0; 3];
                for level in (0..depth as usize).rev() {
                    offsets[level] = (index % width) as u32;
                    index /= width;
                }
                let root = DIRECT as usize + depth as usize - 1;
                return Some(Self {
                    root,
                    depth: depth as usize,
                    offsets,
                    per_block,
                });
            }
            index -= reach;
        }
        None
    }

    /// Returns the first file block that the leaf on the path maps.
    pub(super) fn leaf_first(&self, block: FileBlock) -> u64 {
        block.get() - u64::from(self.offsets[self.depth - 1])
    }

    /// Returns the indirect block at a level of the path (0: below the inode's word) to a block of
    /// the file.
    pub(super) fn indirect(&self, to: FileBlock, level: usize, block: BlockNr) -> Indirect {
        let width = u64::from(self.per_block);
        let span = width.pow((self.depth - level - 1) as u32);
        let before = span * width - self.hole_below(level);
        Indirect {
            block,
            first: FileBlock::new(to.get() - before),
            span,
        }
    }

    /// Returns the number of file blocks from this one on that lie below the same pointer at a
    /// level (0: the inode's word).
    pub(super) fn hole_below(&self, level: usize) -> u64 {
        let width = u64::from(self.per_block);
        let mut index = 0;
        for offset in &self.offsets[level..self.depth] {
            index = index * width + u64::from(*offset);
        }
        width.pow((self.depth - level) as u32) - index
    }
}

/// Returns the first file block below one of the three trees' words, and the number of blocks that
/// the tree reaches.
pub(super) fn tree(depth: u32, per_block: u32) -> (u64, u64) {
    let width = u64::from(per_block);
    let before: u64 = (1..depth).map(|depth| width.pow(depth)).sum();
    (DIRECT + before, width.pow(depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(block: u64, root: usize, depth: usize, offsets: [u32; 3]) {
        let path = Path::of(FileBlock::new(block), 256).expect("within reach");
        assert_eq!(
            (path.root, path.depth, path.offsets),
            (root, depth, offsets),
            "{block}"
        );
    }

    #[test]
    fn the_trees_begin_where_they_should() {
        check(0, 0, 0, [0, 0, 0]);
        check(11, 11, 0, [0, 0, 0]);
        check(12, 12, 1, [0, 0, 0]);
        check(12 + 255, 12, 1, [255, 0, 0]);
        check(12 + 256, 13, 2, [0, 0, 0]);
        check(12 + 256 + 65_535, 13, 2, [255, 255, 0]);
        check(12 + 256 + 65_536, 14, 3, [0, 0, 0]);
        check(
            12 + 256 + 65_536 + 256 * 256 * 3 + 256 * 2 + 1,
            14,
            3,
            [3, 2, 1],
        );
        assert_eq!(
            Path::of(FileBlock::new(12 + 256 + 65_536 + 16_777_216), 256),
            None
        );
        assert_eq!(tree(1, 256), (12, 256));
        assert_eq!(tree(2, 256), (268, 65_536));
        assert_eq!(tree(3, 256), (65_804, 16_777_216));
    }

    #[test]
    fn a_missing_level_is_a_hole_to_its_end() {
        let path =
            Path::of(FileBlock::new(12 + 256 + 65_536 + 256 * 2 + 1), 256).expect("in reach");
        assert_eq!(path.hole_below(0), 16_777_216 - 513);
        assert_eq!(path.hole_below(1), 65_536 - 513);
        assert_eq!(path.hole_below(2), 255);
        assert_eq!(path.leaf_first(FileBlock::new(66_317)), 66_316);
        let to = FileBlock::new(66_317);
        for (level, first, span) in [(0, 65_804, 65_536), (1, 65_804, 256), (2, 66_316, 1)] {
            let found = path.indirect(to, level, BlockNr::new(7));
            assert_eq!((found.first.get(), found.span), (first, span), "{level}");
        }
    }
}
