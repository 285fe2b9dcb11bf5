//! One round of the writer daemon.

use super::background::submit_old;
use super::limits::dirt;
use super::memory::balance;
use super::pages::{write_oldest, write_some};
use crate::cache::file_pages::Which;
use crate::core::Core;
use crate::error::Result;
use crate::tuning::{BATCH_PAGES, Writers};

/// Largest number of metadata blocks that one round of the writer daemon writes.
const METADATA_BLOCKS_MAX: usize = 16_384;

/// Runs one round of the writer daemon: writes old dirty pages and metadata, and as much as the
/// background limit requires.
pub(crate) fn write_back_round(core: &Core) -> Result<()> {
    let now = rt::monotonic();
    let cutoff = now.saturating_sub(core.options.memory.dirty_expiry);
    if core.tuning.writeback.writers == Writers::Submit {
        let submitted = submit_old(core, cutoff);
        balance(core);
        return submitted;
    }
    let mut failure = None;
    if now > core.options.memory.dirty_expiry {
        failure = write_oldest(core, cutoff, Which::Before(cutoff), |_| false).failure;
    }
    let block_bytes = u64::from(core.geometry().block_bytes);
    let (dirty, limits) = dirt(core);
    let mut is_above = dirty > limits.start;
    while is_above {
        // Read once: other threads make pages clean meanwhile.
        let (dirty, limits) = dirt(core);
        let excess = dirty.saturating_sub(limits.stop);
        let excess = excess.div_ceil(block_bytes) as usize;
        if excess == 0 {
            break;
        }
        let sent = write_some(core, excess.min(BATCH_PAGES));
        is_above = sent.pages > 0;
        failure = failure.or(sent.failure);
    }
    let metadata = match &core.journal {
        Some(journal) => journal
            .write_back(cutoff, METADATA_BLOCKS_MAX)
            .map(drop)
            .map_err(Into::into),
        None => core
            .buffers
            .write_back(cutoff, METADATA_BLOCKS_MAX)
            .map(drop),
    };
    balance(core);
    failure
        .map_or(Ok(()), |error| Err(error.into()))
        .and(metadata)
}
