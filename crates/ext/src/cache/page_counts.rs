//! The number of pages in memory and of dirty pages.

use layout::InodeNr;
use rt::atomic::{AtomicU64, Ordering};

use super::resident_files::ResidentFiles;

/// Page counts over all files.
#[derive(Default)]
pub(crate) struct PageCounts {
    /// Size of a page in bytes.
    block_bytes: u64,
    /// Logarithm of the number of blocks in a cluster.
    cluster_log: u32,
    /// Number of pages with an image.
    resident: AtomicU64,
    /// Number of pages that are dirty or in flight.
    dirty: AtomicU64,
    /// Number of pages in flight.
    in_flight: AtomicU64,
    /// Number of pages whose last write failed.
    failed: AtomicU64,
    /// Number of pages without a block.
    delayed: AtomicU64,
    /// Number of their pieces; see [`Delayed`](super::file_pages::Delayed).
    delayed_pieces: AtomicU64,
    /// The files that have pages.
    pub(crate) files: ResidentFiles,
    /// Number of pages added since the budget was last checked.
    pub(crate) growth: AtomicU64,
}

impl PageCounts {
    /// Creates counts of zero.
    pub(crate) fn new(block_bytes: u32, cluster_log: u32) -> Self {
        Self {
            block_bytes: u64::from(block_bytes),
            cluster_log,
            ..Self::default()
        }
    }

    /// Returns the bytes of file pages in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident.load(Ordering::Relaxed) * self.block_bytes
    }

    /// Returns the bytes that are dirty or being written.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed) * self.block_bytes
    }

    /// Returns the bytes that are dirty and whose write has not been submitted.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        let dirty = self.dirty.load(Ordering::Relaxed);
        dirty.saturating_sub(in_flight) * self.block_bytes
    }

    /// Returns the bytes that could not be written so far.
    pub(crate) fn failed_bytes(&self) -> u64 {
        self.failed.load(Ordering::Relaxed) * self.block_bytes
    }

    /// Returns the number of pages without a block.
    pub(crate) fn delayed(&self) -> u64 {
        self.delayed.load(Ordering::Relaxed)
    }

    /// Returns the number of pieces that pages without a block make up: at least the clusters that
    /// they need.
    pub(crate) fn delayed_pieces(&self) -> u64 {
        self.delayed_pieces.load(Ordering::Relaxed)
    }

    /// Returns the logarithm of the number of blocks in a cluster.
    pub(crate) fn cluster_log(&self) -> u32 {
        self.cluster_log
    }

    /// Counts pages without a block that were added, or that got one or were dropped, and their
    /// pieces.
    pub(crate) fn count_delayed(&self, pages: i64, pieces: i64) {
        add(&self.delayed, pages);
        add(&self.delayed_pieces, pieces);
    }

    /// Counts pages whose write was started or has ended.
    pub(crate) fn count_in_flight(&self, change: i64) {
        add(&self.in_flight, change);
    }

    /// Returns true if there is a page with an image that is neither dirty nor in flight.
    pub(crate) fn has_clean(&self) -> bool {
        self.resident.load(Ordering::Relaxed) > self.dirty.load(Ordering::Relaxed)
    }

    /// Counts the pages of a file after some were added or removed.
    pub(crate) fn count_resident(&self, file: InodeNr, before: u32, after: u32) {
        self.files.note(file, before, after);
        add(&self.resident, i64::from(after) - i64::from(before));
        self.growth
            .fetch_add(u64::from(after.saturating_sub(before)), Ordering::Relaxed);
    }

    /// Counts pages whose write failed, or which were written or dropped after a failure.
    pub(crate) fn count_failed(&self, change: i64) {
        add(&self.failed, change);
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
