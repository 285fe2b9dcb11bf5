//! Direct writes under the shared inode lock, beside reads of the device by others.
//!
//! A device must not have a write and another request for one block at the same time, and a page
//! that is read while a block is written directly would keep the old contents. So a read waits for
//! direct writes of its blocks, and while any read is under way a direct write does not start: its
//! caller takes the inode lock exclusively instead, which waits for the reads.

use core::ops::Range;

use layout::FileBlock;

use super::{FilePages, Inner};
use crate::awaited::awaited;
use crate::cache::page_counts::PageCounts;

/// The requests of a file that bypass its pages, or fill them.
#[derive(Default)]
pub(super) struct PastCache {
    /// Direct writes under the shared lock; none for most inodes.
    writes: Option<Box<Writes>>,
    /// Number of reads under way, pending windows excluded.
    reads: u32,
}

/// The blocks of direct writes.
#[derive(Default)]
struct Writes(Vec<Range<u64>>);

impl PastCache {
    fn is_written(&self, blocks: &Range<u64>) -> bool {
        let meets = |other: &Range<u64>| other.start < blocks.end && blocks.start < other.end;
        let is_met = self
            .writes
            .as_ref()
            .is_some_and(|writes| writes.0.iter().any(meets));
        is_met && !rt::mutant!("direct/read-while-written")
    }

    fn add(&mut self, blocks: Range<u64>) {
        self.writes.get_or_insert_default().0.push(blocks);
    }

    fn remove(&mut self, blocks: &Range<u64>) {
        if let Some(writes) = &mut self.writes {
            writes.0.retain(|other| other != blocks);
            if writes.0.is_empty() {
                self.writes = None;
            }
        }
    }
}

impl FilePages {
    /// Reads blocks, after the direct writes of them: none starts until `read` ends.
    pub(crate) fn read_device<T>(
        &self,
        first: FileBlock,
        count: u64,
        read: impl FnOnce() -> T,
    ) -> T {
        let blocks = first.get()..first.get() + count;
        let mut inner = self.lock();
        while inner.past_cache.is_written(&blocks) {
            self.wait(&mut inner);
        }
        inner.begin_read();
        drop(inner);
        self.end_read_after(read)
    }

    /// Ends a read that has [begun](Inner::begin_read) after `read`, which may panic.
    pub(crate) fn end_read_after<T>(&self, read: impl FnOnce() -> T) -> T {
        let end = || self.lock().past_cache.reads -= 1;
        let done = awaited(read, end);
        end();
        done
    }

    /// Drops the pages of blocks, and writes these directly. Returns none, and does nothing, if
    /// that would meet a read or another write, or if a page of the range has to be written first.
    pub(crate) fn write_directly<T>(
        &self,
        counts: &PageCounts,
        first: FileBlock,
        count: u64,
        write: impl FnOnce() -> T,
    ) -> Option<T> {
        let blocks = first.get()..first.get() + count;
        let mut inner = self.lock();
        let meets_a_read = inner.past_cache.reads > 0 || !inner.windows.is_empty();
        if meets_a_read || inner.past_cache.is_written(&blocks) || inner.is_unwritten(&blocks) {
            return None;
        }
        let end = Some(first + count);
        let released = inner.drop_range(counts, first, end, |_| {});
        debug_assert!(released == 0, "clean pages have no claim");
        inner.past_cache.add(blocks.clone());
        drop(inner);
        let end = || {
            self.lock().past_cache.remove(&blocks);
            self.notify_written();
        };
        let done = awaited(write, end);
        end();
        Some(done)
    }
}

impl Inner {
    /// Starts a read of blocks for which there is no direct write.
    pub(crate) fn begin_read(&mut self) {
        self.past_cache.reads += 1;
    }

    /// Returns true if there are direct writes under the shared inode lock.
    pub(crate) fn has_direct_writes(&self) -> bool {
        self.past_cache.writes.is_some() && !rt::mutant!("direct/read-while-written")
    }

    /// Returns true if pages are dirty or in flight.
    fn is_unwritten(&self, blocks: &Range<u64>) -> bool {
        let has_any = self.dirty > 0 || !self.batches.is_empty();
        has_any
            && blocks.clone().any(|block| {
                let slot = self.slot(FileBlock::new(block));
                slot.is_some_and(|slot| slot.is_dirty || slot.is_in_flight)
            })
    }
}
