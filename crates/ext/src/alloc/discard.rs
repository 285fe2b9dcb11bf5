//! Discarding what is free, so that a sparse image or a thin device gets the space back.
//!
//! | when | what |
//! |---|---|
//! | `discard`, with a journal | the blocks that a transaction freed, once its commit record is durable |
//! | [`Core::trim`] | everything that is free durably |
//!
//! # Rules
//!
//! - Blocks are discarded while nobody can allocate them: those of a transaction before they are released, those of a trim while they
//!   count as taken in memory. So no discard meets a block that is in use again.
//! - A discard never comes before the commit record that frees the blocks is durable: until then a crash may bring their owner back. On a volume
//!   without a journal nobody knows when that is, and `discard` does nothing.

use core::ops::Range;

use layout::Tid;
use rt::atomic::Ordering;

use crate::cache::space::bitmap::View;
use crate::cache::space::freed::FreedRun;
use crate::cache::space::group::Group;
use crate::core::Core;
use crate::error::Result;

/// How many blocks a trim keeps from others at a time.
const TRIMMED_AT_A_TIME: u32 = 4096;

/// How late the mutant is that discards what is in use again, in milliseconds.
const LATE_MS: u64 = 200;

impl Core {
    /// The commit record of `tid` is durable: the blocks it freed are discarded if that is wanted, and allocatable.
    pub(crate) fn release_freed(&self, tid: Tid) {
        let runs = self.space.take_freed(tid);
        let discarded: &[FreedRun] = if self.options.discard { &runs } else { &[] };
        if rt::mutant!("discard/block-in-use") && !discarded.is_empty() {
            self.space.release(tid, &runs);
            rt::sleep(rt::Nanos::from_millis(LATE_MS));
            return self.discard(discarded);
        }
        self.discard(discarded);
        self.space.release(tid, &runs);
    }

    /// Discards blocks. It is advice: what a device refuses is not discarded.
    pub(super) fn discard(&self, runs: &[FreedRun]) {
        if runs.is_empty() {
            return;
        }
        let ranges: Vec<_> = runs.iter().map(|run| self.bytes_of(*run)).collect();
        if let Err(error) = self.device.discard(&ranges) {
            tracing::warn!(%error, "free blocks are not discarded");
        }
    }

    /// Discards all free blocks in runs of at least `blocks_min`. Returns how many blocks.
    ///
    /// # Errors
    /// - [`crate::Error::ReadOnly`], and what a sync may fail with: what was freed before is made durable first.
    pub(crate) fn trim(&self, blocks_min: u32) -> Result<u64> {
        self.check_writable()?;
        crate::writeback::sync_all(self)?;
        let mut discarded = 0;
        for nr in self.geometry.groups() {
            let group = self.space.group(nr);
            let mut from = 0;
            while let Some(run) = self.keep_free_run(group, from, blocks_min)? {
                from = run.start + run.count;
                let done = self.device.discard(&[self.bytes_of(run)]);
                group.release(run.start, run.count);
                self.space.unclaim(run.count);
                done?;
                discarded += u64::from(run.count);
            }
        }
        Ok(discarded)
    }

    /// Finds the next free run of a group that nobody has a window on, and counts it as taken until it is released.
    fn keep_free_run(&self, group: &Group, from: u32, blocks_min: u32) -> Result<Option<FreedRun>> {
        let bitmap = self.buffers.get(group.block_bitmap)?;
        let mut maps = group.maps.lock();
        let map = match group.blocks(&mut maps, &bitmap) {
            Ok(map) => map,
            Err(damage) => {
                drop(maps);
                return Err(self.damaged(damage));
            }
        };
        let view = View {
            taken: &map.taken,
            avoided: Some(&map.reserved),
        };
        let mut at = from;
        while let Some(start) = view.first_clear(at, group.block_count) {
            let whole = view.run_length(start, group.block_count - start);
            at = start + whole;
            let count = whole.min(TRIMMED_AT_A_TIME);
            // What begins where the last part ended is the rest of a run that was long enough.
            let is_rest = start == from && from > 0;
            if whole < blocks_min && !is_rest {
                continue;
            }
            let claimed = self.space.claim(count, true);
            if claimed < count {
                self.space.unclaim(claimed);
                continue;
            }
            map.taken.set(start, count);
            group.usable_blocks.fetch_sub(count, Ordering::Relaxed);
            return Ok(Some(FreedRun {
                group: group.nr,
                start,
                count,
            }));
        }
        Ok(None)
    }

    /// Where blocks of a group lie, in bytes.
    fn bytes_of(&self, run: FreedRun) -> Range<u64> {
        let first = self.space.group(run.group).first + u64::from(run.start);
        self.geometry.byte_offset(first)..self.geometry.byte_offset(first + u64::from(run.count))
    }
}
