//! Fast commits: making the changes of the running transaction durable while it goes on running.
//!
//! ```text
//! 1  ordered data of the transaction so far, by the client               (file-system device)
//! 2  pause it: new handles wait; wait for open handles
//! 3  ordered data that has come since; the client collects the changes as tags
//! 4  handles start again
//! 5  journal superblock, if the log was empty
//! 6  flush, unless neither data nor the superblock was written since the last one
//! 7  the blocks of tags, the last of which has the tail, with forced unit access
//! 8  the changes are durable: wake all threads that wait for them
//! ```
//!
//! Step 7 needs no order among its blocks: the tail has a checksum of all tags, so that a fast
//! commit of which the power cut leaves a part does not count.
//!
//! A fast commit counts only in a log that has all transactions before its own, so it is made only
//! while no other transaction commits. Its leader is the committer meanwhile, so that the
//! transaction does not close. When the transaction is committed as a whole, the area of its fast
//! commits is empty again.
//!
//! A transaction that is full or due is committed as a whole. If the changes cannot be described,
//! or the area has no room for them, or their data cannot be written, the leader commits the
//! transaction as a whole, and it gets no further fast commit.
//!
//! Source of the method: D. Park, D. Shin, iJournaling (USENIX ATC 2017), and H. Shirwadkar et al.,
//! FastCommit (USENIX ATC 2024).

use std::sync::Arc;

use layout::{Block, Tid};

use super::fast_records::FastRecords;
use crate::error::Result;
use crate::shared::{Shared, StateGuard};

impl Shared {
    /// Makes a fast commit of the running transaction, or commits a transaction as a whole. The
    /// caller is the committer.
    pub(super) fn lead_fast_commit<'a>(&'a self, state: StateGuard<'a>) -> StateGuard<'a> {
        let running = state.running_tid();
        let tid = running.filter(|tid| {
            let is_next = state.durable.next() == *tid && state.committing.is_none();
            let is_due = self.commit_is_due(&state, rt::monotonic()).0;
            let is_open = !is_due && !state.is_closing();
            is_next && is_open && state.held.is_none() && !state.fast.is_refused
        });
        let Some(tid) = tid else {
            return self.lead_commit(state);
        };
        drop(state);
        let give_up = || {
            let mut state = self.state.lock();
            state.has_committer = false;
            state.resume();
        };
        let made = self.or_abort("a fast commit", || self.commit_changes(tid), give_up);
        let is_made = match made {
            Ok(is_made) => is_made,
            Err(error) if error.is_no_room() => false,
            Err(error) => {
                self.abort(error);
                return self.end_leading(self.state.lock());
            }
        };
        let mut state = self.state.lock();
        if !is_made {
            state.fast.is_refused = true;
            return self.lead_commit(state);
        }
        let callers = state.fast.complete();
        if let Some(running) = &mut state.running {
            running.callers = running.callers.saturating_sub(callers);
        }
        state.groups = [callers, state.groups[0]];
        self.counters.group_size_max.raise_to(callers.into());
        // Threads that are woken want the lock.
        drop(self.end_leading(state));
        self.committed(tid).notify_all();
        self.state.lock()
    }

    /// Makes the changes of the running transaction durable. Returns false if they cannot be
    /// described, or have no room.
    fn commit_changes(&self, tid: Tid) -> Result<bool> {
        if let Err(error) = self.client.write_data_so_far(tid) {
            tracing::warn!(%tid, %error, "ordered data could not be written for a fast commit");
            return Ok(false);
        }
        let Some((tags, has_data)) = self.collect(tid)? else {
            return Ok(false);
        };
        let (is_first, start) = {
            let state = self.state.lock();
            (!state.fast.is_used(), state.head)
        };
        let records = FastRecords::build(self.format.block_bytes, tid, is_first, &tags);
        let Some(FastRecords { blocks }) = records else {
            return Ok(false);
        };
        let count = u32::try_from(blocks.len()).expect("fewer than bytes of tags");
        let (first, was_empty) = {
            let mut state = self.state.lock();
            // From here on the log is not marked as empty.
            (state.fast.take(count), state.is_log_empty)
        };
        let Some(first) = first else {
            return Ok(false);
        };
        self.prepare_superblock(tid, start, false)?;
        self.write_fast_blocks(tid, first, blocks, has_data || was_empty)?;
        self.counters.fast_commits.add(1);
        self.counters.fast_commit_blocks.add(count.into());
        Ok(true)
    }

    /// Pauses the running transaction and collects its changes. Returns the tags, and true if there
    /// is data that was not flushed; none if tags cannot describe the changes.
    fn collect(&self, tid: Tid) -> Result<Option<(Vec<u8>, bool)>> {
        let began = rt::monotonic();
        let mut state = self.state.lock();
        state.pause();
        let waited = self.wait_for_handles(&mut state);
        if waited.is_ok() {
            state.fast.start();
        }
        drop(state);
        let waiting = rt::monotonic().saturating_sub(began);
        self.counters.waited_for_handles.add_time(waiting);
        let collected = waited.map(|()| {
            let has_data = self.client.write_data_so_far(tid).ok()?;
            Some((self.client.collect_changes(tid)?, has_data))
        });
        self.state.lock().resume();
        self.closed.notify_all();
        collected
    }

    /// Writes the blocks of a fast commit durably.
    fn write_fast_blocks(
        &self,
        tid: Tid,
        first: u32,
        blocks: Vec<Arc<Block>>,
        needs_flush: bool,
    ) -> Result<()> {
        let count = u32::try_from(blocks.len()).expect("fewer than in the area");
        if self.config.barrier && needs_flush && !rt::mutant!("fast-commit/no-flush-before-tail") {
            self.flush_log()?;
        }
        self.check_before_record(tid)?;
        let mut requests = self.requests_at(&[(first, count)], blocks);
        if rt::mutant!("fast-commit/tail-not-forced") {
            return Ok(self.log.device.request(requests).wait_all()?);
        }
        self.force(&mut requests);
        self.log.device.request(requests).wait_all()?;
        self.flush_if_not_forced()
    }
}

#[cfg(test)]
mod tests;
