//! Allocating and zeroing ranges of a file that can have unwritten extents.
//!
//! Holes get unwritten extents. Zeroing also makes written blocks unwritten: their pages are
//! written and dropped before, so that no older write of such a block is under way when it gets new
//! data. Each step is complete with its size, so that a crash leaves the start of the range, up to
//! the end of a block.

use std::sync::Arc;

use jbd2::Credits;
use layout::FileBlock;

use super::{ByteRange, RangeChange, STEP_BYTES, zero_bytes, zero_part};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::{InodeState, now};
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::file::large_file::{hold_for_large_file, note_large_file};
use crate::file::live::begin_change;
use crate::file::tail::clear_tail;
use crate::file::truncate::finish_cut;
use crate::file::{ahead, delayed, direct};
use crate::map::{FileMap, Mapped};
use crate::writeback::memory;

/// Number of blocks allocated in one transaction.
const BLOCKS_MAX: u64 = 32_767;
/// Number of blocks of a transaction that makes them unwritten, if each may need a revoke.
const BUFFERED_MAX: u32 = 64;

/// Changes a range, in ascending order. Takes the inode lock for one step at a time; after an
/// error, or a crash, a part from the start on may have changed.
pub(super) fn change(
    core: &Core,
    inode: &Arc<Inode>,
    range: ByteRange,
    what: RangeChange,
    keeps_size: bool,
) -> Result<()> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let end = range.end.div_ceil(block_bytes);
    let mut at = range.start;
    while at < range.end {
        if what == RangeChange::Zero {
            memory::admit(core)?;
        }
        let block = at / block_bytes;
        let step = Step {
            first: FileBlock::new(block),
            count: (end - block).min(BLOCKS_MAX) as u32,
            size: (!keeps_size).then_some(range.end),
            is_zeroing: what == RangeChange::Zero,
        };
        let rest = ByteRange { start: at, ..range };
        let count = delayed::with_space(core, || {
            let mut state = inode.state.write();
            begin_change(core, &mut state)?;
            ahead::settle(inode);
            delayed::allocate(core, inode, &mut state)?;
            match what {
                RangeChange::Zero => step.zero(core, inode, &mut state, rest),
                _ => step.allocate(core, inode, &mut state),
            }
        })?;
        at = (block + u64::from(count)) * block_bytes;
    }
    Ok(())
}

/// Blocks to allocate in one transaction.
#[derive(Clone, Copy)]
struct Step {
    first: FileBlock,
    count: u32,
    /// The size of the file once all blocks are there; none to keep it.
    size: Option<u64>,
    /// True if the range was zeroed, which changes the file's times in any case.
    is_zeroing: bool,
}

impl Step {
    /// Zeroes the first blocks of the step, which are all of one kind: holes are allocated, written
    /// blocks become unwritten, and a block of which `rest` has only a part gets zeroes. Returns
    /// their number; 0 after a wait for blocks that were about to be released.
    fn zero(
        mut self,
        core: &Core,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        rest: ByteRange,
    ) -> Result<u32> {
        let _table = core.hold_table(inode.nr)?;
        finish_cut(core, inode, state)?;
        let block_bytes = u64::from(core.geometry().block_bytes);
        let first = self.first.get();
        let most = match state.has_buffered_blocks(core) {
            true => BUFFERED_MAX,
            false => (STEP_BYTES / block_bytes) as u32,
        };
        // Behind the end of the file there is nothing to keep.
        let whole_end = match rest.end >= state.size {
            true => rest.end.div_ceil(block_bytes),
            false => rest.end / block_bytes,
        };
        let is_part = rest.start > first * block_bytes || first >= whole_end;
        self.count = match is_part {
            true => 1,
            false => self.count.min(most).min((whole_end - first) as u32),
        };
        let map = FileMap::of(state);
        let run = match map.find(core, inode, state, self.first, self.count)? {
            Mapped::Run(run) => run,
            Mapped::Unwritten(run) => {
                self.count = run.count;
                return self.allocate(core, inode, state);
            }
            Mapped::Hole(count) => {
                self.count = self.count.min(u32::try_from(count).unwrap_or(u32::MAX));
                return self.allocate(core, inode, state);
            }
        };
        if is_part {
            self.write_part(core, inode, state, rest)?;
            return Ok(1);
        }
        self.count = run.count;
        let before = core.space.before();
        match self.mark(core, inode, state, run) {
            Ok(()) => {}
            Err(Error::NoSpace) if core.wait_for_space(before)? => return Ok(0),
            Err(Error::NoSpace) => {
                let end = (self.first + u64::from(run.count)).get() * block_bytes;
                let end = self.size_after(core, run.count).max(end.min(state.size));
                zero_bytes(core, inode, state, first * block_bytes, end)?;
            }
            Err(error) => return Err(error),
        }
        Ok(run.count)
    }

    /// Writes zeroes to the part of the first block that a range has.
    fn write_part(
        &self,
        core: &Core,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        rest: ByteRange,
    ) -> Result<()> {
        let block_bytes = u64::from(core.geometry().block_bytes);
        let mut end = rest.end.min((self.first + 1).get() * block_bytes);
        if self.size.is_none() {
            end = end.min(state.size);
        }
        let range = ByteRange { end, ..rest };
        match range.is_empty() {
            true => Ok(()),
            false => zero_part(core, inode, state, range),
        }
    }

    /// Makes written blocks unwritten, in one transaction.
    fn mark(
        &self,
        core: &Core,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        run: Run,
    ) -> Result<()> {
        let size = self.size_after(core, run.count);
        if size > state.size {
            clear_tail(core, inode, state)?;
        }
        let _superblock = hold_for_large_file(core, size)?;
        let map = FileMap::of(state);
        direct::drop_range(core, inode, self.first, run.count.into())?;
        let revokes = match state.has_buffered_blocks(core) {
            true => run.count,
            false => 0,
        };
        let mut handle = core.begin(Credits {
            blocks: map.credits_to_map() + 2,
            revokes,
        })?;
        handle.describe();
        let marked = map.mark_unwritten(core, &mut handle, inode, state, self.first, run);
        if marked.is_ok() {
            if size > state.size {
                state.size = size;
                note_large_file(core, &mut handle, size)?;
            }
            state.mtime = now();
            state.ctime = state.mtime;
            state.store(core, &mut handle, inode.nr, true)?;
        }
        handle.finish()?;
        marked
    }

    /// Returns the size that the file has at least once the first `count` blocks are done.
    fn size_after(&self, core: &Core, count: u32) -> u64 {
        let end = (self.first + u64::from(count)).get() * u64::from(core.geometry().block_bytes);
        self.size.map_or(0, |size| size.min(end))
    }

    /// Allocates the first blocks that are in no extent. Returns the number of blocks from the
    /// first on that are allocated. Blocks that are allocated already change nothing.
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
        handle.describe();
        let (first, count) = (self.first, self.count);
        let allocated = map.allocate_unwritten(core, &mut handle, inode, state, first, count);
        let count = match allocated {
            Ok(count) => count,
            Err(error) => {
                handle.finish()?;
                return Err(error);
            }
        };
        let size = self.size_after(core, count);
        if size > state.size {
            note_large_file(core, &mut handle, size)?;
        }
        if self.is_zeroing || size > state.size || !state.is_stored() {
            state.size = state.size.max(size);
            state.mtime = now();
            state.ctime = state.mtime;
            state.store(core, &mut handle, inode.nr, true)?;
        }
        handle.finish()?;
        Ok(count)
    }
}
