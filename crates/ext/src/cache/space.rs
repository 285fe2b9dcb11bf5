//! Block groups in memory: the locations of their metadata, their counts and bitmaps, and the
//! counts of the volume.
//!
//! The bitmaps and descriptors on disk change through the journal. Each group also has a copy of
//! its bitmaps in memory, for searches. The two differ in one respect: blocks that a transaction
//! frees are free on disk together with that transaction, but stay taken in memory until its commit
//! block is durable ([`FreedSets`]).

mod areas;
pub(crate) mod bitmap;
pub(crate) mod freed;
pub(crate) mod group;
mod open;
mod table;
mod withheld;
pub(crate) mod zones;

use std::sync::Arc;

use jbd2::Buffer;
use layout::{GroupNr, Tid};
use rt::atomic::{AtomicU64, Ordering};
use rt::{Condvar, Mutex, Nanos};

use areas::Areas;
use freed::{FreedRun, FreedSets};
use group::Group;
use table::GroupTable;
use withheld::Withheld;
use zones::SystemZones;

use crate::disk::cluster::Cluster;

/// Interval at which a thread that waits for space checks if the journal has aborted.
const RELEASE_CHECK: Nanos = Nanos::from_millis(50);

/// Bitmaps, groups and counts of an open volume.
pub(crate) struct Space {
    /// The groups, and the geometry that they belong to.
    // Invariant: read through [`Space::table`] only, so that a reader's groups and geometry agree.
    table: GroupTable,
    /// Number of free clusters by the descriptors.
    pub(crate) free_clusters: AtomicU64,
    /// Number of free clusters that may be allocated, without those freed by transactions that are
    /// not durable.
    pub(crate) usable_clusters: AtomicU64,
    /// Number of usable clusters that are claimed for pages without a block. They no longer count
    /// in `usable_clusters`.
    pub(crate) delayed_clusters: AtomicU64,
    pub(crate) free_inodes: AtomicU64,
    pub(crate) directories: AtomicU64,
    /// Number of clusters reserved for privileged callers.
    pub(crate) reserved_clusters: u64,
    /// Extents freed by transactions that are not durable yet. // [freed] leaf
    pub(crate) freed: Mutex<FreedSets>,
    /// Notified when a set of freed blocks becomes allocatable.
    pub(crate) released: Condvar,
    /// Clusters that a trim withholds.
    pub(crate) withheld: Withheld,
}

/// The state of the space before an attempt to allocate, from which a failed attempt knows if
/// another may succeed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// True if some free clusters could not be allocated yet.
    pub(crate) has_pending: bool,
    /// Number of parts of trims that had ended.
    pub(crate) parts_ended: u64,
}

/// A file's reservation window: clusters that other files avoid while there are enough elsewhere.
/// Exists in memory only.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// First cluster of the window.
    pub(crate) first: Cluster,
    /// Number of clusters in the window; 0 if there is none.
    pub(crate) count: u32,
    /// Length of the next window in clusters.
    pub(crate) next_count: u32,
    /// The flex group from whose locality group it was taken.
    pub(crate) small: Option<u32>,
}

/// The figures of statfs, in blocks and inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// Number of blocks that can hold data (overhead excluded).
    pub blocks: u64,
    /// Number of free blocks, reserved ones included.
    pub blocks_free: u64,
    /// Number of free blocks for unprivileged callers.
    pub blocks_available: u64,
    /// Number of inodes.
    pub inodes: u32,
    /// Number of free inodes.
    pub inodes_free: u32,
}

impl Space {
    /// Takes the extents that a transaction freed; it still counts as pending.
    pub(crate) fn take_freed(&self, tid: Tid) -> Vec<FreedRun> {
        self.freed.lock().take(tid)
    }

    /// Makes the extents that a transaction freed allocatable.
    pub(crate) fn release(&self, tid: Tid, runs: &[FreedRun]) {
        for run in runs {
            self.group(run.group).release(run.start, run.count);
            self.unclaim(run.count);
        }
        self.freed.lock().forget(tid);
        self.released.notify_all();
    }

    /// Returns the state before an attempt to allocate, for
    /// [`Core::wait_for_space`](crate::core::Core::wait_for_space).
    pub(crate) fn before(&self) -> Before {
        let usable = self.usable_clusters.load(Ordering::Acquire);
        let delayed = self.delayed_clusters.load(Ordering::Acquire);
        Before {
            has_pending: self.free_clusters.load(Ordering::Acquire) > usable + delayed,
            parts_ended: self.withheld.ended(),
        }
    }

    /// Returns the current groups with their geometry. Takes no lock; the reference stays valid
    /// while the volume is open.
    pub(crate) fn table(&self) -> &GroupTable {
        &self.table
    }

    /// Returns all groups, in order.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.table().groups
    }

    /// Returns the blocks that no file may have.
    pub(crate) fn zones(&self) -> &SystemZones {
        &self.table().zones
    }

    /// Returns the flex groups and stripes.
    pub(crate) fn areas(&self) -> &Areas {
        &self.table().areas
    }

    /// Returns a group.
    pub(crate) fn group(&self, group: GroupNr) -> &Group {
        self.table().group(group)
    }

    /// Returns the block of a group's descriptor.
    pub(crate) fn descriptor(&self, group: GroupNr) -> &Arc<Buffer> {
        self.table().descriptor(group)
    }

    /// Returns the number of clusters that could be claimed.
    pub(crate) fn claimable(&self, may_use_reserve: bool) -> u64 {
        let usable = self.usable_clusters.load(Ordering::Acquire);
        usable.saturating_sub(self.floor(may_use_reserve))
    }

    /// Returns the number of clusters that could be claimed if no page had a claim, and if all that
    /// was freed were durable.
    pub(crate) fn claimable_later(&self, may_use_reserve: bool) -> u64 {
        let free = self.free_clusters.load(Ordering::Acquire);
        free.saturating_sub(self.floor(may_use_reserve))
    }

    /// Returns the number of clusters that are left to others.
    fn floor(&self, may_use_reserve: bool) -> u64 {
        match may_use_reserve {
            true => 0,
            false => self.reserved_clusters,
        }
    }

    /// Claims up to `count` clusters from the volume's count. Returns the number claimed.
    pub(crate) fn claim(&self, count: u32, may_use_reserve: bool) -> u32 {
        let floor = self.floor(may_use_reserve);
        let mut claimed = 0;
        let _ = self
            .usable_clusters
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |usable| {
                claimed = usable.saturating_sub(floor).min(u64::from(count));
                (claimed > 0).then(|| usable - claimed)
            });
        claimed as u32
    }

    /// Gives back claimed clusters that were not marked after all.
    pub(crate) fn unclaim(&self, count: u32) {
        self.usable_clusters
            .fetch_add(u64::from(count), Ordering::AcqRel);
    }

    /// Claims `count` clusters for pages without a block. Returns false, and claims none, unless as
    /// many are left afterwards as are claimed for all such pages: when space runs short, writes
    /// allocate at once, and a claim that was too cautious keeps no other operation from its block.
    pub(crate) fn claim_delayed(&self, count: u64, may_use_reserve: bool) -> bool {
        let floor = self.floor(may_use_reserve);
        let delayed = self.delayed_clusters.load(Ordering::Acquire) + count;
        let is_claimed = self
            .usable_clusters
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |usable| {
                let is_enough = usable.saturating_sub(floor) >= count + delayed;
                is_enough.then(|| usable - count)
            })
            .is_ok();
        if is_claimed {
            self.delayed_clusters.fetch_add(count, Ordering::AcqRel);
        }
        is_claimed
    }

    /// Returns true if fewer clusters are left to unprivileged callers than are claimed for pages
    /// without a block.
    pub(crate) fn is_short(&self) -> bool {
        let delayed = self.delayed_clusters.load(Ordering::Acquire);
        let usable = self.usable_clusters.load(Ordering::Acquire);
        usable.saturating_sub(self.reserved_clusters) < delayed
    }

    /// Gives back clusters that were claimed for pages without a block.
    pub(crate) fn unclaim_delayed(&self, count: u64) {
        self.delayed_clusters.fetch_sub(count, Ordering::AcqRel);
        self.usable_clusters.fetch_add(count, Ordering::AcqRel);
    }

    /// Waits until the freed blocks of these transactions are released. `check` is called
    /// periodically; its error ends the wait.
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

    /// Gives a window's clusters back, to the locality group that they were taken from or to all
    /// files. If the goal of the next new file is the end of the window, it becomes the window's
    /// start.
    pub(crate) fn unreserve(&self, window: &Window) {
        if window.count == 0 {
            return;
        }
        let geometry = &self.table().geometry;
        if self.areas().give_back_small(geometry, window) {
            return;
        }
        let (group, first) = geometry.group_of_cluster(window.first);
        let group = self.group(group);
        group.unreserve(first, window.count);
        group.take_back_goal(first, first + window.count);
    }
}
