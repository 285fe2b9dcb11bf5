//! Allocation below block 2^32 on a larger volume, for files with indirect blocks, whose block
//! numbers have 32 bits. Such files are rare there: the first free blocks after the goal are taken.

use layout::BlockNr;

use super::BlockRequest;
use super::blocks::Plan;
use crate::cache::space::bitmap::ClearRun;
use crate::cache::space::group::BlockMap;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::geometry::NARROW_BLOCKS_MAX;
use crate::disk::run::Run;
use crate::error::{Error, Result};

impl Core {
    /// Allocates blocks whose numbers fit 32 bits: outside of the windows of other files, and then
    /// within them.
    pub(super) fn allocate_narrow(
        &self,
        handle: &mut Handle<'_>,
        request: &BlockRequest<'_>,
        goal: BlockNr,
    ) -> Result<Run> {
        let is_low = goal.get() <= NARROW_BLOCKS_MAX;
        let goal = if is_low {
            goal
        } else {
            self.geometry().first_data_block
        };
        for takes_windows in [false, true] {
            let (groups, index) = self.groups_from(goal);
            for (distance, group) in groups.enumerate() {
                if group.first.get() + u64::from(group.block_count) > NARROW_BLOCKS_MAX {
                    continue;
                }
                let plan = &mut |map: &BlockMap| {
                    let view = if takes_windows {
                        map.free()
                    } else {
                        map.open()
                    };
                    let end = group.block_count;
                    let from = if distance == 0 { index } else { 0 };
                    let start = view
                        .first_clear(from, end)
                        .or_else(|| view.first_clear(0, end))?;
                    let count = view.run_length(start, request.count_max.min(end - start));
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
