//! Punching holes into a file.

use std::sync::Arc;

use jbd2::Credits;
use layout::FileBlock;

use super::{ByteRange, zero_blocks, zero_part};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::{InodeState, now};
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::file::live::begin_change;
use crate::file::{ahead, delayed, kept_clusters};
use crate::map::{FileMap, Mapped, Spare};
use crate::writeback::pages::wait_written;

/// Number of blocks that one transaction frees: each may need a revoke.
const FREED_MAX: u32 = 64;

/// Frees whole blocks, and zeroes the rest of the range.
pub(super) fn punch(core: &Core, inode: &Arc<Inode>, range: ByteRange) -> Result<()> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let mut state = inode.state.write();
    begin_change(core, &mut state)?;
    ahead::settle(inode);
    delayed::allocate(core, inode, &mut state)?;
    let end = range.end.min(state.size);
    let first = range.start.div_ceil(block_bytes);
    let last = if end == state.size {
        end.div_ceil(block_bytes)
    } else {
        end / block_bytes
    };
    let head = ByteRange {
        start: range.start,
        end: end.min(first * block_bytes),
    };
    let tail = ByteRange {
        start: range.start.max(last * block_bytes),
        end,
    };
    zero_part(core, inode, &mut state, head)?;
    if last >= first {
        zero_part(core, inode, &mut state, tail)?;
    }
    let mut block = FileBlock::new(first);
    while block.get() < last {
        let count = u32::try_from(last - block.get())
            .unwrap_or(u32::MAX)
            .min(FREED_MAX);
        let found = FileMap::of(&state).find(core, inode, &state, block, count)?;
        let run = match found {
            Mapped::Run(run) | Mapped::Unwritten(run) => run,
            Mapped::Hole(count) => {
                block = block + count;
                continue;
            }
        };
        let before = core.space.before();
        match give_back(core, inode, &mut state, block, run) {
            Ok(()) => {}
            Err(Error::NoSpace) if core.wait_for_space(before)? => continue,
            Err(Error::NoSpace) if found.zeroes().is_some() => {}
            Err(Error::NoSpace) => zero_blocks(core, inode, &mut state, block, run)?,
            Err(error) => return Err(error),
        }
        block = block + u64::from(run.count);
    }
    Ok(())
}

/// Frees one extent of the file, in one transaction.
fn give_back(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    block: FileBlock,
    run: Run,
) -> Result<()> {
    let _table = core.hold_table(inode.nr)?;
    let map = FileMap::of(state);
    // Blocks that stay keep their current contents, which may be in the pages alone.
    let _held = map.hold_for_unmap(core, inode, state, block, run)?;
    let credits = map.credits_to_unmap(run.count);
    kept_clusters::write(core, inode, block.get()..block.get() + u64::from(run.count))?;
    let (mut handle, spare) = drop_pages(core, inode, state, block, run, credits)?;
    let freed = map.unmap(core, &mut handle, inode, state, spare);
    if rt::mutant!("ranges/punch-in-two-steps") {
        handle.tear(Credits {
            revokes: 0,
            ..credits
        })?;
    }
    if freed.is_err() {
        state.store(core, &mut handle, inode.nr, true)?;
        handle.finish()?;
        return freed;
    }
    let emptied = map.free_empty_maps(core, &mut handle, inode, state, block);
    state.mtime = now();
    state.ctime = state.mtime;
    state.store(core, &mut handle, inode.nr, true)?;
    handle.finish()?;
    emptied
}

/// Drops the pages of an extent, within a new transaction, once the blocks that the removal needs
/// are allocated. Without them the pages stay: they may have the only copy of the data.
fn drop_pages<'c>(
    core: &'c Core,
    inode: &Arc<Inode>,
    state: &InodeState,
    block: FileBlock,
    run: Run,
    credits: Credits,
) -> Result<(Handle<'c>, Spare)> {
    loop {
        wait_written(core, inode);
        let mut handle = core.begin(credits)?;
        handle.describe();
        let map = FileMap::of(state);
        let spare = match map.prepare_unmap(core, &mut handle, inode, state, block, run) {
            Ok(spare) => spare,
            Err(error) => {
                handle.finish()?;
                return Err(error);
            }
        };
        let mut inner = inode.pages.lock();
        if !inner.is_busy(block) {
            let end = Some(block + u64::from(run.count));
            if rt::mutant!("ranges/pages-not-dropped") {
                drop(inner);
                return Ok((handle, spare));
            }
            let tid = handle.tid();
            core.drop_pages(&mut inner, inode, block, end, tid);
            drop(inner);
            return Ok((handle, spare));
        }
        drop(inner);
        spare.free(core, &mut handle)?;
        handle.finish()?;
    }
}
