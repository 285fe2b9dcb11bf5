//! Block groups in memory: the places of their metadata, their counts and bitmaps, and the counts of
//! the volume.
//!
//! The bitmaps and descriptors on disk change through the journal. Beside them, each group has a copy
//! of its bitmaps here, which searches use. The two differ in one thing: blocks that a transaction
//! frees are free on disk as soon as that transaction is, but stay taken in memory until its commit
//! block is durable ([`FreedSets`]).

pub(crate) mod bitmap;
pub(crate) mod freed;
pub(crate) mod group;
mod open;

use std::sync::Arc;

use jbd2::Buffer;
use layout::{BlockNr, GroupNr, Tid};
use rt::atomic::{AtomicU64, Ordering};
use rt::{Condvar, Mutex, Nanos};

use crate::disk::geometry::Geometry;
use freed::{FreedRun, FreedSets};
use group::Group;

/// How often whoever waits for space looks whether the journal has aborted.
const RELEASE_CHECK: Nanos = Nanos::from_millis(50);

/// Bitmaps, groups and counts of an open volume.
pub(crate) struct Space {
    pub(crate) groups: Vec<Group>,
    /// The blocks of the group descriptors, in order.
    pub(crate) descriptors: Vec<Arc<Buffer>>,
    pub(crate) descriptors_per_block: u32,
    /// Free blocks, as the descriptors have them.
    pub(crate) free_blocks: AtomicU64,
    /// Free blocks that may be allocated: without those freed by transactions that are not durable.
    pub(crate) usable_blocks: AtomicU64,
    pub(crate) free_inodes: AtomicU64,
    pub(crate) directories: AtomicU64,
    /// Blocks that are left alone unless the caller may use them.
    pub(crate) reserved_blocks: u64,
    /// Blocks that hold the volume's own metadata, for statfs.
    pub(crate) overhead_blocks: u64,
    /// What transactions freed that are not durable yet. // [freed] leaf
    pub(crate) freed: Mutex<FreedSets>,
    /// A set of freed blocks has become allocatable.
    pub(crate) released: Condvar,
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

impl Space {
    /// Takes what a transaction freed; it still counts as pending.
    pub(crate) fn take_freed(&self, tid: Tid) -> Vec<FreedRun> {
        self.freed.lock().take(tid)
    }

    /// Makes what a transaction freed allocatable.
    pub(crate) fn release(&self, tid: Tid, runs: &[FreedRun]) {
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

    pub(crate) fn group(&self, group: GroupNr) -> &Group {
        &self.groups[group.index()]
    }

    /// The block of a group's descriptor.
    pub(crate) fn descriptor(&self, group: GroupNr) -> &Arc<Buffer> {
        &self.descriptors[(group.get() / self.descriptors_per_block) as usize]
    }

    /// Takes up to `count` blocks from the volume's count, as many as may be taken.
    pub(crate) fn claim(&self, count: u32, may_use_reserve: bool) -> u32 {
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
    pub(crate) fn unclaim(&self, count: u32) {
        self.usable_blocks
            .fetch_add(u64::from(count), Ordering::AcqRel);
    }

    /// Waits until the sets of freed blocks of these transactions are released. `check` is called now
    /// and then, and ends the wait with its error.
    pub(crate) fn wait_released<E>(
        &self,
        tids: &[Tid],
        check: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut freed = self.freed.lock();
        while freed.has_any(tids) {
            check()?;
            self.released
                .wait_until(&mut freed, rt::monotonic() + RELEASE_CHECK);
        }
        Ok(())
    }

    /// Gives a window's blocks back to others. If the next new file would begin behind it, it begins
    /// in its place.
    pub(crate) fn unreserve(&self, geometry: &Geometry, window: &Window) {
        if window.count == 0 {
            return;
        }
        let (group, first) = geometry.group_of_block(window.first);
        let group = self.group(group);
        group.unreserve(first, window.count);
        group.take_back_goal(first, first + window.count);
    }
}
