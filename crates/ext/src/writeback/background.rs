//! Writeback that waits for no write (`writers=submit`), as in a kernel of 2002: by a daemon above
//! the background limit, and by writers above the dirty limit.
//!
//! | thread | time | writes |
//! |---|---|---|
//! | the flusher (`bdflush`) | woken above the start | 500 blocks at a time, until the stop |
//! | a writer | each new dirty page above the limit | the 32 oldest blocks |
//! | the writer daemon (`kupdate`) | each interval | blocks that are old |
//!
//! A thread waits only for room in the device's queue. A writer that finds no page to submit goes
//! on, even if metadata alone is above the limit: the journal bounds it. Metadata blocks are
//! written at the same age as pages, by a thread of their own, which does wait for them.
//!
//! Above the limits each page is tried once. Those that could not be written are tried again when
//! they are old.
//!
//! Source: fs/buffer.c of Linux 2.4.18-14 (Red Hat), `bdflush`, `balance_dirty`,
//! `write_some_buffers` and `sync_old_buffers`. 2.4.18 itself has a writer wait for some of the
//! blocks.

use block::DeviceError;
use rt::Nanos;
use rt::atomic::Ordering;

use super::limits::dirt;
use super::pages::{complete_ready, submit_oldest};
use crate::cache::file_pages::Which;
use crate::core::Core;
use crate::error::Result;

/// Number of blocks that the flusher submits before it looks at the limit.
const FLUSH_BLOCKS: usize = 500;
/// Number of blocks submitted at a time.
const SOME_BLOCKS: usize = 32;

/// Submits dirty blocks until the limit at which the flusher stops.
///
/// # Errors
/// Returns the first failed write that it records. The other pages are submitted nevertheless.
pub(crate) fn flush_until_stop(core: &Core) -> Result<()> {
    let mut failure = None;
    'rounds: while !core.pages.flusher.is_stopping() {
        failure = failure.or(complete_ready(core).err());
        let (dirty, limits) = dirt(core);
        if dirty <= limits.stop {
            break;
        }
        let oldest = core.pages.list.after(None, Nanos::MAX, 1);
        let since = oldest.first().map_or(Nanos::MAX, |((since, _), _)| *since);
        request_metadata(core, since);
        let mut left = FLUSH_BLOCKS;
        while left > 0 {
            let sent = submit_oldest(core, Nanos::MAX, Which::NotFailed, SOME_BLOCKS);
            failure = failure.or(sent.failure);
            if sent.pages == 0 {
                break 'rounds;
            }
            left = left.saturating_sub(sent.pages);
        }
    }
    or_failure(failure)
}

fn or_failure(failure: Option<DeviceError>) -> Result<()> {
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// Submits the pages and metadata blocks that are dirty since before a time.
pub(super) fn submit_old(core: &Core, cutoff: Nanos) -> Result<()> {
    let mut failure = complete_ready(core).err();
    if cutoff > Nanos::ZERO {
        request_metadata(core, cutoff);
        let sent = submit_oldest(core, cutoff, Which::Before(cutoff), usize::MAX);
        failure = failure.or(sent.failure);
    }
    or_failure(failure)
}

/// Wakes the flusher, and submits dirty blocks, as the limits require after a write of `pages`
/// pages.
pub(super) fn balance_dirty(core: &Core, pages: usize) -> Result<()> {
    let mut failure = None;
    for _ in 0..pages {
        let (dirty, limits) = dirt(core);
        if dirty <= limits.start {
            break;
        }
        core.pages.flusher.request();
        if dirty <= limits.wait {
            break;
        }
        let began = rt::monotonic();
        let sent = submit_oldest(core, Nanos::MAX, Which::NotFailed, SOME_BLOCKS);
        core.pages.stalls.dirty_limit.add_since(began);
        failure = failure.or(sent.failure).or(complete_ready(core).err());
        if sent.pages == 0 {
            break;
        }
    }
    or_failure(failure)
}

/// Requests that metadata blocks committed before a time are written.
fn request_metadata(core: &Core, before: Nanos) {
    let cutoff = &core.pages.metadata_cutoff;
    cutoff.fetch_max(before.get(), Ordering::Relaxed);
    core.pages.metadata_writer.request();
}

/// Writes the metadata blocks that were requested, at most as many as the flusher writes at a time.
pub(crate) fn write_metadata(core: &Core) -> Result<()> {
    let cutoff = Nanos::new(core.pages.metadata_cutoff.swap(0, Ordering::Relaxed));
    match &core.journal {
        Some(journal) => journal.write_back(cutoff, FLUSH_BLOCKS).map(drop)?,
        None => core.buffers.write_back(cutoff, FLUSH_BLOCKS).map(drop)?,
    }
    Ok(())
}
