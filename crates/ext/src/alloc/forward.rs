//! The allocator of the `Ext3Linux24` profile: one block at a time, forward from a goal.
//!
//! It behaves as ext3 did in Linux 2.4.18. It tries the goal itself; else a free block in the rest
//! of the goal's 64-block neighbourhood; else, from there to the end of the group, the start of the
//! first free byte of the bitmap (eight blocks), or else any free block; else the same in the
//! following groups, from their first block. It has no windows and no preallocation.
//!
//! The searches for a neighbour and for a byte use the on-disk bitmap, which shows blocks as free
//! that may not be reused before their transaction is durable. If the first hit is such a block,
//! the search falls through to the next step, down to single blocks: the more a transaction has
//! freed, the more fragmented new files become.
//!
//! Source: behaviour of fs/ext3/balloc.c in Linux 2.4.12-ac1.

use super::blocks::Plan;
use crate::cache::space::bitmap::ClearRun;
use crate::cache::space::group::BlockMap;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::cluster::{Cluster, ClusterRun};
use crate::error::{Error, Result};

/// Number of blocks in the neighbourhood of a goal, which are tried one by one.
const NEIGHBOURHOOD: u32 = 64;
/// Largest number of steps back from a free byte to the start of its free blocks.
const BACK_MAX: u32 = 7;

impl Core {
    /// Allocates one cluster at the goal or after it.
    pub(super) fn allocate_forward(
        &self,
        handle: &mut Handle<'_>,
        goal: Cluster,
    ) -> Result<ClusterRun> {
        let (groups, index) = self.groups_from(goal);
        let first = groups
            .enumerate()
            .map(|(distance, group)| (group, distance == 0));
        let (again, _) = self.groups_from(goal);
        // The goal's group is searched from the goal on, and once more as a whole when all others
        // are full.
        for (group, is_goal) in first.chain(again.take(1).map(|group| (group, false))) {
            let plan = &mut |map: &BlockMap| {
                let near = if is_goal { near_goal(map, index) } else { None };
                let start = near.or_else(|| forward(map, if is_goal { index } else { 0 }))?;
                Some(Plan {
                    take: ClearRun { start, count: 1 },
                    window_end: start + 1,
                })
            };
            if let Some((run, _)) = self.allocate_in(handle, group, plan)? {
                return Ok(run);
            }
        }
        Err(Error::NoSpace)
    }
}

/// Returns the goal, or the next block in its neighbourhood whose bit is clear.
fn near_goal(map: &BlockMap, goal: u32) -> Option<u32> {
    if !map.taken.is_set(goal) {
        return Some(goal);
    }
    let end = goal.next_multiple_of(NEIGHBOURHOOD).min(map.marked.bits());
    let near = map.marked.first_clear(goal, end);
    near.filter(|near| !map.taken.is_set(*near))
}

/// Returns the start of the free blocks around the first clear byte from an index on, or else the
/// first free block.
fn forward(map: &BlockMap, from: u32) -> Option<u32> {
    let byte = map.marked.first_clear_byte(from);
    let Some(byte) = byte.filter(|byte| !map.taken.is_set(*byte)) else {
        return map.taken.first_clear(from, map.taken.bits());
    };
    let steps = (1..=BACK_MAX.min(byte)).take_while(|step| !map.taken.is_set(byte - step));
    Some(byte - steps.last().unwrap_or(0))
}
