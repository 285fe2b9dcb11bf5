//! Time that callers waited in the page cache, by cause.

use core::sync::atomic::{AtomicU64, Ordering};

use rt::Nanos;

/// Time that callers have waited in the page cache so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheStalls {
    /// Time spent waiting because the dirty limit was exceeded.
    pub dirty_limit: Nanos,
    /// Time spent waiting for memory: dirty pages, or blocks that the journal pins, had to be
    /// written before anything could be evicted.
    pub memory: Nanos,
    /// Time spent waiting before a change of a page that a committing transaction had yet to write
    /// (`rewrite=write`).
    pub rewrite: Nanos,
}

/// The running counters. Their accesses order nothing, so they are not scheduling points.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    pub(crate) dirty_limit: Stall,
    pub(crate) memory: Stall,
    pub(crate) rewrite: Stall,
}

/// One counter, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Stall(AtomicU64);

impl Stall {
    /// Adds the time since an instant.
    pub(crate) fn add_since(&self, began: Nanos) {
        let waited = rt::monotonic().saturating_sub(began);
        self.0.fetch_add(waited.get(), Ordering::Relaxed);
    }

    fn get(&self) -> Nanos {
        Nanos::new(self.0.load(Ordering::Relaxed))
    }
}

impl Stalls {
    /// Returns the counts so far.
    pub(crate) fn read(&self) -> CacheStalls {
        CacheStalls {
            dirty_limit: self.dirty_limit.get(),
            memory: self.memory.get(),
            rewrite: self.rewrite.get(),
        }
    }
}

impl core::ops::Sub for CacheStalls {
    type Output = Self;

    /// Returns the counts since an earlier reading.
    fn sub(self, earlier: Self) -> Self {
        Self {
            dirty_limit: self.dirty_limit - earlier.dirty_limit,
            memory: self.memory - earlier.memory,
            rewrite: self.rewrite - earlier.rewrite,
        }
    }
}
