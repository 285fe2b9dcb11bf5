//! The dirty limits: when writeback starts in the background, where it stops, and when writers have
//! to write themselves.
//!
//! Normally they are shares of the memory budget, and a page counts until its write has completed.
//! If inodes take more than a quarter of the budget, they are smaller in proportion to the rest:
//! else dirty pages would fill it.
//! With `dirty_of=inactive` they are those of a kernel of 2002:
//!
//! - Pages count until their write is submitted, and so do committed metadata blocks that await
//!   checkpoint: both are on the kernel's list of dirty buffers. (A metadata block counts until its
//!   write has completed here.)
//! - The limits are shares of free and *inactive* memory. Reclaim keeps the inactive part of the
//!   page lists, together with what is free, at two fifths of the lists. So that memory is what is
//!   free, or two fifths of the lists if that is more. On the lists are the volume's pages and
//!   blocks and those of RAM disks; memory of the kernel and of programs is not counted.
//!
//! Sources, all of Linux 2.4.18-14 (Red Hat): fs/buffer.c, `balance_dirty_state`, `bdflush_stop`
//! and `bdf_prm` (30, 60 and 20 %); mm/page_alloc.c, `nr_free_buffer_pages`;
//! include/linux/mm_inline.h, `zone_inactive_limit` with `INACTIVE_FACTOR` 5, of which
//! `background_aging` in mm/vmscan.c takes the high limit, twice a fifth. In 2.4.18 itself they are
//! shares of all memory, 40 and 60 %.

#[cfg(not(debug_assertions))]
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::tuning::DirtyOf;
use rt::atomic::Ordering;

/// Bytes of memory for an inode. Locks are larger in debug builds; counting their size would give
/// simulated runs other figures there than in release builds.
const INODE_BYTES: u64 = 752;

/// Bytes of memory for the number of pins of an inode that is not in memory.
const ABSENT_BYTES: u64 = 16;

#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<Inode>() as u64 == INODE_BYTES);

/// The limits in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Above this, writeback starts in the background.
    pub(super) start: u64,
    /// At this, it stops.
    pub(super) stop: u64,
    /// Above this, writers write.
    pub(super) wait: u64,
}

/// Returns the bytes that count as dirty, and the limits.
pub(super) fn dirt(core: &Core) -> (u64, Limits) {
    let limits = core.pages.limits;
    let (dirty, total) = match core.tuning.writeback.dirty_of {
        DirtyOf::Budget => {
            let inodes = core.pages.reclaim.inode_bytes.load(Ordering::Relaxed);
            let total = shared(limits.budget, inodes);
            (core.pages.counts.dirty_bytes(), total)
        }
        DirtyOf::Inactive => {
            let journal = core.journal.as_ref();
            let owed = journal.map_or(0, |journal| journal.owed_bytes());
            let elsewhere = core.tuning.writeback.listed_elsewhere;
            let total = free_and_inactive(limits.budget, used(core), elsewhere);
            (core.pages.counts.waiting_bytes() + owed, total)
        }
    };
    let share = |percent: u8| total / 100 * u64::from(percent);
    let limits = Limits {
        start: share(limits.background_percent),
        stop: share(limits.stop_percent),
        wait: share(limits.dirty_percent),
    };
    (dirty, limits)
}

/// Returns the bytes in use.
pub(crate) fn used(core: &Core) -> u64 {
    used_by_inodes(core) + used_by_contents(core)
}

/// Returns the bytes that count against the budget. Inodes of open files stay whatever they take:
/// at most three quarters of the budget count for inodes, since without the last quarter every page
/// and metadata block would be evicted as soon as it came.
pub(super) fn counted(core: &Core) -> u64 {
    counted_for_inodes(core) + used_by_contents(core)
}

/// Returns the bytes of inodes that count against the budget.
pub(super) fn counted_for_inodes(core: &Core) -> u64 {
    used_by_inodes(core).min(core.pages.limits.budget / 4 * 3)
}

/// Returns the bytes of which the dirty limits are shares, beside inodes of this size.
fn shared(budget: u64, inodes: u64) -> u64 {
    let rest = budget.saturating_sub(inodes);
    budget.min(rest.saturating_add(rest / 3))
}

fn used_by_inodes(core: &Core) -> u64 {
    let (present, absent) = core.inodes.counts();
    present as u64 * INODE_BYTES + absent as u64 * ABSENT_BYTES
}

/// Returns the bytes of pages and metadata.
pub(super) fn used_by_contents(core: &Core) -> u64 {
    let pinned = core
        .journal
        .as_ref()
        .map_or(0, |journal| journal.pinned_bytes());
    core.pages.counts.resident_bytes() + core.buffers.bytes().0 + pinned
}

/// Returns the free and inactive memory of a kernel of 2002 with this much memory for caching, of
/// which `used` are in use, and `elsewhere` on its page lists besides.
fn free_and_inactive(budget: u64, used: u64, elsewhere: u64) -> u64 {
    let free = budget.saturating_sub(used);
    let listed = used.min(budget) + elsewhere;
    free.max(listed / 5 * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_shrink_when_inodes_take_more_than_a_quarter_of_the_budget() {
        for (inodes, expect) in [(0, 1200), (300, 1200), (600, 800), (900, 400), (1200, 0)] {
            assert_eq!(shared(1200, inodes), expect, "{inodes}");
        }
    }

    #[test]
    fn free_memory_counts_until_two_fifths_of_the_lists_are_more() {
        for (budget, used, elsewhere, expect) in [
            (1000, 0, 0, 1000),
            (1000, 500, 0, 500),
            (1000, 800, 0, 320),
            (1000, 1000, 0, 400),
            (1000, 1200, 0, 400),
            (1000, 1000, 500, 600),
        ] {
            let found = free_and_inactive(budget, used, elsewhere);
            assert_eq!(found, expect, "{used} {elsewhere}");
        }
    }
}
