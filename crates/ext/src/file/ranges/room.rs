//! Refusing an allocation for which the volume has too few blocks, before it takes any.
//!
//! An allocation that failed half-way would have taken all blocks of the volume for a while. Writes
//! that a caller counts as done, such as those that a kernel keeps in its own cache, would find no
//! space during that time and be lost.

use layout::FileBlock;

use super::ByteRange;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::map::{FileMap, Mapped};

/// Refuses an allocation that cannot succeed, whatever is freed by transactions that have not
/// committed. Returns false if it needs some of those blocks. The blocks of the map are not
/// counted, so that an allocation that is let through may still find no space.
///
/// Waits for nothing: others may free and allocate blocks all the time.
pub(super) fn check(core: &Core, inode: &Inode, range: ByteRange) -> Result<bool> {
    let geometry = core.geometry();
    let block_bytes = u64::from(geometry.block_bytes);
    let may_use_reserve = core.may_use_reserve();
    let free = core.space.claimable(may_use_reserve);
    let mut at = range.start / block_bytes;
    let end = range.end.div_ceil(block_bytes);
    if (end - at) >> geometry.cluster_log <= free {
        return Ok(true);
    }
    let state = inode.state.read();
    let map = FileMap::of(&state);
    // What is claimed for pages without a block is part of it: a claim may be too large.
    let room = core.space.claimable_later(may_use_reserve);
    let pages = inode.pages.lock().delayed_pages();
    let mut missing = 0;
    while at < end && missing <= room {
        let first = FileBlock::new(at);
        let count_max = u32::try_from(end - at).unwrap_or(u32::MAX);
        let hole = match map.find(core, inode, &state, first, count_max)? {
            Mapped::Run(run) | Mapped::Unwritten(run) => {
                at += u64::from(run.count);
                continue;
            }
            Mapped::Hole(count) => at..(at + count).min(end),
        };
        at = hole.end;
        // A cluster that begins before the hole may be there already.
        let whole = hole.end >> geometry.cluster_log;
        missing += whole.saturating_sub(hole.start.div_ceil(1 << geometry.cluster_log));
    }
    match missing > room {
        true => Err(Error::NoSpace),
        // Pages without a block have a claim already, for at most a cluster each.
        false => Ok(missing <= free + pages),
    }
}
