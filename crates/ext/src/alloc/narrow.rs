//! Allocation below block 2^32 on a larger volume, for files with indirect blocks, whose block
//! numbers have 32 bits. Such files are rare there: the first free blocks after the goal are taken.

use super::blocks::Plan;
use crate::cache::space::bitmap::ClearRun;
use crate::cache::space::group::BlockMap;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::cluster::{Cluster, ClusterRun};
use crate::disk::geometry::NARROW_BLOCKS_MAX;
use crate::error::{Error, Result};

impl Core {
    /// Allocates clusters whose blocks have numbers of 32 bits: outside of the windows of other
    /// files, and then within them.
    pub(super) fn allocate_narrow(
        &self,
        handle: &mut Handle<'_>,
        goal: Cluster,
        count_max: u32,
    ) -> Result<ClusterRun> {
        let geometry = self.geometry();
        let is_low = geometry.first_block_in(goal).get() <= NARROW_BLOCKS_MAX;
        let first = geometry.cluster_of(geometry.first_data_block);
        let goal = if is_low { goal } else { first };
        for takes_windows in [false, true] {
            let (groups, index) = self.groups_from(goal);
            for (distance, group) in groups.enumerate() {
                if group.first.get() + u64::from(group.block_count) > NARROW_BLOCKS_MAX {
                    continue;
                }
                let plan = &mut |map: &BlockMap| {
                    let view = match takes_windows {
                        true => map.free(),
                        false => map.open(),
                    };
                    let end = group.cluster_count;
                    let from = if distance == 0 { index } else { 0 };
                    let behind = view.first_clear(from, end);
                    let start = behind.or_else(|| view.first_clear(0, end))?;
                    let count = view.run_length(start, count_max.min(end - start));
                    Some(Plan {
                        take: ClearRun { start, count },
                        window_end: start + count,
                    })
                };
                if let Some((run, _)) = self.allocate_in(handle, group, plan)? {
                    return Ok(run);
                }
            }
        }
        Err(Error::NoSpace)
    }
}
