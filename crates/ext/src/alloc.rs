//! Allocation and release of blocks and inodes.
//!
//! Blocks that a transaction frees become allocatable when its commit block is durable, through
//! [`Core::release_freed`]. Inodes are reusable at once.
//!
//! # Rules
//!
//! - A group's lock is taken within a handle and held for memory work only; bitmap blocks are read
//!   before.
//! - The counts of the groups and of the volume are atomics, read without the lock to choose a
//!   group. A block is claimed from the volume's count before its bit is set, so that the count
//!   never drops below the reserve.
//! - A bitmap or a descriptor that contradicts a request is damage: nothing changes, and the volume
//!   turns read-only unless it is mounted with `errors=continue`.

mod blocks;
mod discard;
mod exact;
mod forward;
mod inodes;
pub(crate) mod reserve;
pub(crate) mod shortage;
mod windows;

use layout::{BlockNr, InodeNr};
use rt::Mutex;

use crate::cache::space::Window;
use crate::core::Core;
use crate::tuning::AllocationProfile;

/// Number of journal blocks that one call of [`Core::allocate_blocks`] or [`Core::free_blocks`] may
/// dirty for each group it touches: bitmap, descriptor, superblock.
pub(crate) const CREDITS_PER_GROUP: u32 = 3;
/// Number of journal blocks that allocating or freeing an inode may dirty: inode bitmap,
/// descriptor, superblock, inode table. The first inode of a group that was never used gives the
/// group a block bitmap, too: it takes the credit for the superblock, which every caller has again
/// for the blocks that it allocates.
pub(crate) const CREDITS_INODE: u32 = 4;

/// A request to the block allocator.
pub(crate) struct BlockRequest<'w> {
    /// The inode that gets the blocks; the key of its window.
    pub(crate) owner: InodeNr,
    /// The preferred block.
    pub(crate) goal: BlockNr,
    /// Largest number of contiguous blocks.
    pub(crate) count_max: u32,
    /// The file's reservation window, if the allocator uses windows.
    pub(crate) window: Option<&'w Mutex<Window>>,
}

impl Core {
    /// Returns the initial goal for the blocks of an inode, in the inode's group.
    pub(crate) fn block_goal(&self, inode: InodeNr) -> BlockNr {
        let (group, _) = self.geometry().group_of_inode(inode);
        let group = self.space.group(group);
        match self.tuning.allocation {
            AllocationProfile::Modern => group.next_goal(),
            AllocationProfile::Ext3Linux24 => {
                group.first + u64::from(self.tuning.allocation_start % group.block_count)
            }
        }
    }
}

#[cfg(test)]
mod tests;
