//! Block maps of the first files: indirect trees over blocks whose numbers are known.

use std::collections::VecDeque;

use layout::inode::{DIRECT_BLOCKS, INDIRECT_SLOT, MAP_WORDS};
use layout::{Block, BlockNr};

use crate::disk::geometry::Geometry;
use crate::disk::run::Run;

/// Returns the number of indirect blocks of a file with this number of blocks.
pub(super) fn map_blocks(geometry: &Geometry, count: u64) -> u64 {
    let per_block = u64::from(geometry.pointers_per_block());
    let mut left = count.saturating_sub(DIRECT_BLOCKS as u64);
    let mut total = 0;
    for depth in 1..=3 {
        let here = left.min(per_block.pow(depth));
        let mut level = here;
        for _ in 0..depth {
            level = level.div_ceil(per_block);
            total += level;
        }
        left -= here;
    }
    total
}

/// Maps the blocks of `data`, in order, with indirect blocks from `map`. Returns the inode's words
/// and the indirect blocks.
pub(super) fn build(
    geometry: &Geometry,
    data: &[Run],
    map: &[Run],
) -> ([u32; MAP_WORDS], Vec<(BlockNr, Block)>) {
    let mut tree = Tree {
        data: numbers(data),
        map: numbers(map),
        images: Vec::new(),
        block_bytes: geometry.block_bytes as usize,
    };
    let mut words = [0; MAP_WORDS];
    for word in words.iter_mut().take(DIRECT_BLOCKS) {
        *word = tree.data.pop_front().unwrap_or(0);
    }
    for (depth, word) in words.iter_mut().skip(INDIRECT_SLOT).enumerate() {
        *word = tree.branch(depth);
    }
    (words, tree.images)
}

struct Tree {
    data: VecDeque<u32>,
    map: VecDeque<u32>,
    images: Vec<(BlockNr, Block)>,
    block_bytes: usize,
}

impl Tree {
    /// Builds an indirect block over data blocks (depth 0) or further indirect blocks, filled as
    /// far as there is data.
    fn branch(&mut self, depth: usize) -> u32 {
        if self.data.is_empty() {
            return 0;
        }
        let nr = self
            .map
            .pop_front()
            .expect("as many map blocks as map_blocks says");
        let mut image = Block::zeroed(self.block_bytes);
        for pointer in image.chunks_exact_mut(4) {
            let next = match depth {
                0 => self.data.pop_front().unwrap_or(0),
                _ => self.branch(depth - 1),
            };
            if next == 0 {
                break;
            }
            pointer.copy_from_slice(&next.to_le_bytes());
        }
        self.images.push((BlockNr::new(nr.into()), image));
        nr
    }
}

fn numbers(runs: &[Run]) -> VecDeque<u32> {
    let blocks = runs
        .iter()
        .flat_map(|run| (0..run.count).map(|index| run.first + u64::from(index)));
    blocks.map(|block| block.get() as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_map_blocks_are_counted_as_are_used() {
        let geometry = Geometry {
            block_bytes: 1024,
            ..crate::format::mkfs::tests::geometry()
        };
        for count in [
            0, 1, 12, 13, 14, 268, 269, 270, 524, 525, 65804, 65805, 65806, 70000,
        ] {
            let data = [Run {
                first: BlockNr::new(1000),
                count,
            }];
            let wanted = map_blocks(&geometry, u64::from(count));
            let map = [Run {
                first: BlockNr::new(100_000),
                count: wanted as u32,
            }];
            let (_, images) = build(&geometry, &data, &map);
            assert_eq!(images.len() as u64, wanted, "{count} blocks");
        }
    }
}
