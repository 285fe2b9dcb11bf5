//! Allocating and freeing blocks and inodes.
//!
//! Blocks that a transaction frees become allocatable when its commit block is durable, through
//! [`Core::release_freed`]. Inodes are reusable at once.
//!
//! # Rules
//!
//! - A group's lock is taken with a transaction open, and for memory work only: bitmap blocks are read before.
//! - Counts (of groups and of the volume) are atomics, read without the lock to choose a group. A block is claimed from the
//!   volume's count before it is marked, so that the count never goes below what is reserved.
//! - Whatever in a bitmap or a descriptor disagrees with what is asked is damage: nothing is changed and, unless the volume is
//!   mounted with `errors=continue`, it turns read-only.

mod blocks;
mod discard;
mod forward;
mod inodes;
pub(crate) mod reserve;
pub(crate) mod shortage;
mod windows;

use layout::{BlockNr, InodeNr};
use rt::Mutex;

use crate::cache::space::Window;
use crate::core::Core;
use crate::options::AllocationProfile;

/// Journal blocks that one call of [`Core::allocate_blocks`] or [`Core::free_blocks`] may dirty, for each group it touches: bitmap,
/// descriptor, superblock.
pub(crate) const CREDITS_PER_GROUP: u32 = 3;
/// Journal blocks that allocating or freeing an inode may dirty: inode bitmap, descriptor, superblock, inode table.
pub(crate) const CREDITS_INODE: u32 = 4;

/// What is wanted from the block allocator.
pub(crate) struct BlockRequest<'w> {
    /// For whom (a key for windows).
    pub(crate) owner: InodeNr,
    /// Where it should be, or near.
    pub(crate) goal: BlockNr,
    /// How many contiguous blocks at most.
    pub(crate) count_max: u32,
    /// The file's window, where windows are used.
    pub(crate) window: Option<&'w Mutex<Window>>,
}

impl Core {
    /// A good first goal for the blocks of an inode: in its group.
    pub(crate) fn block_goal(&self, inode: InodeNr) -> BlockNr {
        let (group, _) = self.geometry.group_of_inode(inode);
        let group = self.space.group(group);
        match self.options.allocation {
            AllocationProfile::Modern => group.next_goal(),
            AllocationProfile::Ext3Linux24 => group.first,
        }
    }
}

#[cfg(test)]
mod tests;
