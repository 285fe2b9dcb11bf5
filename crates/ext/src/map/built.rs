//! The blocks of a block map that is built as a whole.

use layout::{BlockNr, InodeNr};

use crate::alloc::BlockRequest;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::error::Result;

/// The blocks of a map that is built: those that the inode has for it, and new ones.
#[derive(Debug)]
pub(crate) struct MapBlocks {
    owner: InodeNr,
    spare: Vec<BlockNr>,
    taken: Vec<BlockNr>,
    /// True if the map has block numbers of 32 bits.
    pub(super) is_narrow: bool,
}

impl MapBlocks {
    /// Starts with the blocks that an inode has for its map.
    pub(crate) fn new(owner: InodeNr, spare: Vec<BlockNr>) -> Self {
        let taken = Vec::new();
        Self {
            owner,
            spare,
            taken,
            is_narrow: false,
        }
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

    /// Returns the blocks that the map has.
    pub(crate) fn into_taken(self) -> Vec<BlockNr> {
        self.taken
    }
}
