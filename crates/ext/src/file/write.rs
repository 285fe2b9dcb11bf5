//! Writing: through the page cache, or past it.

use core::ops::Range;
use std::sync::Arc;

use layout::inode_flags::InodeFlags;

use super::buffered::buffered;
use super::live::begin_change;
use super::{ahead, delayed, direct, inline};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::error::{Error, Result};
use crate::map::FileMap;
use crate::writeback::memory;

/// The options of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WriteOptions {
    /// True to write at the end, whatever the offset is.
    pub(crate) append: bool,
    /// True if an append-only file is written at its end or beyond, or not at all.
    pub(crate) bounded: bool,
    /// True for O_SYNC: durable with all metadata when the call returns.
    pub(crate) sync: bool,
    /// True for O_DSYNC: durable with all metadata needed to read it back.
    pub(crate) data_sync: bool,
    /// True for O_DIRECT.
    pub(crate) direct: bool,
}

/// Writes at an offset. Returns the number of bytes (fewer if space runs out during the write).
pub(crate) fn write(
    core: &Core,
    inode: &Arc<Inode>,
    offset: u64,
    from: &[u8],
    options: WriteOptions,
) -> Result<usize> {
    let written = write_range(core, inode, offset, from, options)?;
    Ok((written.end - written.start) as usize)
}

/// Like [`write`]; returns the range written.
pub(crate) fn write_range(
    core: &Core,
    inode: &Arc<Inode>,
    offset: u64,
    from: &[u8],
    options: WriteOptions,
) -> Result<Range<u64>> {
    if from.is_empty() {
        return Ok(offset..offset);
    }
    core.check_writable()?;
    memory::admit(core)?;
    delayed::admit(core)?;
    let (range, is_synchronous) = match overwritten(core, inode, offset, from, options)? {
        Some(done) => done,
        None => delayed::with_space(core, || write_locked(core, inode, offset, from, options))?,
    };
    let written = (range.end - range.start) as usize;
    memory::throttle(core, written.div_ceil(core.block_bytes()));
    if options.sync || is_synchronous {
        delayed::sync(core, inode, false)?;
    } else if options.data_sync {
        delayed::sync(core, inode, true)?;
    }
    Ok(range)
}

/// Overwrites blocks of the file directly, beside other direct writes. Returns what
/// [`write_locked`] returns; none if the write needs the inode lock exclusively.
fn overwritten(
    core: &Core,
    inode: &Arc<Inode>,
    offset: u64,
    from: &[u8],
    options: WriteOptions,
) -> Result<Option<(Range<u64>, bool)>> {
    if !options.direct || options.append || !direct::overwrite(core, inode, offset, from)? {
        return Ok(None);
    }
    let range = offset..offset + from.len() as u64;
    let is_synchronous = core.options.sync || inode.state.read().flags.contains(InodeFlags::SYNC);
    Ok(Some((range, is_synchronous)))
}

/// Writes under the inode lock. Returns the range written, and true if the file is synchronous.
fn write_locked(
    core: &Core,
    inode: &Arc<Inode>,
    offset: u64,
    from: &[u8],
    options: WriteOptions,
) -> Result<(Range<u64>, bool)> {
    let mut state = inode.state.write();
    begin_change(core, &mut state)?;
    let offset = if options.append { state.size } else { offset };
    let is_append_only = state.flags.contains(InodeFlags::APPEND);
    if options.bounded && is_append_only && offset < state.size {
        return Err(Error::NotPermitted);
    }
    let from = clip(core, &state, offset, from)?;
    ahead::settle(inode);
    let range = offset..offset + from.len() as u64;
    let is_synchronous = core.options.sync || state.flags.contains(InodeFlags::SYNC);
    if state.is_inline() {
        if inline::write(core, inode, &mut state, offset, from)? {
            inode.note_written(range.end);
            return Ok((range, is_synchronous));
        }
        inline::move_out(core, inode, &mut state)?;
    }
    let is_direct = options.direct && direct::is_possible(core, &state, offset, from);
    let written = if is_direct {
        direct::write(core, inode, &mut state, offset, from)?
    } else {
        buffered(core, inode, &mut state, offset, from)?
    };
    let range = offset..offset + written as u64;
    inode.note_written(range.end);
    Ok((range, is_synchronous))
}

/// Returns the part of a write below the largest size.
fn clip<'f>(core: &Core, state: &InodeState, offset: u64, from: &'f [u8]) -> Result<&'f [u8]> {
    let limit = FileMap::of(state).size_max(core);
    if offset >= limit {
        return Err(Error::FileTooLarge);
    }
    let room = usize::try_from(limit - offset).unwrap_or(usize::MAX);
    Ok(&from[..from.len().min(room)])
}
