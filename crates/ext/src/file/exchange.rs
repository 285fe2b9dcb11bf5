//! Exchanging the blocks of two files, and what is built on it: defragmentation.
//!
//! The contents of two ranges change places, and no data is copied. Each pair of extents changes
//! places in a transaction of its own, from the start of the ranges on: a crash leaves the first
//! blocks exchanged and the others not, and each block belongs to one of the files.
//!
//! To defragment a file, its blocks are allocated anew for another file, which has no name and is
//! on the orphan list. The data is copied there, past the cache, and the two exchange their blocks.
//! So the contents of the file are the same after each transaction, and after a crash the other
//! file is deleted.

use std::sync::Arc;

use jbd2::Credits;
use layout::FileBlock;
use layout::inode_flags::InodeFlags;
use rt::RwLockWriteGuard;

use crate::cache::file_pages::Which;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::{InodeState, now};
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::file::live::begin_change;
use crate::file::ranges::sync_if_synchronous;
use crate::file::tail::clear_tail;
use crate::file::truncate::finish_cut;
use crate::file::{ahead, delayed, direct, inline};
use crate::map::{Exchanged, FileMap, Mapped, Visited, no_extents};
use crate::writeback::pages::write_file;

/// Number of blocks that a handle needs besides those of the maps: two inodes.
const CREDITS_BASE: u32 = 2;
/// Number of bytes copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// The parts of two files that change places, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    /// The start of the part of each file.
    pub(crate) starts: [u64; 2],
    /// Number of bytes: whole blocks, up to the last one of each file.
    pub(crate) length: u64,
}

/// Number of extents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defragmented {
    /// Before.
    pub extents_before: u64,
    /// Now; the same if no better place was found.
    pub extents_after: u64,
}

/// The exclusive locks of two files.
struct Both<'i> {
    files: [&'i Arc<Inode>; 2],
    states: [RwLockWriteGuard<'i, InodeState>; 2],
}

impl<'i> Both<'i> {
    /// Locks two files, the one with the lower number first.
    fn lock(first: &'i Arc<Inode>, second: &'i Arc<Inode>) -> Self {
        let states = match first.nr < second.nr {
            true => {
                let one = first.state.write();
                [one, second.state.write()]
            }
            false => {
                let other = second.state.write();
                [first.state.write(), other]
            }
        };
        Self {
            files: [first, second],
            states,
        }
    }

    /// Checks that the files can exchange blocks.
    fn check(&mut self, core: &Core) -> Result<()> {
        if core.geometry().cluster_blocks() > 1 {
            return Err(Error::Unsupported(
                "blocks among clusters (bigalloc) are not exchanged".to_owned(),
            ));
        }
        for state in &mut self.states {
            begin_change(core, state)?;
            let fixed = InodeFlags::IMMUTABLE | InodeFlags::APPEND;
            if state.flags.intersects(fixed) {
                return Err(Error::NotPermitted);
            }
            if !FileMap::of(state).has_unwritten() {
                return Err(no_extents());
            }
            if state.has_buffered_blocks(core) {
                return Err(Error::Unsupported(
                    "blocks whose data is in the journal are not exchanged".to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Writes all that is dirty, and allocates what has no blocks yet.
    fn settle(&mut self, core: &Core) -> Result<()> {
        for (inode, state) in self.files.into_iter().zip(&mut self.states) {
            let _table = core.hold_table(inode.nr)?;
            finish_cut(core, inode, state)?;
            ahead::settle(inode);
            delayed::allocate(core, inode, state)?;
            // What lies behind the end of this file would lie within the other one.
            if !rt::mutant!("exchange/tail-not-cleared") {
                clear_tail(core, inode, state)?;
            }
            let written = write_file(core, inode, Which::All);
            written.map_err(|cause| Error::DataLost {
                inode: inode.nr,
                cause,
            })?;
        }
        Ok(())
    }

    /// Exchanges blocks from the first `done` on, which it raises, and drops the pages that had
    /// them. `renews` is true to note a change of the contents.
    fn exchange(
        &mut self,
        core: &Core,
        starts: [FileBlock; 2],
        (count, done): (u64, &mut u64),
        renews: bool,
    ) -> Result<()> {
        while *done < count {
            let at = starts.map(|start| start + *done);
            *done += self.exchange_first(core, at, count - *done, renews)?;
        }
        Ok(())
    }

    /// Exchanges the first blocks, in one transaction. Returns their number.
    fn exchange_first(
        &mut self,
        core: &Core,
        at: [FileBlock; 2],
        count: u64,
        renews: bool,
    ) -> Result<u64> {
        let [one, other] = self.files;
        let _tables = (core.hold_table(one.nr)?, core.hold_table(other.nr)?);
        for (inode, at) in self.files.into_iter().zip(at) {
            direct::drop_range(core, inode, at, count)?;
        }
        let mut credits = Credits {
            blocks: CREDITS_BASE,
            revokes: 0,
        };
        for state in &self.states {
            credits = credits.plus(FileMap::of(state).credits_to_swap());
        }
        let mut handle = core.begin(credits)?;
        let [first, second] = &mut self.states;
        let mut first = Exchanged {
            inode: one,
            state: first,
            at: at[0],
        };
        let mut second = Exchanged {
            inode: other,
            state: second,
            at: at[1],
        };
        let swapped = FileMap::swap(core, &mut handle, [&mut first, &mut second], count);
        for file in [first, second] {
            if renews && swapped.is_ok() {
                file.state.mtime = now();
                file.state.ctime = file.state.mtime;
            }
            if swapped.is_ok() || !file.state.is_stored() {
                file.state.store(core, &mut handle, file.inode.nr, true)?;
            }
        }
        handle.finish()?;
        swapped
    }
}

/// Exchanges the contents of parts of two files, without copying data.
pub(crate) fn exchange(
    core: &Core,
    first: &Arc<Inode>,
    second: &Arc<Inode>,
    what: Exchange,
) -> Result<()> {
    core.check_writable()?;
    if first.nr == second.nr {
        return Err(Error::Invalid("a file exchanges blocks with another one"));
    }
    let block_bytes = u64::from(core.geometry().block_bytes);
    let blocks = [what.starts[0], what.starts[1], what.length];
    if what.length == 0 || blocks.iter().any(|at| !at.is_multiple_of(block_bytes)) {
        return Err(Error::Invalid("whole blocks are exchanged, at least one"));
    }
    // A repetition for want of space goes on behind what is exchanged already.
    let mut done = 0;
    delayed::with_space(core, || {
        let mut both = Both::lock(first, second);
        both.check(core)?;
        for (state, start) in both.states.iter().zip(what.starts) {
            let size = state.size.next_multiple_of(block_bytes);
            if start.checked_add(what.length).is_none_or(|end| end > size) {
                return Err(Error::Invalid("only blocks within a file are exchanged"));
            }
        }
        both.settle(core)?;
        let starts = what.starts.map(|start| FileBlock::new(start / block_bytes));
        let count = what.length / block_bytes;
        let exchanged = both.exchange(core, starts, (count, &mut done), true);
        // Data that is written to one file from now on, in place and before a commit, must not
        // show in the other one.
        if !rt::mutant!("exchange/not-committed") {
            for state in &mut both.states {
                state.has_moved = true;
            }
        }
        exchanged
    })?;
    sync_if_synchronous(core, first)?;
    sync_if_synchronous(core, second)
}

/// Gives a file fewer extents, if the blocks of `spare`, an empty file without a name, can be
/// allocated so.
pub(crate) fn defragment(
    core: &Core,
    inode: &Arc<Inode>,
    spare: &Arc<Inode>,
) -> Result<Defragmented> {
    core.check_writable()?;
    let mut both = Both::lock(inode, spare);
    if both.states[1].is_inline() {
        inline::move_out(core, spare, &mut both.states[1])?;
    }
    both.check(core)?;
    both.settle(core)?;
    let [state, spare_state] = &mut both.states;
    let (parts, extents_before) = parts_of(core, inode, state)?;
    let same = Defragmented {
        extents_before,
        extents_after: extents_before,
    };
    if extents_before <= parts.len() as u64 {
        return Ok(same);
    }
    let size = state.size;
    for part in &parts {
        match allocate(core, spare, spare_state, *part, size) {
            Err(Error::NoSpace) => return Ok(same),
            allocated => allocated?,
        }
    }
    // The blocks of the other file are all unwritten, so that parts beside each other are one.
    let pairs = parts.windows(2);
    let joined = pairs.filter(|pair| pair[0].first + pair[0].count == pair[1].first);
    let (_, extents) = parts_of(core, spare, spare_state)?;
    if extents + joined.count() as u64 >= extents_before {
        return Ok(same);
    }
    for part in &parts {
        copy(core, [inode, spare], &mut both.states, *part)?;
    }
    for part in &parts {
        both.exchange(core, [part.first; 2], (part.count, &mut 0), false)?;
    }
    let (_, extents_after) = parts_of(core, inode, &both.states[0])?;
    Ok(Defragmented {
        extents_before,
        extents_after,
    })
}

/// Consecutive blocks of a file that are all of one kind.
#[derive(Clone, Copy)]
struct Part {
    first: FileBlock,
    count: u64,
    is_unwritten: bool,
}

/// Returns the parts of a file that have blocks, in which it could have one extent each, and the
/// number of extents that it has: those that do not continue the one before.
fn parts_of(core: &Core, inode: &Inode, state: &InodeState) -> Result<(Vec<Part>, u64)> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut extents, mut end) = (0, None);
    FileMap::of(state).walk(core, inode, state, &mut |visited, run| {
        let (first, is_unwritten) = match visited {
            Visited::Data(first) => (first, false),
            Visited::Unwritten(first) => (first, true),
            Visited::Map => return Ok(()),
        };
        let count = u64::from(run.count);
        let last = parts
            .last_mut()
            .filter(|last| last.first + last.count == first && last.is_unwritten == is_unwritten);
        let continues = last.is_some() && end == Some(run.first);
        extents += u64::from(!continues);
        end = Some(run.end());
        match last {
            Some(last) => last.count += count,
            None => parts.push(Part {
                first,
                count,
                is_unwritten,
            }),
        }
        Ok(())
    })?;
    Ok((parts, extents))
}

/// Allocates unwritten blocks for a part of a file.
fn allocate(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    part: Part,
    size: u64,
) -> Result<()> {
    let _table = core.hold_table(inode.nr)?;
    let mut done = 0;
    while done < part.count {
        let map = FileMap::of(state);
        let mut handle = core.begin(Credits {
            blocks: map.credits_to_map() + CREDITS_BASE,
            revokes: 0,
        })?;
        let from = part.first + done;
        let wanted = u32::try_from(part.count - done).unwrap_or(u32::MAX);
        let allocated = map.allocate_unwritten(core, &mut handle, inode, state, from, wanted);
        if allocated.is_ok() {
            state.size = size;
            state.store(core, &mut handle, inode.nr, true)?;
        }
        handle.finish()?;
        done += u64::from(allocated?);
    }
    Ok(())
}

/// Copies the data of a part to the blocks of the spare file, past the cache, and then makes them
/// written.
fn copy(
    core: &Core,
    [inode, spare]: [&Arc<Inode>; 2],
    [state, spare_state]: &mut [RwLockWriteGuard<'_, InodeState>; 2],
    part: Part,
) -> Result<()> {
    if part.is_unwritten {
        return Ok(());
    }
    let most = (PIECE_BYTES / u64::from(core.geometry().block_bytes)) as u32;
    let mut done = 0;
    while done < part.count {
        let from = part.first + done;
        let count = (part.count - done).min(most.into()) as u32;
        let source = run_at(core, inode, state, from, count)?;
        let target = run_at(core, spare, spare_state, from, source.count)?;
        copy_run(core, spare, source, target)?;
        done += u64::from(target.count);
    }
    let _table = core.hold_table(spare.nr)?;
    let mut done = 0;
    while done < part.count {
        let map = FileMap::of(spare_state);
        let mut handle = core.begin(Credits {
            blocks: map.credits_to_map() + CREDITS_BASE,
            revokes: 0,
        })?;
        let (from, left) = (part.first + done, part.count - done);
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let found = map.find_or_allocate(core, &mut handle, spare, spare_state, from, left);
        if found.is_ok() {
            spare_state.store(core, &mut handle, spare.nr, true)?;
        }
        handle.finish()?;
        done += u64::from(found?.0.count);
    }
    Ok(())
}

/// Returns the blocks that a file has from a block on.
fn run_at(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    from: FileBlock,
    count: u32,
) -> Result<Run> {
    match FileMap::of(state).find(core, inode, state, from, count)? {
        Mapped::Run(run) | Mapped::Unwritten(run) => Ok(run),
        Mapped::Hole(_) => Err(Error::Invalid("the file has no blocks there")),
    }
}

/// Copies blocks to blocks of the spare file: as many as the second extent has.
fn copy_run(core: &Core, spare: &Inode, source: Run, target: Run) -> Result<()> {
    let geometry = core.geometry();
    let from = geometry.byte_offset(source.first);
    let payload = core
        .device
        .read_blocks(from, target.count, geometry.block_bytes)?;
    let to = geometry.byte_offset(target.first);
    core.device.write_blocks(to, payload)?;
    spare.pages.lock().note_written(&core.pages.flushes);
    Ok(())
}
