//! The blocks of a block map that is built as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use layout::extent::Extent;
use layout::{Block, BlockNr, InodeNr};

use crate::alloc::BlockRequest;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::error::Result;

/// A node of an extent tree, below the root.
#[derive(Debug)]
pub(crate) struct OldNode {
    /// The first file block below it.
    pub(crate) file_block: u32,
    pub(super) block: BlockNr,
    pub(super) image: Arc<Block>,
}

/// The nodes of each level of an extent tree, leaves first.
pub(crate) type OldNodes = Vec<Vec<OldNode>>;

/// An extent tree whose nodes another one may keep.
#[derive(Debug, Default)]
pub(crate) struct OldTree {
    pub(crate) nodes: OldNodes,
    /// The extents of the new tree: none is joined with one in another leaf of the old one.
    pub(crate) extents: Vec<Extent>,
    /// Number of blocks that the new tree may take beyond those that full nodes would.
    pub(crate) extra_blocks: u64,
}

/// The blocks of a map that is built: those that the inode has for it, and new ones.
#[derive(Debug)]
pub(crate) struct MapBlocks {
    owner: InodeNr,
    /// The blocks that the inode has and the map not yet, the first one last.
    spare: Vec<BlockNr>,
    taken: Vec<BlockNr>,
    /// The tree before, for an extent tree.
    pub(super) old: Option<OldTree>,
    /// Number of blocks beyond those that full nodes would have taken.
    extra_count: u64,
    /// True if the map has block numbers of 32 bits.
    pub(super) is_narrow: bool,
}

impl MapBlocks {
    /// Starts with the blocks that an inode has for its map. They are used in this order.
    pub(crate) fn new(owner: InodeNr, mut spare: Vec<BlockNr>) -> Self {
        spare.reverse();
        Self {
            owner,
            spare,
            taken: Vec::new(),
            old: None,
            extra_count: 0,
            is_narrow: false,
        }
    }

    /// Lets the map, an extent tree, keep nodes of the one before it.
    pub(crate) fn with_tree(mut self, old: OldTree) -> Self {
        self.old = Some(old);
        self
    }

    /// Returns the number of blocks that the inode has and the map not yet.
    pub(super) fn spare_count(&self) -> usize {
        self.spare.len()
    }

    /// Takes blocks of the inode that stay what they are, for a map that takes a number of blocks
    /// beyond those that full nodes would.
    pub(super) fn keep(&mut self, kept: BTreeSet<BlockNr>, extra_count: u64) {
        self.extra_count = extra_count;
        self.spare.retain(|block| !kept.contains(block));
        self.taken.extend(kept);
    }

    /// Returns the next block: one of the inode, or a new one.
    pub(super) fn take(&mut self, core: &Core, handle: &mut Handle<'_>) -> Result<BlockNr> {
        let block = match self.spare.pop() {
            Some(block) => block,
            None => {
                let behind = self.taken.last().map(|last| *last + 1);
                let request = BlockRequest {
                    owner: self.owner,
                    goal: behind.unwrap_or_else(|| core.block_goal(self.owner, false)),
                    count_max: 1,
                    place: None,
                    window: None,
                    is_narrow: self.is_narrow,
                };
                core.allocate_blocks(handle, &request)?.first
            }
        };
        self.taken.push(block);
        Ok(block)
    }

    /// Returns the blocks that the map has, and the number of those that full nodes would not have
    /// taken.
    pub(crate) fn into_taken(self) -> (Vec<BlockNr>, u64) {
        (self.taken, self.extra_count)
    }
}
