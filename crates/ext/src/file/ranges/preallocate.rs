//! Allocating and zeroing ranges of a file that can have unwritten extents.
//!
//! Holes get unwritten extents. Zeroing also makes written blocks unwritten: their pages are
//! written and dropped before, so that no older write of such a block is under way when it gets new
//! data.

use std::sync::Arc;

use jbd2::Credits;
use layout::FileBlock;

use super::{ByteRange, RangeChange, STEP_BYTES, zero_blocks, zero_part};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::{InodeState, now};
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::file::large_file::{hold_for_large_file, note_large_file};
use crate::file::live::check_live;
use crate::file::tail::clear_tail;
use crate::file::truncate::finish_cut;
use crate::file::{ahead, direct};
use crate::map::{FileMap, Mapped};
use crate::writeback::memory;

/// Number of blocks allocated in one transaction.
const BLOCKS_MAX: u64 = 32_767;
/// Number of blocks of a transaction that makes them unwritten, if each may need a revoke.
const BUFFERED_MAX: u32 = 64;

/// Changes a range. Takes the inode lock for one step at a time; after an error a part may have
/// changed.
pub(super) fn change(
    core: &Core,
    inode: &Arc<Inode>,
    range: ByteRange,
    what: RangeChange,
    keeps_size: bool,
) -> Result<()> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    if what == RangeChange::Zero {
        memory::admit(core)?;
        zero(core, inode, range)?;
    }
    let mut at = range.start / block_bytes;
    let end = range.end.div_ceil(block_bytes);
    while at < end {
        let mut state = inode.state.write();
        check_live(&state)?;
        ahead::settle(inode);
        let step = Step {
            first: FileBlock::new(at),
            count: (end - at).min(BLOCKS_MAX) as u32,
            size: (!keeps_size).then_some(range.end),
        };
        let has_pending = core.space.has_pending();
        match step.allocate(core, inode, &mut state) {
            Ok(count) => at += u64::from(count),
            Err(Error::NoSpace) if has_pending && core.wait_for_space()? => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Blocks to allocate in one transaction.
struct Step {
    first: FileBlock,
    count: u32,
    /// The size of the file once all blocks are there; none to keep it.
    size: Option<u64>,
}

impl Step {
    /// Allocates the first blocks that are in no extent. Returns the number of blocks from the
    /// first on that are allocated.
    fn allocate(&self, core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<u32> {
        let _table = core.hold_table(inode.nr)?;
        finish_cut(core, inode, state)?;
        if self.size.is_some_and(|size| size > state.size) {
            clear_tail(core, inode, state)?;
        }
        let _superblock = hold_for_large_file(core, self.size.unwrap_or(0))?;
        let map = FileMap::of(state);
        let mut handle = core.begin(Credits {
            blocks: map.credits_to_map() + 2,
            revokes: 0,
        })?;
        let (first, count) = (self.first, self.count);
        let allocated = map.allocate_unwritten(core, &mut handle, inode, state, first, count);
        let count = match allocated {
            Ok(count) => count,
            Err(error) => {
                handle.finish()?;
                return Err(error);
            }
        };
        let end = (first + u64::from(count)).get() * u64::from(core.geometry().block_bytes);
        let size = self.size.map_or(0, |size| size.min(end));
        state.ctime = now();
        if size > state.size {
            state.size = size;
            state.mtime = state.ctime;
            note_large_file(core, &mut handle, size)?;
        }
        state.store(core, &mut handle, inode.nr, true)?;
        handle.finish()?;
        Ok(count)
    }
}

/// Zeroes what is written in a range: whole blocks become unwritten, others get zeroes.
fn zero(core: &Core, inode: &Arc<Inode>, range: ByteRange) -> Result<()> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let mut state = inode.state.write();
    check_live(&state)?;
    ahead::settle(inode);
    let _table = core.hold_table(inode.nr)?;
    finish_cut(core, inode, &mut state)?;
    let end = range.end.min(state.size);
    let first = range.start.div_ceil(block_bytes);
    let last = match end == state.size {
        true => end.div_ceil(block_bytes),
        false => end / block_bytes,
    };
    let head = ByteRange {
        start: range.start,
        end: end.min(first * block_bytes),
    };
    zero_part(core, inode, &mut state, head)?;
    if last >= first {
        let tail = ByteRange {
            start: range.start.max(last * block_bytes),
            end,
        };
        zero_part(core, inode, &mut state, tail)?;
    }
    let mut at = FileBlock::new(first);
    while at.get() < last {
        let most = match state.has_buffered_blocks(core) {
            true => BUFFERED_MAX,
            false => (STEP_BYTES / block_bytes) as u32,
        };
        let count = (last - at.get()).min(most.into()) as u32;
        let map = FileMap::of(&state);
        let run = match map.find(core, inode, &state, at, count)? {
            Mapped::Run(run) => run,
            Mapped::Unwritten(run) => {
                at = at + u64::from(run.count);
                continue;
            }
            Mapped::Hole(count) => {
                at = at + count;
                continue;
            }
        };
        let has_pending = core.space.has_pending();
        match mark(core, inode, &mut state, at, run) {
            Ok(()) => {}
            Err(Error::NoSpace) if has_pending && core.wait_for_space()? => continue,
            Err(Error::NoSpace) => zero_blocks(core, inode, &mut state, at, run)?,
            Err(error) => return Err(error),
        }
        at = at + u64::from(run.count);
    }
    Ok(())
}

/// Makes written blocks unwritten, in one transaction.
fn mark(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    at: FileBlock,
    run: Run,
) -> Result<()> {
    let map = FileMap::of(state);
    direct::drop_range(core, inode, at, run.count.into())?;
    let revokes = match state.has_buffered_blocks(core) {
        true => run.count,
        false => 0,
    };
    let mut handle = core.begin(Credits {
        blocks: map.credits_to_map() + 1,
        revokes,
    })?;
    let marked = map.mark_unwritten(core, &mut handle, inode, state, at, run);
    if marked.is_ok() {
        state.mtime = now();
        state.ctime = state.mtime;
        state.store(core, &mut handle, inode.nr, true)?;
    }
    handle.finish()?;
    marked
}
