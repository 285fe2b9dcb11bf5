//! The log's tail, and every write of the journal's superblock.
//!
//! # Rules
//!
//! - The tail moves only past transactions whose blocks are checkpointed *and flushed*, or taken
//!   over by a later transaction that is durable.
//! - Freed log space is reused only when the superblock with the new tail is durable:
//!   `JournalState::used` shrinks after that.
//! - `s_start` is not 0 on the device before the first commit is acknowledged: it is written before
//!   the commit block's flush. The same holds for the feature bit of revokes.
//! - `s_sequence` never decreases. An empty log carries the number that the next transaction would
//!   have had; the next open continues one later.
//! - The log is not marked as empty while the area of fast commits is in use.
//! - A move costs a flush of the file-system device and a forced write, so it is done when it frees
//!   a quarter of the log, or when the space is needed.

use block::Request;
use layout::Tid;

use crate::error::Result;
use crate::shared::Shared;
use crate::superblock::Superblock;

impl Shared {
    /// Moves the tail as far as possible, if that frees at least `least` blocks. Returns the number
    /// freed.
    pub(crate) fn advance_tail(&self, least: u32) -> Result<u32> {
        let mut superblock = self.superblock.lock();
        let (start, tid, freed) = {
            let state = self.state.lock();
            if state.error().is_some() {
                return Ok(0);
            }
            let oldest = self.checkpoint.lock().oldest();
            let committing = state.committing.as_ref().map(|it| (it.start, it.tid));
            let (start, tid) = oldest
                .or(committing)
                .unwrap_or((state.head, state.next_committed()));
            // The ring is never full, so a distance of 0 means that nothing is left.
            let left = self.limits.ring.distance(start, state.head);
            (start, tid, state.used - left)
        };
        if freed == 0 || freed < least {
            return Ok(0);
        }
        if !rt::mutant!("tail/home-not-flushed") {
            self.flush_home_writes()?;
        }
        superblock.set_tail(Some(start), tid);
        if !rt::mutant!("tail/space-reused-before-superblock") {
            self.write_superblock(&superblock)?;
        }
        self.counters.tail_moves.add(1);
        let mut state = self.state.lock();
        state.used -= freed;
        assert_eq!(state.tail(), start, "the tail is where the superblock says");
        drop(state);
        drop(superblock);
        self.space_freed.notify_all();
        Ok(freed)
    }

    /// Moves the tail, and marks the log as empty on the device if it is. Fails if the journal has
    /// aborted: another thread's write of the superblock may have failed meanwhile.
    pub(super) fn empty_log(&self) -> Result<()> {
        self.advance_tail(1)?;
        let mut superblock = self.superblock.lock();
        if let Some(error) = self.error() {
            return Err(error);
        }
        let sequence = {
            let mut state = self.state.lock();
            let is_idle = state.committing.is_none() && !self.checkpoint.lock().has_filed();
            if state.is_log_empty || !is_idle || state.used > 0 {
                return Ok(());
            }
            if state.fast.is_used() {
                // An empty log has no fast commits.
                return Ok(());
            }
            state.is_log_empty = true;
            if rt::mutant!("sequence/starts-again-when-empty") {
                Tid::new(1)
            } else {
                state.next_committed()
            }
        };
        let mut emptied = superblock.clone();
        emptied.set_tail(None, sequence);
        let written = self.write_superblock(&emptied);
        if written.is_ok() {
            *superblock = emptied;
        } else {
            // The log is still found at its old start: the next write of the superblock, for
            // whatever reason, must not mark it as empty.
            self.state.lock().is_log_empty = false;
        }
        written
    }

    /// Prepares the superblock before a transaction, or a fast commit of it, is logged: it shows
    /// the start of the log, and allows revokes and fast commits. A change is durable after the
    /// flush before the commit block or the tail.
    pub(crate) fn prepare_superblock(&self, tid: Tid, start: u32, has_revokes: bool) -> Result<()> {
        let (is_log_empty, needs_revoke, has_area) = {
            let state = self.state.lock();
            let needs_revoke = has_revokes && !state.can_revoke;
            (state.is_log_empty, needs_revoke, state.fast.is_possible())
        };
        if !is_log_empty && !needs_revoke {
            return Ok(());
        }
        let mut superblock = self.superblock.lock();
        if is_log_empty && !rt::mutant!("log-start/not-noted") {
            superblock.set_tail(Some(start), tid);
            if has_area {
                superblock.enable_fast_commits();
            }
        }
        if needs_revoke {
            superblock.enable_revoke();
        }
        self.log
            .device
            .request(superblock.requests(&self.log))
            .wait_all()?;
        let mut state = self.state.lock();
        state.is_log_empty = false;
        state.has_new_superblock = true;
        state.can_revoke |= needs_revoke;
        Ok(())
    }

    /// Records an abort in the superblock for the next mount and for e2fsck, if the device still
    /// accepts writes.
    pub(crate) fn note_error_on_device(&self) {
        let mut superblock = self.superblock.lock();
        superblock.set_error(true);
        if let Err(error) = self.write_superblock(&superblock) {
            tracing::warn!(%error, "the abort could not be noted in the journal's superblock");
        }
    }

    /// Writes the superblock durably.
    fn write_superblock(&self, superblock: &Superblock) -> Result<()> {
        let mut requests = superblock.requests(&self.log);
        if rt::mutant!("tail/superblock-not-forced") {
            return Ok(self.log.device.request(requests).wait_all()?);
        }
        self.force(&mut requests);
        self.log.device.request(requests).wait_all()?;
        self.flush_if_not_forced()
    }

    /// Turns writes into forced ones if barriers are on and the device supports them.
    pub(crate) fn force(&self, requests: &mut [Request]) {
        if !self.config.barrier || !self.log.device.geometry().has_force_unit_access {
            return;
        }
        for request in requests {
            if let Request::Write {
                force_unit_access, ..
            } = request
            {
                *force_unit_access = true;
            }
        }
    }

    /// Flushes after a write that could not be forced.
    pub(crate) fn flush_if_not_forced(&self) -> Result<()> {
        if self.config.barrier && !self.log.device.geometry().has_force_unit_access {
            self.flush_log()?;
        }
        Ok(())
    }

    /// Flushes the log's device. For an internal log, the flush also covers checkpointed blocks.
    pub(crate) fn flush_log(&self) -> Result<()> {
        if self.config.is_external {
            self.counters.log_flushes.add(1);
            return Ok(self.log.device.flush()?);
        }
        let (written, started) = (
            self.checkpoint.lock().written,
            self.client.home_flush_starts(),
        );
        self.counters.log_flushes.add(1);
        self.log.device.flush()?;
        self.note_home_flush(written, started);
        Ok(())
    }

    /// Flushes the file-system device.
    pub(crate) fn flush_home(&self) -> Result<()> {
        if !self.config.is_external {
            return self.flush_log();
        }
        let (written, started) = (
            self.checkpoint.lock().written,
            self.client.home_flush_starts(),
        );
        self.counters.home_flushes.add(1);
        self.home.flush()?;
        self.note_home_flush(written, started);
        Ok(())
    }

    /// Flushes the file-system device if blocks have been checkpointed since its last flush.
    fn flush_home_writes(&self) -> Result<()> {
        let is_flushed = {
            let checkpoint = self.checkpoint.lock();
            checkpoint.written == checkpoint.flushed
        };
        if is_flushed || !self.config.barrier {
            Ok(())
        } else {
            self.flush_home()
        }
    }

    fn note_home_flush(&self, written: u64, started: u64) {
        let mut checkpoint = self.checkpoint.lock();
        checkpoint.flushed = checkpoint.flushed.max(written);
        drop(checkpoint);
        self.client.home_flushed(started);
    }
}
