//! Settings of experiments and tests, apart from the mount options that users set.
//!
//! A [`Tuning`] names a policy for each choice that the laboratory compares: the log policies and
//! block placement of Linux 2.4, memory accounting, forced restarts. It is resolved once, when a
//! volume is opened, into `Resolved`: one field for each decision of the engine, so that hot paths
//! test a flag and do not depend on policies.
//!
//! The cost of host work is not a setting. It is reported through `rt::charge`: a simulation turns
//! it into time, and on a real system it costs nothing.

use jbd2::LogPolicy;
use jbd2::policy::{
    Batch, Batches, CreditsAsked, HomeIo, LogIo, OrderedData, Rewrite, Tick, WriteOrder,
};

/// Number of pages in a batch of writeback, unless the log policy asks for small ones.
pub(crate) const BATCH_PAGES: usize = 2048;
/// Number of batches in flight, unless the log policy lets them overlap: then the device's queue is
/// the limit.
const BATCHES_MAX: usize = 2;

/// The placement of blocks and inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AllocationProfile {
    /// `MultiBlock` on volumes with extents, `Modern` on others.
    #[default]
    BySuperblock,
    /// Orlov over flex groups for directories; the multi-block allocator for files.
    MultiBlock,
    /// Orlov for directories, reservation windows for files.
    Modern,
    /// As Linux 2.4.18: linear directories, one-block goal allocator, no windows.
    Ext3Linux24,
}

/// The bytes that count against the memory budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryAccounting {
    /// Block contents and the overhead of each block in memory.
    #[default]
    WithOverhead,
    /// Block contents only: the kernel of a simulated host counts the overhead in its own memory.
    Contents,
}

/// The memory that dirty limits are shares of, and the bytes that count as dirty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirtyOf {
    /// The memory budget; pages until their write has completed.
    #[default]
    Budget,
    /// Free and inactive memory, as in Linux 2.4.18-14; pages until their write is submitted, and
    /// committed metadata.
    Inactive,
}

/// The threads that wait for the writes of pages above the dirty limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Writers {
    /// The writer daemon and throttled writers wait for the writes that they start.
    #[default]
    Wait,
    /// They only submit them, as in Linux 2.4.18-14, and wait for room in the device's queue.
    Submit,
}

/// Writeback of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writeback {
    /// The base of the dirty limits.
    pub dirty_of: DirtyOf,
    /// Bytes that count as the volume's own pages do for `DirtyOf::Inactive`: those of RAM disks.
    pub listed_elsewhere: u64,
    /// Percentage at which background writeback stops, if below the one at which it starts.
    pub stop_percent: u8,
    /// The threads that wait.
    pub writers: Writers,
}

impl Default for Writeback {
    fn default() -> Self {
        Self {
            dirty_of: DirtyOf::default(),
            listed_elsewhere: 0,
            stop_percent: 100,
            writers: Writers::default(),
        }
    }
}

/// Settings of experiments and tests. The default is right for production use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tuning {
    /// The policy that decides when transactions close, and which threads checkpoint and wait.
    pub log_policy: LogPolicy,
    /// The placement of blocks and inodes.
    pub allocation: AllocationProfile,
    /// True if a group allocates the inode that it freed last, not the first free one: numbers are
    /// reused at once.
    pub reuse_inodes: bool,
    /// The bytes that count against the memory budget.
    pub memory_accounting: MemoryAccounting,
    /// Writeback of pages.
    pub writeback: Writeback,
    /// Number of blocks behind the start of each group at which the search for the first block
    /// begins. Volumes with another history have their free space elsewhere.
    pub allocation_start: u32,
}

/// The allocator of an open volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allocator {
    /// Whole extents: [`AllocationProfile::MultiBlock`].
    MultiBlock,
    /// Reservation windows: [`AllocationProfile::Modern`].
    Windows,
    /// One block at a time: [`AllocationProfile::Ext3Linux24`].
    Forward,
}

/// The decisions that follow from a [`Tuning`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resolved {
    /// The placement of blocks and inodes.
    pub(crate) allocator: Allocator,
    /// True if a group allocates the inode that it freed last.
    pub(crate) reuses_inodes: bool,
    /// Number of blocks behind the start of each group at which allocation starts.
    pub(crate) allocation_start: u32,
    /// Writeback of pages.
    pub(crate) writeback: Writeback,
    /// True if a change of a block may wait for log I/O, or for a write to its final location.
    pub(crate) waits_for_block_io: bool,
    /// True if a page that a committing transaction has yet to write is written before it changes.
    pub(crate) writes_before_rewrite: bool,
    /// True if handles ask for as many credits as those of ext3 of Linux 2.4.
    pub(crate) asks_as_ext3: bool,
    /// True if commits write ordered data beside the log.
    pub(crate) commits_write_beside: bool,
    /// True if each round of the writer daemon requests a commit.
    pub(crate) commits_by_tick: bool,
    /// True if pages are submitted in the order of their blocks.
    pub(crate) sorts_pages: bool,
    /// Number of pages in a batch.
    pub(crate) batch_pages: usize,
    /// Number of batches in flight.
    pub(crate) batches_max: usize,
    /// True if handles restart wherever they can.
    pub(crate) forces_restarts: bool,
}

impl Tuning {
    /// Returns the decisions that follow on a volume with or without extents.
    pub(crate) fn resolve(&self, has_extents: bool) -> Resolved {
        let policy = &self.log_policy;
        Resolved {
            allocator: match self.allocation {
                AllocationProfile::BySuperblock if has_extents => Allocator::MultiBlock,
                AllocationProfile::MultiBlock => Allocator::MultiBlock,
                AllocationProfile::BySuperblock | AllocationProfile::Modern => Allocator::Windows,
                AllocationProfile::Ext3Linux24 => Allocator::Forward,
            },
            reuses_inodes: self.reuse_inodes,
            allocation_start: self.allocation_start,
            writeback: self.writeback,
            waits_for_block_io: policy.log_io == LogIo::Wait || policy.home == HomeIo::Wait,
            asks_as_ext3: policy.credits == CreditsAsked::Ext3,
            commits_write_beside: policy.data == OrderedData::Beside,
            commits_by_tick: policy.tick == Tick::Commit,
            writes_before_rewrite: policy.rewrite == Rewrite::Write,
            sorts_pages: policy.order == WriteOrder::Sorted,
            batch_pages: match policy.batch {
                Batch::Large => BATCH_PAGES,
                Batch::Small => policy.batch.blocks(),
            },
            batches_max: match policy.batches {
                Batches::Wait => BATCHES_MAX,
                Batches::Overlap => usize::MAX,
            },
            forces_restarts: policy.restart_every > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_depends_on_extents_by_default() {
        let of = |allocation, has_extents| {
            let tuning = Tuning {
                allocation,
                ..Tuning::default()
            };
            tuning.resolve(has_extents).allocator
        };
        assert_eq!(
            of(AllocationProfile::default(), true),
            Allocator::MultiBlock
        );
        assert_eq!(of(AllocationProfile::default(), false), Allocator::Windows);
        for has_extents in [false, true] {
            for (profile, allocator) in [
                (AllocationProfile::MultiBlock, Allocator::MultiBlock),
                (AllocationProfile::Modern, Allocator::Windows),
                (AllocationProfile::Ext3Linux24, Allocator::Forward),
            ] {
                assert_eq!(of(profile, has_extents), allocator);
            }
        }
    }
}
