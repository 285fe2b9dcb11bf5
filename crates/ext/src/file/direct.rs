//! Direct writes: past the page cache.
//!
//! Only overwrites of mapped blocks inside the file go straight to the device: after a crash the
//! block map cannot be ahead of the data. Writes that need blocks or extend the file go through the
//! cache, are written back at once and dropped from it. Journaled files and unaligned writes use
//! the cache as usual.
//!
//! The cache stays coherent: dirty pages in the range are written and waited for first, and the
//! range is dropped.

use std::sync::Arc;

use block::Request;
use layout::{Block, FileBlock, SectorNr};

use crate::cache::file_pages::Which;
use crate::cache::inode::Inode;
use crate::cache::read_ahead::Span;
use crate::core::Core;
use crate::disk::inode::InodeState;
use crate::error::{Error, Result};
use crate::file::buffered::buffered;
use crate::file::delayed;
use crate::file::spans::map_spans;
use crate::file::touch::touch;
use crate::writeback::pages::{wait_written, write_file};

/// Number of bytes written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Returns true if a write can be direct at all.
pub(super) fn is_possible(core: &Core, state: &InodeState, offset: u64, from: &[u8]) -> bool {
    let bytes = core.block_bytes();
    !state.is_journaled(core)
        && offset.is_multiple_of(bytes as u64)
        && from.len().is_multiple_of(bytes)
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
    let mapped: u64 = spans.iter().map(|span| u64::from(span.run.count)).sum();
    if mapped < count || offset + from.len() as u64 > state.size {
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
    overwrite(core, inode, &spans, from)?;
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

fn overwrite(core: &Core, inode: &Arc<Inode>, spans: &[Span], from: &[u8]) -> Result<()> {
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
