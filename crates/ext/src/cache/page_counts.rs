//! The number of pages in memory, and of dirty ones.

use rt::atomic::{AtomicU64, Ordering};

/// Counts of pages over all files.
#[derive(Default)]
pub(crate) struct PageCounts {
    /// Bytes of a page.
    block_bytes: u64,
    /// Pages with an image.
    resident: AtomicU64,
    /// Pages that are dirty or on their way to the device.
    dirty: AtomicU64,
    /// Pages that are new since the budget was last looked at.
    pub(crate) growth: AtomicU64,
}

impl PageCounts {
    /// No pages yet.
    pub(crate) fn new(block_bytes: u32) -> Self {
        Self {
            block_bytes: u64::from(block_bytes),
            ..Self::default()
        }
    }

    /// Bytes of file pages in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident.load(Ordering::Relaxed) * self.block_bytes
    }

    /// Bytes that are dirty or being written.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed) * self.block_bytes
    }

    /// Counts pages that came or went.
    pub(crate) fn count_resident(&self, change: i64) {
        add(&self.resident, change);
        if change > 0 {
            self.growth
                .fetch_add(change.unsigned_abs(), Ordering::Relaxed);
        }
    }

    /// Counts pages that became dirty or clean.
    pub(crate) fn count_dirty(&self, change: i64) {
        add(&self.dirty, change);
    }
}

fn add(counter: &AtomicU64, change: i64) {
    if change != 0 {
        counter.fetch_add(change as u64, Ordering::Relaxed);
    }
}
