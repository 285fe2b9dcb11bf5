//! Allocation and release of blocks and inodes.
//!
//! Blocks are allocated and freed by whole clusters ([`cluster`](crate::disk::cluster)). Callers
//! name blocks; bitmaps, counts, windows and searches have clusters. Which clusters of a file are
//! free with some of its blocks is known to its block map.
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
mod multi_block;
mod narrow;
mod orlov;
pub(crate) mod reserve;
pub(crate) mod shortage;
mod table_zeroes;
mod windows;

use layout::{BlockNr, GroupNr, InodeNr};
use rt::Mutex;

use crate::cache::space::Window;
use crate::core::Core;
use crate::disk::kind::FileKind;
use crate::tuning::Allocator;

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
    /// The preferred block; its cluster is meant.
    pub(crate) goal: BlockNr,
    /// Largest number of contiguous blocks. They start with a cluster, and what the last cluster
    /// has behind them is taken, too.
    pub(crate) count_max: u32,
    /// The file's reservation window, if the allocator uses windows.
    pub(crate) window: Option<&'w Mutex<Window>>,
    /// The place in the file for contents of a regular file or of a directory with a window; none
    /// for other blocks.
    pub(crate) place: Option<FilePlace>,
    /// True if the block map of the owner holds block numbers of 32 bits only.
    pub(crate) is_narrow: bool,
}

/// The place of new blocks in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilePlace {
    /// Number of blocks of the file before the new ones.
    pub(crate) from: u64,
    /// Size of the file in blocks before the operation, or after it.
    pub(crate) size_blocks: u64,
    /// True if the file is not expected to grow further: then it gets no window.
    pub(crate) is_final: bool,
    /// True if the allocation was delayed: then the file is likely to be complete.
    pub(crate) is_delayed: bool,
}

impl Core {
    /// Returns true if new blocks at a place of a file come with a window: for a directory only
    /// once it has outgrown a small file. Directories that grow side by side would otherwise take
    /// turns with every block, and have as many extents as blocks.
    pub(crate) fn has_window(&self, kind: FileKind, from: u64) -> bool {
        match (kind, self.tuning.allocator) {
            (FileKind::Regular, Allocator::MultiBlock | Allocator::Windows) => true,
            (FileKind::Directory, Allocator::MultiBlock) => {
                let small = multi_block::SMALL_BYTES / self.geometry().block_bytes;
                from >= u64::from(small)
            }
            _ => false,
        }
    }

    /// Returns the initial goal for the blocks of an inode, in its group or, for the contents of a
    /// regular file, in the part of its flex group that is for data.
    pub(crate) fn block_goal(&self, inode: InodeNr, is_file: bool) -> BlockNr {
        let geometry = self.geometry();
        let (home, _) = geometry.group_of_inode(inode);
        match self.tuning.allocator {
            Allocator::MultiBlock => {
                let first = self.space.areas().first_group(geometry, inode, is_file);
                match is_file || first == home || self.options.is_being_made {
                    true => self.space.group(first).next_goal(),
                    false => self.directory_goal(first, home),
                }
            }
            Allocator::Windows => self.space.group(home).next_goal(),
            Allocator::Forward => {
                let group = self.space.group(home);
                let start = self.tuning.allocation_start % group.cluster_count;
                geometry.first_block_in(group.cluster(start))
            }
        }
    }

    /// Returns the goal for a directory in the first group of its flex group. Each group of the
    /// flex group has a part of it, so that directories below different ones of the root do not
    /// take turns.
    fn directory_goal(&self, first: GroupNr, home: GroupNr) -> BlockNr {
        let group = self.space.group(first);
        let part = group.cluster_count / self.space.areas().flex_groups();
        let start = part * (home.get() - first.get());
        self.geometry().first_block_in(group.cluster(start))
    }
}

#[cfg(test)]
mod tests;
