//! Allocating, punching and zeroing ranges of a file: fallocate, as far as block maps without
//! unwritten extents allow.
//!
//! | operation | in a hole | on blocks | beyond the end |
//! |---|---|---|---|
//! | allocate | blocks with zeroes | nothing | as in a hole; see below |
//! | zero | blocks with zeroes | zeroes | the same |
//! | punch | nothing | freed; parts of blocks become zeroes | nothing |
//!
//! Allocating beyond the end grows the file; with the size kept, it is refused.
//!
//! An ext3 block map has no unwritten extents, so allocating writes zeroes. Nor may it have blocks
//! beyond the end of the file, which e2fsck reports as damage.

use std::sync::Arc;

use jbd2::Credits;
use layout::FileBlock;
use layout::inode_flags::InodeFlags;

use super::truncate::{finish_cut, grow};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::file_size::size_max;
use crate::disk::inode::{InodeState, now};
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::file::buffered::buffered;
use crate::file::live::check_live;
use crate::map::{FileMap, Mapped};
use crate::writeback::pages::wait_written;
use crate::writeback::{self, memory};

/// Number of bytes changed under one hold of the inode lock.
const STEP_BYTES: u64 = 1 << 20;
/// Number of blocks that one transaction frees: each may need a revoke.
const FREED_MAX: u32 = 64;

/// A change of a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeChange {
    /// Allocates blocks; existing ones stay.
    Allocate,
    /// Frees the blocks of the range, which then reads as zeroes.
    PunchHole,
    /// Allocates blocks for the range, which then reads as zeroes.
    Zero,
}

/// A part of a file in bytes: start and end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl ByteRange {
    fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// Changes a range. Takes the inode lock for one step at a time; after an error a part may have
/// changed.
pub(crate) fn change_range(
    core: &Core,
    inode: &Arc<Inode>,
    range: ByteRange,
    what: RangeChange,
    keeps_size: bool,
) -> Result<()> {
    core.check_writable()?;
    let size = {
        let state = inode.state.read();
        check(core, &state, range, what)?;
        state.size
    };
    if what == RangeChange::PunchHole {
        punch(core, inode, range)?;
    } else if keeps_size && range.end > size {
        return Err(Error::Unsupported(
            "ext3 has no blocks behind the end of a file".to_owned(),
        ));
    } else {
        fill(core, inode, range, what)?;
    }
    let state = inode.state.read();
    let is_synchronous = core.options.sync || state.flags.contains(InodeFlags::SYNC);
    drop(state);
    if is_synchronous {
        writeback::sync(core, inode, false)?;
    }
    Ok(())
}

fn check(core: &Core, state: &InodeState, range: ByteRange, what: RangeChange) -> Result<()> {
    check_live(state)?;
    let only_grows = state.flags.contains(InodeFlags::APPEND) && what != RangeChange::Allocate;
    if only_grows || state.flags.contains(InodeFlags::IMMUTABLE) {
        return Err(Error::NotPermitted);
    }
    if range.is_empty() {
        return Err(Error::Invalid("a range has a length"));
    }
    let is_growing = what != RangeChange::PunchHole;
    if is_growing && range.end > size_max(core.geometry().block_bytes) {
        return Err(Error::FileTooLarge);
    }
    Ok(())
}

/// Writes zeroes to the whole range, or only to its holes.
fn fill(core: &Core, inode: &Arc<Inode>, range: ByteRange, what: RangeChange) -> Result<()> {
    let zeroes = vec![0; STEP_BYTES as usize];
    let mut at = range.start;
    while at < range.end {
        memory::admit(core)?;
        let written = {
            let mut state = inode.state.write();
            check_live(&state)?;
            let end = range.end.min(at + STEP_BYTES);
            let part = match what {
                RangeChange::Zero => Part {
                    bytes: end - at,
                    is_hole: true,
                },
                _ => part(core, inode, &state, ByteRange { start: at, end })?,
            };
            if part.is_hole {
                buffered(core, inode, &mut state, at, &zeroes[..part.bytes as usize])? as u64
            } else {
                grow_to(core, inode, &mut state, at + part.bytes)?;
                part.bytes
            }
        };
        at += written;
        let pages = written.div_ceil(u64::from(core.geometry().block_bytes));
        memory::throttle(core, pages as usize);
    }
    Ok(())
}

/// The start of a range that is either a hole or has blocks.
struct Part {
    bytes: u64,
    is_hole: bool,
}

fn part(core: &Core, inode: &Inode, state: &InodeState, range: ByteRange) -> Result<Part> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let first = FileBlock::new(range.start / block_bytes);
    let count = range.end.div_ceil(block_bytes) - first.get();
    let found = FileMap::of(state).find(core, inode, state, first, count as u32)?;
    let (blocks, is_hole) = match found {
        Mapped::Run(run) => (u64::from(run.count), false),
        Mapped::Hole(count) => (count, true),
    };
    let end = range.end.min((first + blocks).get() * block_bytes);
    Ok(Part {
        bytes: end - range.start,
        is_hole,
    })
}

/// Sets a larger size over blocks that are there already.
fn grow_to(core: &Core, inode: &Arc<Inode>, state: &mut InodeState, size: u64) -> Result<()> {
    if size <= state.size {
        return Ok(());
    }
    let _table = core.hold_table(inode.nr)?;
    finish_cut(core, inode, state)?;
    grow(core, inode, state, size)
}

/// Frees whole blocks, and zeroes the rest of the range.
fn punch(core: &Core, inode: &Arc<Inode>, range: ByteRange) -> Result<()> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let mut state = inode.state.write();
    check_live(&state)?;
    super::ahead::settle(inode);
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
        match FileMap::of(&state).find(core, inode, &state, block, count)? {
            Mapped::Run(run) => {
                give_back(core, inode, &mut state, block, run)?;
                block = block + u64::from(run.count);
            }
            Mapped::Hole(count) => block = block + count,
        }
    }
    Ok(())
}

/// Zeroes a part of one block, unless it is a hole.
fn zero_part(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    range: ByteRange,
) -> Result<()> {
    let is_left = rt::mutant!("ranges/part-of-block-not-zeroed");
    if is_left || range.is_empty() || part(core, inode, state, range)?.is_hole {
        return Ok(());
    }
    let zeroes = vec![0; (range.end - range.start) as usize];
    buffered(core, inode, state, range.start, &zeroes)?;
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
    let mut handle = drop_pages(core, inode, block, run.count, credits)?;
    let freed = map.unmap(core, &mut handle, inode, state, block, run);
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

/// Drops the pages of an extent, within a new transaction.
fn drop_pages<'c>(
    core: &'c Core,
    inode: &Arc<Inode>,
    block: FileBlock,
    count: u32,
    credits: Credits,
) -> Result<Handle<'c>> {
    loop {
        wait_written(core, inode);
        let handle = core.begin(credits)?;
        let mut inner = inode.pages.lock();
        if !inner.is_busy(block) {
            let end = Some(block + u64::from(count));
            if rt::mutant!("ranges/pages-not-dropped") {
                drop(inner);
                return Ok(handle);
            }
            let tid = handle.tid();
            core.pages.drop_range(&mut inner, inode, block, end, tid);
            drop(inner);
            return Ok(handle);
        }
        drop(inner);
        handle.finish()?;
    }
}
