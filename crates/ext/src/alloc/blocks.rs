//! Allocation and release of blocks: the part that both allocators share.
//!
//! An allocator searches one group after another with a *plan*: a function that sees the group's
//! bitmap and proposes blocks. This module locks the group, calls the plan, and claims and marks
//! the blocks.

use std::sync::Arc;

use jbd2::{Buffer, BufferWrite};
use layout::{BlockNr, GroupNr};
use rt::atomic::Ordering;

use super::BlockRequest;
use crate::cache::space::bitmap::{self, ClearRun};
use crate::cache::space::freed::FreedRun;
use crate::cache::space::group::{BlockMap, Group};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::cluster::{Cluster, ClusterRun};
use crate::disk::geometry::NARROW_BLOCKS_MAX;
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::options::OnError;
use crate::tuning::Allocator;

/// Damage of a bitmap that shows a file's block as free.
const FREE_ALREADY: &str = "a block that is freed is free already";

/// The clusters that an allocator proposes to take from a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// The clusters to allocate. Fewer are taken if the volume has fewer left.
    pub(super) take: ClearRun,
    /// End of the window that starts with the clusters to allocate; the end of those if there
    /// is no window.
    pub(super) window_end: u32,
}

impl Core {
    /// Allocates between one and `count_max` contiguous blocks near the goal. Fails with `NoSpace`
    /// if no block is available; see [`Core::wait_for_space`].
    pub(crate) fn allocate_blocks(
        &self,
        handle: &mut Handle<'_>,
        request: &BlockRequest<'_>,
    ) -> Result<Run> {
        assert!(request.count_max > 0, "at least one block is wanted");
        let goal = if self.geometry().contains(request.goal) {
            request.goal
        } else {
            self.block_goal(request.owner, request.place.is_some())
        };
        let geometry = self.geometry();
        // A goal within a cluster is behind blocks that have it.
        let goal = Some(
            goal.get()
                .next_multiple_of(geometry.cluster_blocks().into()),
        );
        let goal = goal.filter(|goal| *goal < geometry.block_count);
        let goal = geometry.cluster_of(goal.map_or(geometry.first_data_block, BlockNr::new));
        let count_max = request.count_max.div_ceil(geometry.cluster_blocks());
        let is_narrow = request.is_narrow && geometry.block_count > NARROW_BLOCKS_MAX;
        let found = match self.tuning.allocator {
            _ if is_narrow => self.allocate_narrow(handle, goal, count_max),
            Allocator::MultiBlock => self.allocate_multi_block(handle, request, goal, count_max),
            Allocator::Windows => self.allocate_near(handle, request.window, goal, count_max),
            Allocator::Forward => self.allocate_forward(handle, goal),
        };
        let run = geometry.blocks_of(found?);
        Ok(Run {
            count: run.count.min(request.count_max),
            ..run
        })
    }

    /// Frees the clusters of blocks, none of which is in use any more. The caller has already
    /// forgotten the buffers or pages of the blocks. They become allocatable when the transaction
    /// is durable.
    pub(crate) fn free_blocks(&self, handle: &mut Handle<'_>, run: Run) -> Result<()> {
        let clusters = self.geometry().clusters_of(run);
        if !self.is_data_run(self.geometry().blocks_of(clusters)) {
            let group = if self.geometry().contains(run.first) {
                self.geometry().group_of_block(run.first).0
            } else {
                GroupNr::new(0)
            };
            let why = "a block outside the data area is freed";
            let damage = crate::error::Corrupt::Bitmap {
                group,
                number: run.first.get(),
                why,
            };
            return Err(self.damaged(damage));
        }
        let is_divided = self.parts(run).nth(1).is_some();
        let _held = is_divided.then(|| self.check_parts(run)).transpose()?;
        for (group, start, count) in self.parts(run) {
            self.free_in(handle, group, start, count)?;
        }
        Ok(())
    }

    /// Frees blocks that are changed through the metadata cache, and forgets their buffers. If
    /// damage prevents this, neither blocks nor buffers change: a block that remains in use keeps
    /// its current contents.
    ///
    /// With a journal, the blocks are not allocated again before a commit. Without one, they may be
    /// allocated again at once: their buffers are forgotten first, so that the new owner finds no
    /// old buffer and keeps its own.
    pub(crate) fn free_buffered(&self, handle: &mut Handle<'_>, run: Run) -> Result<()> {
        self.free_buffered_in(handle, run, run)
    }

    /// Frees the clusters of `freed`, and forgets the buffers of `run`: blocks that a file gives up
    /// while it keeps others of their clusters.
    pub(crate) fn free_buffered_in(
        &self,
        handle: &mut Handle<'_>,
        run: Run,
        freed: Run,
    ) -> Result<()> {
        let forget = |handle: &mut Handle<'_>| {
            (0..u64::from(run.count)).try_for_each(|step| handle.forget(run.first + step))
        };
        if freed.count == 0 {
            return forget(handle);
        }
        let has_journal = self.journal.is_some() && !rt::mutant!("free/forgotten-before-freed");
        if has_journal || rt::mutant!("free/map-block-forgotten-late") {
            self.free_blocks(handle, freed)?;
            return forget(handle);
        }
        let is_checked = !rt::mutant!("free/forgotten-before-freed");
        let _held = is_checked.then(|| self.check_parts(freed)).transpose()?;
        forget(handle)?;
        self.free_blocks(handle, freed)
    }

    /// Checks that every part of an extent can be freed, before any part is. Returns the bitmaps,
    /// which the caller holds in memory until the extent is freed.
    pub(crate) fn check_parts(&self, run: Run) -> Result<Vec<Arc<Buffer>>> {
        let mut held = Vec::new();
        for (group, start, count) in self.parts(run) {
            let bitmap = self.block_bitmap(group)?;
            let mut maps = group.maps.lock();
            let map = match group.blocks(&mut maps, &bitmap, self.space.zones()) {
                Ok(map) => map,
                Err(damage) => {
                    drop(maps);
                    return Err(self.damaged(damage));
                }
            };
            if !map.taken.all_set(start, count) && self.options.on_error != OnError::Continue {
                let damage = group.damage(group.block_number(start), FREE_ALREADY);
                drop(maps);
                return Err(self.damaged(damage));
            }
            drop(maps);
            held.push(bitmap);
        }
        Ok(held)
    }

    /// Allocates the clusters that the plan proposes in one group. Returns `None` if the group has
    /// no free cluster or the plan proposes none. Also returns the index of the end of the window.
    pub(super) fn allocate_in(
        &self,
        handle: &mut Handle<'_>,
        group: &Group,
        plan: &mut dyn FnMut(&BlockMap) -> Option<Plan>,
    ) -> Result<Option<(ClusterRun, u32)>> {
        if group.usable_clusters.load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        let bitmap = self.block_bitmap(group)?;
        let descriptor = self.space.descriptor(group.nr);
        let mut is_filed = !self.may_writes_wait();
        loop {
            let mut maps = group.maps.lock();
            let map = match group.blocks(&mut maps, &bitmap, self.space.zones()) {
                Ok(map) => map,
                Err(damage) => {
                    drop(maps);
                    return Err(self.damaged(damage));
                }
            };
            let Some(plan) = plan(map) else {
                return Ok(None);
            };
            if !is_filed {
                // Once both buffers belong to this transaction, changing them does not wait. Filing
                // them may wait and is done without the group's lock.
                drop(maps);
                drop(handle.write(&bitmap)?);
                drop(handle.write(descriptor)?);
                is_filed = true;
                continue;
            }
            let count = handle.claim(plan.take.count, self.may_use_reserve());
            if count == 0 {
                return Err(Error::NoSpace);
            }
            let start = plan.take.start;
            self.begin_block_bitmap(handle, group, &bitmap)?;
            let mut bytes = handle.write(&bitmap)?;
            if !bitmap::set_in_bytes(&mut bytes, start, count) {
                drop(bytes);
                drop(maps);
                self.space.unclaim(count);
                let number = group.block_number(start);
                let damage = group.damage(number, "a block to allocate is marked taken");
                return Err(self.damaged(damage));
            }
            let sum = group.sum_of_blocks(&bytes);
            drop(bytes);
            map.marked.set(start, count);
            map.taken.set(start, count);
            map.reserved.unset(start, count);
            map.reserved
                .set(start + count, plan.window_end.saturating_sub(start + count));
            group.usable_clusters.fetch_sub(count, Ordering::Relaxed);
            group.free_clusters.fetch_sub(count, Ordering::Relaxed);
            self.space
                .free_clusters
                .fetch_sub(u64::from(count), Ordering::Relaxed);
            group.store(&mut handle.write(descriptor)?, sum);
            let run = ClusterRun {
                first: group.cluster(start),
                count,
            };
            let blocks = self.geometry().blocks_of(run);
            debug_assert!(
                self.is_data_run(blocks),
                "{run:?} of the volume's own blocks"
            );
            return Ok(Some((run, plan.window_end.max(start + count))));
        }
    }

    /// Gives a group's block bitmap its first contents, if it was never used. The caller holds the
    /// group's lock, and changes and stores the bitmap next.
    pub(super) fn begin_block_bitmap(
        &self,
        handle: &mut Handle<'_>,
        group: &Group,
        bitmap: &Arc<Buffer>,
    ) -> Result<()> {
        if group.lacks_block_bitmap.load(Ordering::Relaxed) {
            let first = group.first_block_bitmap(self.space.zones(), self.block_bytes());
            handle.replace(bitmap, first.into_arc())?;
            group.lacks_block_bitmap.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn free_in(
        &self,
        handle: &mut Handle<'_>,
        group: &Group,
        start: u32,
        count: u32,
    ) -> Result<()> {
        let bitmap = self.block_bitmap(group)?;
        let descriptor = self.space.descriptor(group.nr);
        if self.may_writes_wait() {
            drop(handle.write(&bitmap)?);
            drop(handle.write(descriptor)?);
        }
        let mut maps = group.maps.lock();
        let map = match group.blocks(&mut maps, &bitmap, self.space.zones()) {
            Ok(map) => map,
            Err(damage) => {
                drop(maps);
                return Err(self.damaged(damage));
            }
        };
        let mut bytes: BufferWrite<'_> = handle.write(&bitmap)?;
        if !map.taken.all_set(start, count) || !bitmap::clear_in_bytes(&mut bytes, start, count) {
            drop(bytes);
            drop(maps);
            let damage = group.damage(group.block_number(start), FREE_ALREADY);
            let error = self.damaged(damage);
            // With `errors=continue` the blocks stay as they are and the operation continues.
            return if self.options.on_error == OnError::Continue {
                Ok(())
            } else {
                Err(error)
            };
        }
        let sum = group.sum_of_blocks(&bytes);
        drop(bytes);
        if self.options.discard && rt::mutant!("discard/before-commit") {
            let run = FreedRun {
                group: group.nr,
                start,
                count,
            };
            self.discard(&[run]);
        }
        map.marked.unset(start, count);
        group.free_clusters.fetch_add(count, Ordering::Relaxed);
        self.space
            .free_clusters
            .fetch_add(u64::from(count), Ordering::Relaxed);
        group.store(&mut handle.write(descriptor)?, sum);
        let freed_by = handle.tid();
        match freed_by.filter(|_| !rt::mutant!("free/reused-while-uncommitted")) {
            Some(tid) => self.space.freed.lock().add(
                tid,
                FreedRun {
                    group: group.nr,
                    start,
                    count,
                },
            ),
            None => {
                map.taken.unset(start, count);
                group.note_free(map, start, count);
                group.usable_clusters.fetch_add(count, Ordering::Relaxed);
                self.space.unclaim(count);
            }
        }
        Ok(())
    }

    /// Returns every group once, starting with the group of a cluster, and the cluster's index in
    /// that group.
    pub(super) fn groups_from(&self, goal: Cluster) -> (impl Iterator<Item = &Group>, u32) {
        let (first, index) = self.geometry().group_of_cluster(goal);
        let (before, behind) = self.space.groups().split_at(first.index());
        (behind.iter().chain(before), index)
    }
}
