//! Collapsing and inserting ranges: blocks behind a range move within the file, and no data is
//! copied.
//!
//! A handle that has the credits for all of it does all of it, so that a crash leaves the file as
//! it was or as it becomes. The map of a fragmented file may have more nodes than one transaction
//! takes. Then a crash leaves one of these, each of which is a sound file:
//!
//! | operation | step | after a crash |
//! |---|---|---|
//! | collapse | frees the range, from its start on | the start of the range reads as zeroes |
//! | collapse | moves the rest, from the first leaf on | a hole lies behind what has moved |
//! | collapse | sets the size, with the last leaf | it is complete |
//! | insert | sets the size | the file is longer, and ends with zeroes |
//! | insert | moves the rest, from the last leaf on | a hole lies before what has moved |
//!
//! The pages from the range on are written and dropped before, so that none of them has a block
//! that another page of the file gets.

use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::FileBlock;
use layout::time::InodeTime;

use super::ByteRange;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::extents::FILE_BLOCKS;
use crate::disk::inode::{InodeState, now};
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::file::large_file::{hold_for_large_file, note_large_file};
use crate::file::live::begin_change;
use crate::file::tail::clear_tail;
use crate::file::truncate::finish_cut;
use crate::file::{ahead, delayed, direct, inline};
use crate::map::{FileMap, Mapped, Shift, no_extents};

/// Number of blocks freed at a time, if each may need a revoke.
const FREED_MAX: u32 = 64;
/// Number of blocks that a handle needs besides those of the map: the inode, and the superblock.
const CREDITS_BASE: u32 = 2;

/// Removes a range of whole blocks, so that what lies behind it moves to its start.
pub(super) fn collapse(core: &Core, inode: &Arc<Inode>, range: ByteRange) -> Result<()> {
    let state = &mut *inode.state.write();
    let blocks = check(core, state, range)?;
    if range.end >= state.size {
        return Err(Error::Invalid(
            "a range to be collapsed ends before the end of the file",
        ));
    }
    if state.is_inline() {
        inline::move_out(core, inode, state)?;
    }
    let first = FileBlock::new(blocks.start);
    let _table = settle(core, inode, state, first)?;
    let shift = Shift {
        from: FileBlock::new(blocks.end),
        to: first,
    };
    let freed = freed_in(core, inode, state, &blocks)?;
    let mut mover = Mover::begin(core, inode, state, freed)?;
    let done = mover.free(&blocks).and_then(|()| mover.shift(shift));
    if done.is_ok() {
        mover.state.size -= range.end - range.start;
    }
    mover.finish(done)
}

/// Inserts a hole of whole blocks, so that what lies behind its start moves to its end.
pub(super) fn insert(core: &Core, inode: &Arc<Inode>, range: ByteRange) -> Result<()> {
    let state = &mut *inode.state.write();
    let blocks = check(core, state, range)?;
    let size = state.size.checked_add(range.end - range.start);
    let size_max = match state.is_inline() {
        true => FileMap::Extents { depth: 0 }.size_max(core),
        false => FileMap::of(state).size_max(core),
    };
    let size = size.filter(|size| *size <= size_max);
    let size = size.ok_or(Error::FileTooLarge)?;
    if range.start >= state.size {
        return Err(Error::Invalid(
            "a range to be inserted starts before the end of the file",
        ));
    }
    if state.is_inline() {
        inline::move_out(core, inode, state)?;
    }
    let first = FileBlock::new(blocks.start);
    let _table = settle(core, inode, state, first)?;
    let last = FILE_BLOCKS - (blocks.end - blocks.start);
    if FileMap::of(state).has_blocks_from(core, inode, state, FileBlock::new(last))? {
        return Err(Error::Invalid(
            "blocks beyond the end of the file would move beyond the largest file",
        ));
    }
    let _superblock = hold_for_large_file(core, size)?;
    let shift = Shift {
        from: first,
        to: FileBlock::new(blocks.end),
    };
    let mut mover = Mover::begin(core, inode, state, Credits::default())?;
    let mut done = mover.cut(first);
    if done.is_ok() {
        mover.state.size = size;
        note_large_file(core, &mut mover.handle, size)?;
        done = mover.shift(shift);
    }
    mover.finish(done)
}

/// Checks a range of a file, and returns its blocks.
fn check(core: &Core, state: &mut InodeState, range: ByteRange) -> Result<core::ops::Range<u64>> {
    begin_change(core, state)?;
    let can_have_extents = state.is_inline() && core.superblock.has_extents();
    if !can_have_extents && !FileMap::of(state).has_unwritten() {
        return Err(no_extents());
    }
    let block_bytes = u64::from(core.geometry().block_bytes);
    // Blocks keep their places within their clusters.
    let unit = block_bytes * u64::from(core.geometry().cluster_blocks());
    let is_whole = |at: u64| at.is_multiple_of(unit);
    if !is_whole(range.start) || !is_whole(range.end) {
        return Err(Error::Invalid(
            "a range that moves others has whole blocks, or clusters",
        ));
    }
    Ok(range.start / block_bytes..range.end / block_bytes)
}

/// Brings a file into a state in which its blocks can move: all have been allocated, and no page
/// from a block on is in memory. The caller holds the result until the end.
fn settle(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    first: FileBlock,
) -> Result<Arc<Buffer>> {
    let table = core.hold_table(inode.nr)?;
    finish_cut(core, inode, state)?;
    ahead::settle(inode);
    delayed::allocate(core, inode, state)?;
    // Between two steps the last block may lie within the file.
    clear_tail(core, inode, state)?;
    if !rt::mutant!("ranges/pages-not-dropped-before-move") {
        direct::drop_range(core, inode, first, FILE_BLOCKS - first.get())?;
    }
    core.discard_window(&inode.window);
    Ok(table)
}

/// Returns the number of blocks to free at a time.
fn freed_max(core: &Core, state: &InodeState) -> u32 {
    match state.has_buffered_blocks(core) {
        true => FREED_MAX,
        // So they lie in two groups at most.
        false => core.geometry().blocks_per_group,
    }
}

/// Returns the credits for freeing an extent.
fn credits_to_free(core: &Core, state: &InodeState, run: Run) -> Credits {
    // Data that was never journaled needs no revoke.
    let revoked = match state.has_buffered_blocks(core) {
        true => run.count,
        false => 0,
    };
    FileMap::of(state).credits_to_unmap(revoked)
}

/// Returns the credits for freeing a range.
fn freed_in(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    blocks: &core::ops::Range<u64>,
) -> Result<Credits> {
    let map = FileMap::of(state);
    let mut credits = Credits::default();
    let mut at = blocks.start;
    while at < blocks.end {
        let most = (blocks.end - at).min(freed_max(core, state).into());
        let count = match map.find(core, inode, state, FileBlock::new(at), most as u32)? {
            Mapped::Run(run) | Mapped::Unwritten(run) => {
                credits = credits.plus(credits_to_free(core, state, run));
                run.count.into()
            }
            Mapped::Hole(count) => count,
        };
        at += count;
    }
    Ok(credits)
}

/// A file whose blocks move, with the handle of the current step.
struct Mover<'c, 's> {
    core: &'c Core,
    inode: &'s Arc<Inode>,
    state: &'s mut InodeState,
    handle: Handle<'c>,
    /// The size and the times before the first change.
    stored: Stored,
    /// A transaction has some of the changes already.
    has_parts: bool,
}

/// Fields of the inode table.
#[derive(Clone, Copy)]
struct Stored {
    size: u64,
    mtime: InodeTime,
    ctime: InodeTime,
}

impl<'c, 's> Mover<'c, 's> {
    /// Starts with the credits for everything, if a handle may have as many, and otherwise with
    /// those for one step.
    fn begin(
        core: &'c Core,
        inode: &'s Arc<Inode>,
        state: &'s mut InodeState,
        freed: Credits,
    ) -> Result<Self> {
        let map = FileMap::of(state);
        // Every node that is there changes at most, and some are new.
        let nodes = map.node_count(core, inode, state)?;
        let step = map.credits_to_shift();
        let all = Credits {
            blocks: u32::try_from(nodes).unwrap_or(u32::MAX / 2),
            revokes: 0,
        };
        let first = Credits {
            blocks: map.credits_to_map() + CREDITS_BASE,
            revokes: 0,
        };
        let first = first.plus(step);
        let all = all.plus(first).plus(freed);
        let most = core.max_credits().unwrap_or(u32::MAX);
        let fits = all.blocks <= most && all.revokes <= most && !core.tuning.forces_restarts;
        let handle = core.begin(if fits { all } else { first })?;
        let stored = Stored {
            size: state.size,
            mtime: state.mtime,
            ctime: state.ctime,
        };
        state.mtime = now();
        state.ctime = state.mtime;
        Ok(Self {
            core,
            inode,
            handle,
            stored,
            has_parts: false,
            state,
        })
    }

    /// Makes sure that the handle has the credits for a step, in another transaction if need be.
    fn make_room(&mut self, needed: Credits) -> Result<()> {
        let needed = needed.plus(Credits {
            blocks: CREDITS_BASE,
            revokes: 0,
        });
        let has_blocks = self.handle.credits_left() >= needed.blocks;
        let has_revokes = self.handle.revokes_left() >= needed.revokes;
        // Tests force every possible restart.
        let has_all = has_blocks && has_revokes && !self.core.tuning.forces_restarts;
        if has_all || self.handle.extend(needed)? {
            return Ok(());
        }
        self.state
            .store(self.core, &mut self.handle, self.inode.nr, true)?;
        self.has_parts = true;
        self.note_move();
        self.handle.restart(needed)
    }

    /// Notes the transaction that has moved blocks: data that is written from now on, in place and
    /// before it is durable, must not show where its blocks were.
    fn note_move(&mut self) {
        if !rt::mutant!("ranges/move-not-committed") {
            self.state.has_moved = true;
        }
    }

    fn cut(&mut self, block: FileBlock) -> Result<()> {
        let map = FileMap::of(self.state);
        map.cut(self.core, &mut self.handle, self.inode, self.state, block)
    }

    /// Frees the blocks of a range, in ascending order.
    fn free(&mut self, blocks: &core::ops::Range<u64>) -> Result<()> {
        let (core, inode) = (self.core, self.inode);
        let mut at = blocks.start;
        while at < blocks.end {
            let from = FileBlock::new(at);
            let most = (blocks.end - at).min(freed_max(core, self.state).into());
            let map = FileMap::of(self.state);
            let run = match map.find(core, inode, self.state, from, most as u32)? {
                Mapped::Run(run) | Mapped::Unwritten(run) => run,
                Mapped::Hole(count) => {
                    at += count;
                    continue;
                }
            };
            self.make_room(credits_to_free(core, self.state, run))?;
            self.unmap(from, run)?;
            at += u64::from(run.count);
        }
        Ok(())
    }

    fn unmap(&mut self, from: FileBlock, run: Run) -> Result<()> {
        let Self {
            core,
            inode,
            state,
            handle,
            ..
        } = self;
        let map = FileMap::of(state);
        let _held = map.hold_for_unmap(core, inode, state, from, run)?;
        let spare = map.prepare_unmap(core, handle, inode, state, from, run)?;
        map.unmap(core, handle, inode, state, spare)
    }

    fn shift(&mut self, shift: Shift) -> Result<()> {
        let mut at = Some(shift.first_step());
        while let Some(place) = at {
            let map = FileMap::of(self.state);
            self.make_room(map.credits_to_shift())?;
            if rt::mutant!("ranges/moved-in-two-steps") {
                self.tear()?;
            }
            at = map.shift_step(
                self.core,
                &mut self.handle,
                self.inode,
                self.state,
                shift,
                place,
            )?;
        }
        Ok(())
    }

    /// Separates the changes before a move from the move, for a mutant.
    fn tear(&mut self) -> Result<()> {
        let credits = FileMap::DEEPEST.credits_to_shift();
        self.state
            .store(self.core, &mut self.handle, self.inode.nr, true)?;
        self.handle.tear(credits.plus(Credits {
            blocks: CREDITS_BASE,
            revokes: 0,
        }))
    }

    /// Stores the inode. After an error it stores what has been done.
    fn finish(mut self, done: Result<()>) -> Result<()> {
        let is_size_stored = self.state.size == self.stored.size;
        let is_whole = self.state.is_stored() && is_size_stored && !self.has_parts;
        let is_unchanged = done.is_err() && is_whole;
        if is_unchanged {
            self.state.mtime = self.stored.mtime;
            self.state.ctime = self.stored.ctime;
        } else {
            self.state
                .store(self.core, &mut self.handle, self.inode.nr, true)?;
        }
        if !is_unchanged {
            self.note_move();
        }
        self.handle.finish()?;
        done
    }
}
