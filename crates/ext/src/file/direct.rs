//! Direct writes: past the page cache.
//!
//! Only overwrites of mapped blocks inside the file go straight to the device: after a crash the
//! block map cannot be ahead of the data. Writes that need blocks or extend the file go through the
//! cache, are written back at once and dropped from it. Journaled files and unaligned writes use
//! the cache as usual.
//!
//! The cache stays coherent: dirty pages in the range are written and waited for first, and the
//! range is dropped.
//!
//! Overwrites by several threads run side by side under the shared inode lock, as long as they meet
//! neither each other nor a read of the device ([`cache::file_pages`](crate::cache::file_pages)).
//! All others take the lock exclusively.

use std::sync::Arc;

use block::Request;
use layout::inode_flags::InodeFlags;
use layout::time::InodeTime;
use layout::{Block, FileBlock, SectorNr};

use crate::cache::file_pages::Which;
use crate::cache::inode::Inode;
use crate::cache::read_ahead::Span;
use crate::core::Core;
use crate::disk::inode::{InodeState, now};
use crate::error::{Error, Result};
use crate::file::buffered::buffered;
use crate::file::delayed;
use crate::file::live::check_changeable;
use crate::file::spans::map_spans;
use crate::file::touch::touch;
use crate::writeback::pages::{wait_written, write_file};

/// Number of bytes written at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Age of a file's times up to which a direct write leaves them if they have not been read.
const TICK_NANOS: i128 = 4_000_000;

/// Returns true if a write can be direct at all.
pub(super) fn is_possible(core: &Core, state: &InodeState, offset: u64, from: &[u8]) -> bool {
    let bytes = core.block_bytes();
    !state.is_journaled(core)
        && offset.is_multiple_of(bytes as u64)
        && from.len().is_multiple_of(bytes)
}

/// Overwrites whole blocks of the file under the shared inode lock. Returns false, and has written
/// nothing, if that needs the exclusive lock.
pub(super) fn overwrite(core: &Core, inode: &Arc<Inode>, offset: u64, from: &[u8]) -> Result<bool> {
    let state = inode.state.read();
    check_changeable(&state)?;
    core.check_writable()?;
    let end = offset.checked_add(from.len() as u64);
    let ends_within = end.is_some_and(|end| end <= state.size);
    let is_plain = !state.has_moved && !state.is_inline() && !is_append_only(&state);
    if !ends_within || !is_plain || from.len() > PIECE_BYTES {
        return Ok(false);
    }
    if !is_possible(core, &state, offset, from) {
        return Ok(false);
    }
    let bytes = core.block_bytes();
    let first = FileBlock::new(offset / bytes as u64);
    let count = (from.len() / bytes) as u64;
    let spans = map_spans(core, inode, &state, first, count)?;
    if mapped_by(&spans) < count {
        return Ok(false);
    }
    let counts = &core.pages.counts;
    let written = inode.pages.write_directly(counts, first, count, || {
        rt::charge(rt::Cost::Copy(from.len() as u64));
        submit(core, inode, &spans, from)
    });
    match written {
        Some(written) => written?,
        None => return Ok(false),
    }
    inode.note_written(offset + from.len() as u64);
    if is_current(inode, &state) {
        return Ok(true);
    }
    drop(state);
    let mut state = inode.state.write();
    if state.check_exists().is_ok() {
        touch(core, inode, &mut state)?;
        inode.note_times_changed();
    }
    Ok(true)
}

/// Returns true if the times of a file may stay after a direct write. To change them takes the
/// exclusive lock, for which all other writers would have to end. As in Linux, they change once in
/// [`TICK_NANOS`], and whenever they have been read.
fn is_current(inode: &Inode, state: &InodeState) -> bool {
    let (present, last) = (now(), state.mtime);
    let nanos = |time: InodeTime| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let age = nanos(present) - nanos(last);
    inode.are_times_unseen() && state.ctime == last && (0..TICK_NANOS).contains(&age)
}

fn is_append_only(state: &InodeState) -> bool {
    state.flags.contains(InodeFlags::APPEND)
}

fn mapped_by(spans: &[Span]) -> u64 {
    spans.iter().map(|span| u64::from(span.run.count)).sum()
}

/// Writes whole blocks. The caller holds the inode lock exclusively.
pub(super) fn write(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    offset: u64,
    from: &[u8],
) -> Result<usize> {
    delayed::allocate(core, inode, state)?;
    let mut done = 0;
    for piece in from.chunks(PIECE_BYTES) {
        let written = match write_piece(core, inode, state, offset + done as u64, piece) {
            Ok(written) => written,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        };
        done += written;
        if written < piece.len() {
            break;
        }
    }
    Ok(done)
}

fn write_piece(
    core: &Core,
    inode: &Arc<Inode>,
    state: &mut InodeState,
    offset: u64,
    from: &[u8],
) -> Result<usize> {
    let bytes = core.block_bytes();
    let first = FileBlock::new(offset / bytes as u64);
    let count = (from.len() / bytes) as u64;
    let spans = map_spans(core, inode, state, first, count)?;
    if mapped_by(&spans) < count || offset + from.len() as u64 > state.size {
        let written = buffered(core, inode, state, offset, from)?;
        if let Err(error) = delayed::allocate(core, inode, state) {
            // The data is in the cache, and a sync call reports what becomes of it.
            tracing::warn!(inode = %inode.nr, %error, "a direct write is left in the cache");
            return Ok(written);
        }
        drop_range(core, inode, first, count)?;
        return Ok(written);
    }
    drop_range(core, inode, first, count)?;
    rt::charge(rt::Cost::Copy(from.len() as u64));
    submit(core, inode, &spans, from)?;
    touch(core, inode, state)?;
    Ok(from.len())
}

/// Writes the dirty pages in a range of blocks and drops the range from the cache.
pub(super) fn drop_range(
    core: &Core,
    inode: &Arc<Inode>,
    first: FileBlock,
    count: u64,
) -> Result<()> {
    let last = first + (count - 1);
    write_file(core, inode, Which::Range(first, last)).map_err(|cause| Error::DataLost {
        inode: inode.nr,
        cause,
    })?;
    loop {
        wait_written(core, inode);
        let mut inner = inode.pages.lock();
        if !inner.is_busy(first) {
            let end = Some(first + count);
            core.drop_pages(&mut inner, inode, first, end, None);
            return Ok(());
        }
    }
}

/// Writes spans and waits.
fn submit(core: &Core, inode: &Arc<Inode>, spans: &[Span], from: &[u8]) -> Result<()> {
    let mut blocks = from.chunks_exact(core.block_bytes());
    let batch = spans.iter().map(|span| {
        rt::charge(rt::Cost::Request);
        let part = blocks.by_ref().take(span.run.count as usize);
        let payload = part
            .map(|bytes| Block::copy_from(bytes).into_arc())
            .collect();
        let sector = SectorNr::from_byte_offset(core.geometry().byte_offset(span.run.first));
        Request::Write {
            sector,
            payload,
            force_unit_access: false,
        }
    });
    let batch = batch.collect();
    let written = core.device.request(batch).wait_all();
    inode.pages.lock().note_written(&core.pages.flushes);
    Ok(written?)
}
