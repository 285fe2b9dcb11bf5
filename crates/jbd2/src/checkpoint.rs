//! Checkpointing: the blocks of the checkpoint list ([`crate::checkpoint_list`]) are written to
//! their final location, and the log's tail moves past transactions with no block left to write
//! ([`tail`]).
//!
//! The policy ([`crate::policy`]) determines the amount written at a time, and the thread: a
//! daemon, or a caller that finds the log too full. The age-based writer and a close checkpoint as
//! well. All may run at the same time: at most one write of a block is in flight.

mod complete;
mod home;
mod tail;
#[cfg(test)]
mod tests;

use layout::{BlockNr, Tid};
use rt::{Cost, Nanos};

use crate::checkpoint_list::CheckpointList;
use crate::error::{Error, Result};
use crate::policy::{Batch, Batches, CheckpointScope, Checkpointer};
use crate::shared::Shared;
use crate::transaction::Contents;

impl Shared {
    /// Files a durable transaction: it takes over its blocks from older transactions, and the
    /// writes of blocks that it has freed are cancelled.
    pub(crate) fn file(&self, contents: Contents, start: u32, log_blocks: u32) -> Result<()> {
        let tid = contents.tid;
        let mut checkpoint = self.checkpoint.lock();
        let blocks: Vec<BlockNr> = contents
            .logged
            .iter()
            .map(|logged| logged.buffer.nr())
            .collect();
        checkpoint.file(tid, start, log_blocks, blocks);
        let mut superseded = 0;
        for logged in contents.logged {
            rt::charge(Cost::BlockAccess);
            superseded += u64::from(checkpoint.take_over(tid, logged));
        }
        self.counters.superseded_blocks.add(superseded);
        for nr in contents.forgotten {
            loop {
                if let Some(was_owed) = checkpoint.cancel(nr) {
                    self.counters.cancelled_blocks.add(u64::from(was_owed));
                    break;
                }
                checkpoint.check()?;
                self.writes_done.wait(&mut checkpoint);
            }
        }
        drop(checkpoint);
        // A thread that waits until older transactions are checkpointed may have reached that
        // without a write.
        self.writes_done.notify_all();
        Ok(())
    }

    /// Checkpoints a part of the log and moves the tail, for the daemon.
    pub(crate) fn checkpoint_ahead(&self, is_urgent: bool) -> Result<()> {
        let quarter = self.limits.ring.capacity() / 4;
        let least = if is_urgent { 1 } else { quarter };
        let checkpointed = self.checkpointing(|| {
            self.checkpoint_extent()?;
            self.advance_tail(least)
        });
        checkpointed.map(drop)
    }

    /// Frees log space in the calling thread. Returns true if there was anything to do.
    pub(crate) fn checkpoint_for_space(&self) -> bool {
        let checkpointed = self.checkpointing(|| {
            let freed = self.advance_tail(1)?;
            if freed > 0 {
                return Ok(freed);
            }
            self.checkpoint_extent()?;
            self.advance_tail(1)
        });
        checkpointed.map_or(true, |freed| freed > 0)
    }

    /// Checkpoints the amount that the policy sets, and waits.
    fn checkpoint_extent(&self) -> Result<()> {
        let quarter = self.limits.ring.capacity() / 4;
        match self.config.policy.extent {
            CheckpointScope::Oldest => self.write_home_of(CheckpointList::oldest_unsettled),
            CheckpointScope::Quarter => {
                self.write_home_of(|checkpoint| checkpoint.end_of_oldest(quarter))
            }
            CheckpointScope::All => {
                let end = self.state.lock().next_committed();
                loop {
                    let oldest = self.checkpoint.lock().oldest_unsettled();
                    match oldest {
                        Some(oldest) if !oldest.is_after(end) => self.write_home_through(oldest)?,
                        _ => return Ok(()),
                    }
                }
            }
        }
    }

    /// Checkpoints transactions up to a chosen one; does nothing if none is chosen.
    fn write_home_of(&self, choose: impl Fn(&CheckpointList) -> Option<Tid>) -> Result<()> {
        let last = choose(&self.checkpoint.lock());
        last.map_or(Ok(()), |last| self.write_home_through(last))
    }

    /// Writes blocks by age; see [`Journal::write_back`](crate::Journal::write_back).
    pub(crate) fn write_back(&self, owed_before: Nanos, limit: usize) -> Result<usize> {
        if let Some(error) = self.error() {
            return Err(error);
        }
        self.checkpointing(|| {
            let candidates = self.checkpoint.lock().choose_aged(owed_before, limit);
            let written = self.write_candidates(candidates, Batch::Large, Batches::Wait)?;
            if self.config.policy.checkpointer == Checkpointer::Daemon {
                self.advance_tail(self.limits.ring.capacity() / 4)?;
            }
            Ok(written)
        })
    }

    /// Checkpoints everything committed so far, and moves the tail; if nothing is left, the log is
    /// durably empty.
    pub(crate) fn checkpoint_all(&self) -> Result<()> {
        self.checkpointing(|| {
            self.write_home_of(CheckpointList::newest)?;
            self.empty_log()
        })
    }

    /// Makes an attempt to checkpoint: without room on a device it is held, and any other error, or
    /// a panic, aborts the journal.
    fn checkpointing<T>(&self, attempt: impl FnOnce() -> Result<T>) -> Result<T> {
        let error = match self.or_abort("a checkpoint", attempt, || {}) {
            Ok(value) => {
                if self.state.lock().checkpoint_hold.release() {
                    tracing::warn!("the device has room again; checkpointing goes on");
                }
                return Ok(value);
            }
            Err(error) => error,
        };
        let cause = error.no_room().map_err(|error| self.fail(error))?;
        let mut state = self.state.lock();
        if state.checkpoint_hold.fail(cause.clone(), rt::monotonic()) {
            tracing::warn!(error = %cause, "checkpointing is held until there is room");
        }
        drop(state);
        self.notify_refused();
        self.checkpoint_work.notify_all();
        Err(Error::Held(cause))
    }

    /// Aborts because of an error, unless the journal has aborted already. Returns the error for
    /// the caller.
    fn fail(&self, error: Error) -> Error {
        self.abort(error.clone());
        self.error().unwrap_or(error)
    }
}
