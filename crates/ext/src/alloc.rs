//! Space: group descriptors, bitmaps, counts, and the allocation of blocks and inodes.
//!
//! The bitmaps and descriptors on disk change through the journal. Beside them, each group has a copy of its bitmaps in
//! memory, which searches use. The two differ in one thing: blocks that a transaction frees are free on disk as soon as that
//! transaction is, but stay taken in memory until its commit record is durable; then [`Core::release_freed`] makes them
//! allocatable. Inodes are reusable at once.
//!
//! # Rules
//!
//! - A group's lock is taken with a transaction open, and for memory work only: bitmap blocks are read before.
//! - Counts (of groups and of the volume) are atomics, read without the lock to choose a group. A block is claimed from the
//!   volume's count before it is marked, so that the count never goes below what is reserved.
//! - Whatever in a bitmap or a descriptor disagrees with what is asked is damage: nothing is changed and, unless the volume is
//!   mounted with `errors=continue`, it turns read-only.

mod bitmap;
mod blocks;
mod discard;
mod forward;
mod freed;
mod group;
mod inodes;
mod open;
mod windows;

use std::sync::Arc;

use jbd2::Buffer;
use layout::{BlockNr, GroupNr, InodeNr, Tid};
use rt::atomic::{AtomicU64, Ordering};
use rt::{Condvar, Mutex, Nanos};

use crate::core::Core;
use crate::error::{Corrupt, Result};
use freed::{FreedRun, FreedSets};
use group::Group;

/// Journal blocks that one call of [`Core::allocate_blocks`] or [`Core::free_blocks`] may dirty, for each group it touches: bitmap,
/// descriptor, superblock.
pub(crate) const CREDITS_PER_GROUP: u32 = 3;
/// Journal blocks that allocating or freeing an inode may dirty: inode bitmap, descriptor, superblock, inode table.
pub(crate) const CREDITS_INODE: u32 = 4;

/// How often whoever waits for space looks whether the journal has aborted.
const RELEASE_CHECK: Nanos = Nanos::from_millis(50);

/// Bitmaps, groups and counts of an open volume.
pub(crate) struct Space {
    groups: Vec<Group>,
    /// The blocks of the group descriptors, in order.
    descriptors: Vec<Arc<Buffer>>,
    descriptors_per_block: u32,
    /// Free blocks, as the descriptors have them.
    free_blocks: AtomicU64,
    /// Free blocks that may be allocated: without those freed by transactions that are not durable.
    usable_blocks: AtomicU64,
    free_inodes: AtomicU64,
    directories: AtomicU64,
    /// Blocks that are left alone unless the caller may use them.
    reserved_blocks: u64,
    /// Blocks that hold the volume's own metadata, for statfs.
    overhead_blocks: u64,
    /// What transactions freed that are not durable yet. // [freed] leaf
    freed: Mutex<FreedSets>,
    /// A set of freed blocks has become allocatable.
    released: Condvar,
}

/// A file's reservation window: blocks that others leave alone while there are enough elsewhere. Kept in memory only.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// First block and length; length 0 when there is none.
    pub(crate) first: BlockNr,
    /// Blocks in the window.
    pub(crate) count: u32,
    /// How long the next window will be.
    pub(crate) next_count: u32,
}

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

/// Blocks that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// The first.
    pub(crate) first: BlockNr,
    /// How many.
    pub(crate) count: u32,
}

impl Run {
    /// The block behind the last.
    pub(crate) fn end(self) -> BlockNr {
        self.first + u64::from(self.count)
    }
}

/// What statfs says, in blocks and inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in a block.
    pub block_bytes: u32,
    /// Blocks that can hold data (overhead excluded).
    pub blocks: u64,
    /// Free blocks, those reserved included.
    pub blocks_free: u64,
    /// Free blocks for the unprivileged.
    pub blocks_available: u64,
    /// Inodes.
    pub inodes: u32,
    /// Free inodes.
    pub inodes_free: u32,
}

impl Core {
    /// Holding no transaction: if a commit would release freed blocks, commits and returns true (try again); else false.
    ///
    /// Whoever tries again asks [`Space::has_pending`] before each try: what a try has taken and given back is no reason for
    /// another one.
    pub(crate) fn wait_for_space(&self) -> Result<bool> {
        let Some(journal) = &self.journal else {
            return Ok(false);
        };
        let tids = self.space.freed.lock().tids();
        if tids.is_empty() {
            return Ok(false);
        }
        journal.commit_running()?;
        // Durable is not enough: the journal says when nothing older is on its way to the blocks any more.
        let mut freed = self.space.freed.lock();
        while freed.has_any(&tids) {
            if let Some(error) = journal.error() {
                return Err(error.into());
            }
            self.space
                .released
                .wait_until(&mut freed, rt::monotonic() + RELEASE_CHECK);
        }
        Ok(true)
    }

    /// Where an inode lies: block of the table, and byte offset in it.
    pub(crate) fn inode_location(&self, inode: InodeNr) -> Result<(BlockNr, usize)> {
        if inode.get() == 0 || inode.get() > self.geometry.inode_count {
            let value = u64::from(inode.get());
            return Err(Corrupt::Inode {
                inode,
                field: "number",
                value,
            }
            .into());
        }
        let (group, index) = self.geometry.group_of_inode(inode);
        let per_block = self.geometry.block_bytes / u32::from(self.geometry.inode_bytes);
        let block = self.space.group(group).inode_table + u64::from(index / per_block);
        Ok((
            block,
            (index % per_block) as usize * usize::from(self.geometry.inode_bytes),
        ))
    }

    /// A good first goal for the blocks of an inode: in its group.
    pub(crate) fn block_goal(&self, inode: InodeNr) -> BlockNr {
        let (group, _) = self.geometry.group_of_inode(inode);
        let group = self.space.group(group);
        match self.options.allocation {
            crate::options::AllocationProfile::Modern => group.next_goal(),
            crate::options::AllocationProfile::Ext3Linux24 => group.first,
        }
    }

    /// Whether a run may belong to a file: damage guard for maps and attribute blocks.
    pub(crate) fn is_data_run(&self, run: Run) -> bool {
        self.is_outside_metadata(run)
            && self
                .parts(run)
                .all(|(group, start, count)| !group.is_log(start, count))
    }

    /// Whether a run lies in the data area (no superblock, descriptor, bitmap or inode table), where the log is, too.
    pub(crate) fn is_outside_metadata(&self, run: Run) -> bool {
        let is_inside = run.first >= self.geometry.first_data_block
            && run
                .first
                .get()
                .checked_add(u64::from(run.count))
                .is_some_and(|end| end <= self.geometry.block_count);
        is_inside
            && self
                .parts(run)
                .all(|(group, start, count)| !group.is_system(start, count))
    }

    /// Free space now.
    pub(crate) fn usage(&self) -> Usage {
        let blocks_free = self.space.free_blocks.load(Ordering::Relaxed);
        Usage {
            block_bytes: self.geometry.block_bytes,
            blocks: self.geometry.block_count - self.space.overhead_blocks,
            blocks_free,
            blocks_available: blocks_free.saturating_sub(self.superblock.reserved_blocks),
            inodes: self.geometry.inode_count,
            inodes_free: self.space.free_inodes.load(Ordering::Relaxed) as u32,
        }
    }

    /// The groups that a run lies in, each with the run's part: index within the group and count.
    fn parts(&self, run: Run) -> impl Iterator<Item = (&Group, u32, u32)> {
        let mut next = run.first;
        core::iter::from_fn(move || {
            if next >= run.end() {
                return None;
            }
            let (group, start) = self.geometry.group_of_block(next);
            let room = u64::from(self.geometry.blocks_in(group) - start);
            let count = room.min(run.end().get() - next.get()) as u32;
            next = next + u64::from(count);
            Some((self.space.group(group), start, count))
        })
    }

    /// Whether `handle.write` may wait for log I/O, which must not happen while a group is locked.
    fn may_writes_wait(&self) -> bool {
        self.options.log_policy.log_io == jbd2::policy::LogIo::Wait
    }
}

impl Space {
    /// Brings the superblock's buffer up to date (at sync and close): counts, and the damage that was found. A volume that has become
    /// read-only still stores what it has counted.
    pub(crate) fn store_counts(core: &Core) -> Result<()> {
        let space = &core.space;
        let free_blocks = space.free_blocks.load(Ordering::Relaxed);
        let free_inodes = space.free_inodes.load(Ordering::Relaxed) as u32;
        let now = core.superblock_now()?;
        let is_current = now.free_blocks_count() == free_blocks
            && now.s_free_inodes_count.get() == free_inodes
            && !core.damage.is_owed();
        if is_current {
            return Ok(());
        }
        core.store_in_superblock(|raw| {
            raw.set_free_blocks_count(free_blocks);
            raw.s_free_inodes_count.set(free_inodes);
            (raw.s_wtime, raw.s_wtime_hi) = crate::disk::superblock::split_time(rt::wall().seconds);
        })
    }

    /// Takes what a transaction freed; it still counts as pending.
    fn take_freed(&self, tid: Tid) -> Vec<FreedRun> {
        self.freed.lock().take(tid)
    }

    /// Makes what a transaction freed allocatable.
    fn release(&self, tid: Tid, runs: &[FreedRun]) {
        for run in runs {
            self.group(run.group).release(run.start, run.count);
            self.unclaim(run.count);
        }
        self.freed.lock().forget(tid);
        self.released.notify_all();
    }

    /// Whether blocks were freed that cannot be allocated yet.
    pub(crate) fn has_pending(&self) -> bool {
        let usable = self.usable_blocks.load(Ordering::Acquire);
        self.free_blocks.load(Ordering::Acquire) > usable
    }

    fn group(&self, group: GroupNr) -> &Group {
        &self.groups[group.index()]
    }

    /// The block of a group's descriptor.
    fn descriptor(&self, group: GroupNr) -> &Arc<Buffer> {
        &self.descriptors[(group.get() / self.descriptors_per_block) as usize]
    }

    /// Takes up to `count` blocks from the volume's count, as many as may be taken.
    fn claim(&self, count: u32, may_use_reserve: bool) -> u32 {
        let floor = if may_use_reserve {
            0
        } else {
            self.reserved_blocks
        };
        let mut claimed = 0;
        let _ = self
            .usable_blocks
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |usable| {
                claimed = usable.saturating_sub(floor).min(u64::from(count));
                (claimed > 0).then(|| usable - claimed)
            });
        claimed as u32
    }

    /// Gives claimed blocks back that were not marked after all.
    fn unclaim(&self, count: u32) {
        self.usable_blocks
            .fetch_add(u64::from(count), Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
