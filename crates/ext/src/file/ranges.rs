//! Allocating, punching, zeroing, collapsing and inserting ranges of a file: fallocate.
//!
//! | operation | in a hole | on blocks | beyond the end |
//! |---|---|---|---|
//! | allocate | blocks with zeroes | nothing | as in a hole; see below |
//! | zero | blocks with zeroes | zeroes | the same |
//! | punch | nothing | freed; parts of blocks become zeroes | nothing |
//! | collapse | whole blocks go, and those behind move to their place | the same | refused |
//! | insert | a hole comes, and what lies behind its start moves to its end | the same | refused |
//!
//! Allocating beyond the end grows the file, unless the size is kept.
//!
//! A file with extents gets unwritten ones (`preallocate`). A map of indirect blocks has none, so
//! that allocating writes zeroes. Nor may it have blocks beyond the end of the file, which e2fsck
//! reports as damage: with the size kept, that is refused.
//!
//! To punch a hole into an extent may need a node of the tree. If the volume has no block for it,
//! the blocks stay and get zeroes.

mod preallocate;
mod punch;
mod room;
mod shift;

use std::sync::Arc;

use layout::FileBlock;
use layout::inode_flags::InodeFlags;
use rt::atomic::Ordering;

use super::truncate::{cut_to_written, finish_cut, grow};
use super::{ahead, delayed, inline};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::file::buffered::buffered;
use crate::file::live::{begin_change, check_changeable};
use crate::file::touch::touch;
use crate::map::{FileMap, Mapped};
use crate::writeback::memory;

/// Number of bytes changed under one hold of the inode lock.
const STEP_BYTES: u64 = 1 << 20;

/// A change of a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeChange {
    /// Allocates blocks; existing ones stay.
    Allocate,
    /// Frees the blocks of the range, which then reads as zeroes.
    PunchHole,
    /// Allocates blocks for the range, which then reads as zeroes.
    Zero,
    /// Removes the range, which has whole blocks and ends before the end of the file: what lies
    /// behind it moves to its start.
    Collapse,
    /// Inserts a hole of whole blocks before the end of the file: what lies behind the start moves
    /// to the end of the range.
    Insert,
}

impl RangeChange {
    /// Returns true if blocks move, so that the range alone determines the size.
    pub fn moves_blocks(self) -> bool {
        matches!(self, Self::Collapse | Self::Insert)
    }
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
/// changed. An allocation for which there are too few blocks is refused before it takes any.
pub(crate) fn change_range(
    core: &Core,
    inode: &Arc<Inode>,
    range: ByteRange,
    what: RangeChange,
    keeps_size: bool,
) -> Result<()> {
    core.check_writable()?;
    check(core, &inode.state.read(), range, what)?;
    if what.moves_blocks() {
        delayed::with_space(core, || match what {
            RangeChange::Collapse => shift::collapse(core, inode, range),
            _ => shift::insert(core, inode, range),
        })?;
        return sync_if_synchronous(core, inode);
    }
    let is_done = delayed::with_space(core, || change_within_inode(core, inode, range, what))?;
    let (size, has_unwritten) = {
        let state = inode.state.read();
        (state.size, FileMap::of(&state).has_unwritten())
    };
    if is_done {
        // The inode has it all.
    } else if what == RangeChange::PunchHole {
        punch::punch(core, inode, range)?;
    } else if !has_unwritten && keeps_size && range.end > size {
        return Err(no_blocks_behind());
    } else {
        if !room::check(core, inode, range)? {
            core.wait_for_freed()?;
        }
        match has_unwritten {
            true => preallocate::change(core, inode, range, what, keeps_size)?,
            false => fill(core, inode, range, what, keeps_size)?,
        }
    }
    sync_if_synchronous(core, inode)
}

/// Changes a range, which may lie beyond the end of the file. After an error the file has the size
/// it had, or ends with what was written meanwhile.
///
/// The calls for one inode do not overlap, neither with each other nor with others that set its
/// size.
pub(crate) fn change_range_or_cut(
    core: &Core,
    inode: &Arc<Inode>,
    range: ByteRange,
    what: RangeChange,
) -> Result<()> {
    {
        let state = inode.state.write();
        inode.written_end.store(state.size, Ordering::Relaxed);
    }
    let changed = change_range(core, inode, range, what, false);
    if changed.is_err()
        && let Err(error) = cut_to_written(core, inode)
    {
        tracing::warn!(inode = %inode.nr, %error, "a failed allocation has left a larger file");
    }
    changed
}

/// Makes a file durable if its changes are to be so when a call returns.
pub(super) fn sync_if_synchronous(core: &Core, inode: &Arc<Inode>) -> Result<()> {
    let state = inode.state.read();
    let is_synchronous = core.options.sync || state.flags.contains(InodeFlags::SYNC);
    drop(state);
    if is_synchronous {
        delayed::sync(core, inode, false)?;
    }
    Ok(())
}

/// Punches a hole or writes zeroes, if the file is within its inode and the range within the file.
/// Returns true if that is done; otherwise the file has a block map.
fn change_within_inode(
    core: &Core,
    inode: &Arc<Inode>,
    range: ByteRange,
    what: RangeChange,
) -> Result<bool> {
    if !inode.state.read().is_inline() {
        return Ok(false);
    }
    let mut state = inode.state.write();
    begin_change(core, &mut state)?;
    if !state.is_inline() {
        return Ok(false);
    }
    let end = range.end.min(state.size);
    let is_within = match what {
        RangeChange::PunchHole => true,
        RangeChange::Zero => range.end == end,
        RangeChange::Allocate | RangeChange::Collapse | RangeChange::Insert => false,
    };
    if is_within {
        let is_behind = range.start >= end;
        if is_behind || inline::zero(core, inode, &mut state, range.start..end)? {
            return Ok(true);
        }
    }
    inline::move_out(core, inode, &mut state)?;
    Ok(false)
}

fn check(core: &Core, state: &InodeState, range: ByteRange, what: RangeChange) -> Result<()> {
    check_changeable(state)?;
    let only_grows = state.flags.contains(InodeFlags::APPEND) && what != RangeChange::Allocate;
    if only_grows || state.flags.contains(InodeFlags::IMMUTABLE) {
        return Err(Error::NotPermitted);
    }
    if range.is_empty() {
        return Err(Error::Invalid("a range has a length"));
    }
    let is_bounded = what != RangeChange::PunchHole;
    if is_bounded && range.end > FileMap::of(state).size_max(core) {
        return Err(Error::FileTooLarge);
    }
    Ok(())
}

/// Returns the error for blocks behind the end of a file whose map cannot have them.
fn no_blocks_behind() -> Error {
    Error::Unsupported("ext3 has no blocks behind the end of a file".to_owned())
}

/// Writes zeroes to the whole range, or only to its holes. Takes the inode lock for one step at a
/// time: between two steps the file may be truncated, read ahead, or get extents.
fn fill(
    core: &Core,
    inode: &Arc<Inode>,
    range: ByteRange,
    what: RangeChange,
    keeps_size: bool,
) -> Result<()> {
    let zeroes = vec![0; STEP_BYTES as usize];
    let mut at = range.start;
    while at < range.end {
        memory::admit(core)?;
        let written = {
            let mut state = inode.state.write();
            begin_change(core, &mut state)?;
            if FileMap::of(&state).has_unwritten() {
                // Data in its holes may have no blocks yet.
                drop(state);
                let rest = ByteRange { start: at, ..range };
                return preallocate::change(core, inode, rest, what, keeps_size);
            }
            ahead::settle(inode);
            let end = range.end.min(at + STEP_BYTES);
            if keeps_size && end > state.size {
                return Err(no_blocks_behind());
            }
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
        Mapped::Unwritten(run) => (u64::from(run.count), true),
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

/// Zeroes a part of one block, unless it is a hole. Of a block that reads as zeroes already, only
/// the file's times change.
fn zero_part(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    range: ByteRange,
) -> Result<()> {
    let is_left = rt::mutant!("ranges/part-of-block-not-zeroed");
    if is_left || range.is_empty() {
        return Ok(());
    }
    let block = FileBlock::new(range.start / u64::from(core.geometry().block_bytes));
    match FileMap::of(state).find(core, inode, state, block, 1)? {
        Mapped::Hole(_) => Ok(()),
        Mapped::Unwritten(_) => touch(core, inode, state),
        Mapped::Run(_) => {
            let zeroes = vec![0; (range.end - range.start) as usize];
            buffered(core, inode, state, range.start, &zeroes).map(drop)
        }
    }
}

/// Writes zeroes to blocks of the file that are mapped, as far as the file reaches.
fn zero_blocks(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    block: FileBlock,
    run: Run,
) -> Result<()> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let end = (block + u64::from(run.count)).get() * block_bytes;
    let end = end.min(state.size);
    zero_bytes(core, inode, state, block.get() * block_bytes, end)
}

/// Writes zeroes.
fn zero_bytes(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    start: u64,
    end: u64,
) -> Result<()> {
    let mut at = start;
    let zeroes = vec![0; STEP_BYTES as usize];
    while at < end {
        let count = STEP_BYTES.min(end - at) as usize;
        at += buffered(core, inode, state, at, &zeroes[..count])? as u64;
    }
    Ok(())
}
