//! Waiting for writes to the final location.
//!
//! Normally the thread that submits writes waits for them, one after another. With `home=wait` each
//! request is a batch of its own, and a thread that wants to change one of its blocks waits for it
//! and records the results itself, as it would be woken when the block is written.

use std::sync::Arc;

use layout::BlockNr;

use crate::error::Result;
use crate::home_batch::{HomeBatch, State};
use crate::shared::Shared;

impl Shared {
    /// Waits until no write of a block to its final location is in flight. The caller has an open
    /// handle.
    pub(crate) fn wait_for_home(&self, nr: BlockNr) -> Result<()> {
        let began = rt::monotonic();
        loop {
            let mut checkpoint = self.checkpoint.lock();
            if !checkpoint.is_in_flight(nr) {
                break;
            }
            checkpoint.check()?;
            // Its results have not been recorded: `complete` would not wait otherwise.
            let home_batches = self.home_batches.lock();
            let batch = home_batches
                .iter()
                .find(|batch| batch.contains(nr))
                .cloned();
            drop(home_batches);
            if let Some(batch) = batch {
                drop(checkpoint);
                // An error is settled by the thread that submitted the write.
                let _ = self.complete(&batch);
            } else {
                self.writes_done.wait(&mut checkpoint);
            }
        }
        let waited = rt::monotonic().saturating_sub(began);
        self.counters.stalled_log_io.add_time(waited);
        Ok(())
    }

    /// Waits for a batch and records its results, unless another thread does. Returns its first
    /// error. A panic of the device aborts the journal, as the thread that submitted the batch may
    /// wait for this one.
    pub(super) fn complete(&self, batch: &Arc<HomeBatch>) -> Result<()> {
        let Some(ticket) = batch.take() else {
            return self.wait_until_completed(batch);
        };
        let results = self.or_abort("a checkpoint", || ticket.wait(), || {});
        let mut failure = Ok(());
        let mut checkpoint = self.checkpoint.lock();
        for (run, result) in batch.runs.iter().zip(results) {
            let is_ok = result.is_ok() || rt::mutant!("checkpoint/error-ignored");
            for index in 0..run.payload.len() as u64 {
                checkpoint.end(run.first + index, is_ok);
            }
            checkpoint.written += run.payload.len() as u64;
            if !is_ok && failure.is_ok() {
                failure = result.map(drop).map_err(Into::into);
            }
        }
        *batch.state.lock() = State::Completed(failure.clone());
        self.home_batches
            .lock()
            .retain(|other| !Arc::ptr_eq(other, batch));
        drop(checkpoint);
        self.writes_done.notify_all();
        failure
    }

    /// Waits until another thread has recorded the results of a batch. Returns its first error.
    fn wait_until_completed(&self, batch: &HomeBatch) -> Result<()> {
        let mut checkpoint = self.checkpoint.lock();
        loop {
            if let State::Completed(result) = &*batch.state.lock() {
                return result.clone();
            }
            checkpoint.check()?;
            self.writes_done.wait(&mut checkpoint);
        }
    }
}
