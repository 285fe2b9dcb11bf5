//! Writeback of dirty buffers on a volume without a journal: sorted, adjacent blocks in one
//! request, many requests in a batch.

use std::sync::Arc;

use block::{DeviceError, Request};
use jbd2::Buffer;
use layout::{Block, BlockNr};
use rt::Nanos;
use rt::atomic::Ordering;

use super::shard::Claim;
use super::{BufferCache, batch};
use crate::awaited::awaited;
use crate::error::Result;

/// Largest number of blocks in flight, after which the writer waits.
const BATCH_BLOCKS: usize = 1024;

/// A block that this writer has put in flight.
struct Claimed {
    buffer: Arc<Buffer>,
    since: Nanos,
}

impl BufferCache {
    /// Writes those of the sorted blocks that are dirty. Returns the number written, and the blocks
    /// that another thread was writing.
    ///
    /// # Errors
    /// Returns the first failed write; all others have been tried, too.
    pub(super) fn write_dirty(&self, blocks: &[BlockNr]) -> Result<(usize, Vec<BlockNr>)> {
        let mut written = 0;
        let mut busy = Vec::new();
        let mut outcome = Ok(());
        for part in blocks.chunks(BATCH_BLOCKS) {
            let claimed = self.claim(part, &mut busy);
            self.dirty_count
                .fetch_sub(claimed.len() as u64, Ordering::Relaxed);
            written += claimed.len();
            outcome = outcome.and(self.write_claimed(&claimed));
        }
        outcome?;
        Ok((written, busy))
    }

    fn claim(&self, blocks: &[BlockNr], busy: &mut Vec<BlockNr>) -> Vec<Claimed> {
        let mut claimed = Vec::with_capacity(blocks.len());
        for block in blocks {
            match self.shard(*block).state.lock().claim(*block) {
                Claim::Taken(buffer, since) => claimed.push(Claimed { buffer, since }),
                Claim::InFlight => busy.push(*block),
                Claim::Clean => {}
            }
        }
        claimed
    }

    /// Writes blocks in flight and completes them. Those that could not be written are dirty again.
    fn write_claimed(&self, claimed: &[Claimed]) -> Result<(), DeviceError> {
        if claimed.is_empty() {
            return Ok(());
        }
        let images: Vec<(BlockNr, Arc<Block>)> = claimed
            .iter()
            .map(|one| {
                let block = one.buffer.nr();
                let seal = |label, image: &mut Arc<Block>| self.checks.seal(label, block, image);
                (block, one.buffer.sealed_image(seal))
            })
            .collect();
        let runs = batch::runs(&images, |(block, _)| *block, self.block_bytes);
        let requests: Vec<Request> = runs
            .iter()
            .map(|run| batch::write_request(run, self.block_bytes))
            .collect();
        let write = || self.device.request(requests).wait();
        let abandon = || claimed.iter().for_each(|one| self.end_write(one, true));
        let results = awaited(write, abandon);
        let mut outcome = Ok(());
        let mut rest = claimed;
        for (run, result) in runs.iter().zip(results) {
            let (ours, behind) = rest.split_at(run.len());
            rest = behind;
            if let Err(error) = &result {
                *self.last_error.lock() = Some(error.clone());
            }
            for one in ours {
                self.end_write(one, result.is_err());
            }
            outcome = outcome.and(result.map(drop));
        }
        outcome
    }

    fn end_write(&self, claimed: &Claimed, has_failed: bool) {
        let block = claimed.buffer.nr();
        let shard = self.shard(block);
        let mut state = shard.state.lock();
        if has_failed {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        if state.end_write(block, has_failed.then_some(claimed.since)) {
            self.dirty_count.fetch_add(1, Ordering::Relaxed);
        }
        drop(state);
        shard.changed.notify_all();
    }
}
