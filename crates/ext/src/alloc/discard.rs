//! Discarding free blocks, so that a sparse image or a thin device gets the space back.
//!
//! | trigger | discarded blocks |
//! |---|---|
//! | `discard`, with a journal | those that a transaction freed, once its commit block is durable |
//! | [`Core::trim`] | all that are durably free |
//!
//! # Rules
//!
//! - Blocks are discarded only while they cannot be allocated: those of a transaction before they
//!   are released, those of a trim while they count as taken in memory. A discard therefore never
//!   hits a block that is in use again.
//! - A discard never precedes the durability of the commit block that frees the blocks: until then
//!   a crash may undo the freeing. A volume without a journal has no commits, and `discard` does
//!   nothing there.

use core::ops::Range;

use layout::Tid;
use rt::atomic::Ordering;

use crate::cache::space::bitmap::View;
use crate::cache::space::freed::FreedRun;
use crate::cache::space::group::Group;
use crate::core::Core;
use crate::disk::cluster::ClusterRun;
use crate::disk::kind::FileKind;
use crate::error::Result;

/// Number of clusters that a trim withholds from allocation at a time.
const TRIMMED_AT_A_TIME: u32 = 4096;

/// Delay of the mutant that discards blocks in use again, in milliseconds.
const LATE_MS: u64 = 200;

impl Core {
    /// Releases the blocks that the durable transaction `tid` freed. With the mount option
    /// `discard`, discards them first.
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

    /// Discards blocks. A discard is a hint: if the device refuses it, the blocks keep their space.
    pub(super) fn discard(&self, runs: &[FreedRun]) {
        if runs.is_empty() {
            return;
        }
        let ranges: Vec<_> = runs.iter().map(|run| self.bytes_of(*run)).collect();
        if let Err(error) = self.device.discard(&ranges) {
            tracing::warn!(%error, "free blocks are not discarded");
        }
    }

    /// Discards all free extents of at least `blocks_min` blocks. Returns the number of blocks.
    ///
    /// # Errors
    /// Fails with [`crate::Error::ReadOnly`], or with the errors of a sync: blocks freed before are
    /// first made durable.
    pub(crate) fn trim(&self, blocks_min: u32) -> Result<u64> {
        self.check_writable()?;
        crate::writeback::sync_all(self)?;
        self.give_up_small();
        // Those of files end when they are closed.
        self.inodes.for_each(|inode| {
            if inode.kind == FileKind::Directory {
                self.discard_window(&inode.window);
            }
        });
        let log = self.geometry().cluster_log;
        let least = blocks_min.div_ceil(1 << log);
        let mut discarded = 0;
        let trim = self.space.withheld.trim();
        for nr in self.geometry().groups() {
            let group = self.space.group(nr);
            let mut from = 0;
            loop {
                let _part = trim.part();
                let Some(run) = self.keep_free_run(group, from, least)? else {
                    break;
                };
                from = run.start + run.count;
                let done = self.device.discard(&[self.bytes_of(run)]);
                group.release(run.start, run.count);
                self.space.unclaim(run.count);
                done?;
                discarded += u64::from(run.count) << log;
            }
        }
        Ok(discarded)
    }

    /// Finds the next free extent of a group that no window covers, and counts it as taken until it
    /// is released.
    fn keep_free_run(&self, group: &Group, from: u32, least: u32) -> Result<Option<FreedRun>> {
        let bitmap = self.block_bitmap(group)?;
        let mut maps = group.maps.lock();
        let map = match group.blocks(&mut maps, &bitmap, self.space.zones()) {
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
        while let Some(start) = view.first_clear(at, group.cluster_count) {
            let whole = view.run_length(start, group.cluster_count - start);
            at = start + whole;
            let count = whole.min(TRIMMED_AT_A_TIME);
            // An extent that starts where the last part ended is the rest of one that was long
            // enough.
            let is_rest = start == from && from > 0;
            if whole < least && !is_rest {
                continue;
            }
            let claimed = self.space.claim(count, true);
            if claimed < count {
                self.space.unclaim(claimed);
                continue;
            }
            map.taken.set(start, count);
            group.usable_clusters.fetch_sub(count, Ordering::Relaxed);
            return Ok(Some(FreedRun {
                group: group.nr,
                start,
                count,
            }));
        }
        Ok(None)
    }

    /// Returns the byte range of clusters of a group.
    fn bytes_of(&self, run: FreedRun) -> Range<u64> {
        let geometry = self.geometry();
        let blocks = geometry.blocks_of(ClusterRun {
            first: self.space.group(run.group).cluster(run.start),
            count: run.count,
        });
        geometry.byte_offset(blocks.first)..geometry.byte_offset(blocks.end())
    }
}
