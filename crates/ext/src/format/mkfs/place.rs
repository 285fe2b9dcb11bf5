//! Placement of the first files: clusters are taken one after another, around the groups' metadata.

use layout::{BlockNr, GroupNr};

use super::groups::GroupMetadata;
use crate::disk::geometry::Geometry;
use crate::disk::run::{Run, append};
use crate::error::{Error, Result};

/// The blocks taken besides the groups' metadata.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Taken extents, in order of their numbers.
    taken: Vec<Run>,
}

impl Places {
    /// Takes the clusters of `count` blocks from `goal` on, the start of a cluster, and continues
    /// at the start of the volume after its end. Returns the blocks, which leave the rest of the
    /// last cluster.
    pub(super) fn take(
        &mut self,
        geometry: &Geometry,
        metadata: &GroupMetadata,
        goal: BlockNr,
        count: u64,
    ) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        let mut left = count;
        let start = geometry.first_data_block;
        for (from, to) in [(goal, geometry.block_count), (start, goal.get())] {
            let mut at = from;
            while left > 0 && at.get() < to {
                let Some(free) = self.free_run(geometry, metadata, at, to) else {
                    break;
                };
                let take = u64::from(free.count).min(left) as u32;
                let run = Run {
                    first: free.first,
                    count: take,
                };
                let whole = geometry.blocks_of(geometry.clusters_of(run));
                self.mark(whole);
                append(&mut runs, run);
                left -= u64::from(take);
                at = whole.end();
            }
        }
        if left > 0 {
            Err(Error::NoSpace)
        } else {
            Ok(runs)
        }
    }

    /// Returns the first extent of free blocks in `from..to`; it ends with its group.
    fn free_run(
        &self,
        geometry: &Geometry,
        metadata: &GroupMetadata,
        from: BlockNr,
        to: u64,
    ) -> Option<Run> {
        let mut at = from;
        while at.get() < to {
            let (group, _) = geometry.group_of_block(at);
            let end = geometry.first_block_of(group) + u64::from(geometry.blocks_in(group));
            let taken = self.taken.iter().find(|run| run.end() > at).copied();
            let behind = [taken, metadata.behind(at)];
            let behind = behind.into_iter().flatten().min_by_key(|run| run.first);
            match behind {
                Some(run) if run.first <= at => at = run.end(),
                _ => {
                    let next = behind.map_or(u64::MAX, |run| run.first.get());
                    let stop = end.get().min(to).min(next);
                    return Some(Run {
                        first: at,
                        count: (stop - at.get()) as u32,
                    });
                }
            }
        }
        None
    }

    fn mark(&mut self, run: Run) {
        let at = self.taken.partition_point(|taken| taken.first < run.first);
        self.taken.insert(at, run);
    }

    /// Returns the parts of taken extents that lie in a group: index within the group and count.
    pub(super) fn in_group(
        &self,
        geometry: &Geometry,
        group: GroupNr,
    ) -> impl Iterator<Item = (u32, u32)> {
        let first = geometry.first_block_of(group).get();
        let end = first + u64::from(geometry.blocks_in(group));
        self.taken.iter().filter_map(move |run| {
            let (from, to) = (run.first.get().max(first), run.end().get().min(end));
            (from < to).then(|| ((from - first) as u32, (to - from) as u32))
        })
    }

    /// Returns the number of blocks of taken clusters.
    pub(super) fn count(&self) -> u64 {
        self.taken.iter().map(|run| u64::from(run.count)).sum()
    }
}
