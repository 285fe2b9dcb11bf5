//! Handles: one step of an operation, atomic after any crash.
//!
//! # Rules
//!
//! - A handle declares before it starts the number of blocks it may dirty and of revokes it may
//!   add; this reserves log space. Unused credits are returned when it ends.
//! - [`Handle::finish`] is the only successful end. A handle that is dropped after it has changed
//!   something aborts the journal, because half of a step must not be committed; one that has
//!   changed nothing has no effect.
//! - A thread has at most one open handle. While it has one, it waits neither for a commit nor for
//!   another handle, because the committer waits for open handles.
//! - Only starting and restarting may wait for the committer (with `log_io=wait`, also changing a
//!   block in log I/O). With `home=wait`, changing a block waits for a write of it to its final
//!   location.

use std::sync::Arc;

use layout::{Block, BlockNr, Tid};

use crate::buffer::{Buffer, BufferWrite};
use crate::credits::Credits;
use crate::error::{Error, Result};
use crate::policy::{HomeIo, LogIo};
use crate::shared::Shared;

/// One step of an operation.
#[must_use = "a handle has to be finished"]
pub struct Handle<'j> {
    shared: &'j Shared,
    /// Its current or last transaction.
    tid: Tid,
    /// False while the handle ends, and after a failed restart.
    is_open: bool,
    /// The error of a failed restart, which every later call on the handle returns.
    failure: Option<Error>,
    /// Credits left.
    credits: Credits,
    has_changed: bool,
}

impl<'j> Handle<'j> {
    /// Creates the handle that was admitted to a transaction.
    pub(crate) fn new(shared: &'j Shared, tid: Tid, credits: Credits) -> Self {
        Self {
            shared,
            tid,
            is_open: true,
            failure: None,
            credits,
            has_changed: false,
        }
    }

    /// Returns the number of the transaction that the handle belongs to.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Returns write access to a buffer's contents, which the caller keeps for a short time only.
    /// The first access of the transaction to the buffer takes a credit.
    ///
    /// With `log_io=wait` this waits while the buffer's image is being written to the log, with
    /// `home=wait` while it is being written to its final location.
    ///
    /// # Errors
    /// - [`Error::OutOfCredits`] if the handle has no credit left.
    /// - [`Error::Aborted`], with `log_io=wait` or `home=wait`, if the journal aborts meanwhile.
    pub fn write<'b>(&mut self, buffer: &'b Arc<Buffer>) -> Result<BufferWrite<'b>> {
        self.check_open()?;
        let mut state = buffer.lock();
        if state
            .holds
            .running
            .is_none_or(|filing| filing.tid != self.tid)
        {
            let policy = self.shared.config.policy;
            if policy.home == HomeIo::Wait && state.holds.owed.is_some() {
                drop(state);
                self.shared.wait_for_home(buffer.nr())?;
                state = buffer.lock();
            }
            if policy.log_io == LogIo::Wait
                && let Some(committing) = state.holds.committing
            {
                drop(state);
                self.shared.wait_for_log_io(committing)?;
                state = buffer.lock();
            }
            let transaction = &self.shared.running;
            transaction.file(self.tid, buffer, &mut state, &mut self.credits)?;
        }
        self.has_changed = true;
        Ok(BufferWrite::new(state))
    }

    /// Replaces the whole contents of a buffer, without a copy.
    ///
    /// # Errors
    /// - Errors of [`Handle::write`].
    ///
    /// # Panics
    /// Panics if the image has another size.
    pub fn replace(&mut self, buffer: &Arc<Buffer>, image: Arc<Block>) -> Result<()> {
        self.write(buffer)?.replace(image);
        Ok(())
    }

    /// Frees a block: drops its contents from this transaction. The write of an older image stays
    /// pending until this transaction is durable, and is then cancelled. `revoke` keeps recovery
    /// from replaying older images, and is needed unless the log can hold none of the block.
    ///
    /// `buffer` is the block's buffer, if it is in memory.
    ///
    /// # Errors
    /// - [`Error::OutOfCredits`] if no credit for a revoke is left.
    ///
    /// # Panics
    /// Panics if the buffer belongs to another block.
    pub fn forget(
        &mut self,
        nr: BlockNr,
        buffer: Option<&Arc<Buffer>>,
        revoke: bool,
    ) -> Result<()> {
        self.check_open()?;
        let transaction = &self.shared.running;
        transaction.forget(self.tid, nr, buffer, revoke, &mut self.credits)?;
        self.has_changed = true;
        Ok(())
    }

    /// Returns the number of blocks that the handle may still dirty.
    pub fn credits_left(&self) -> u32 {
        self.credits.blocks
    }

    /// Returns true if the handle has changed anything since it started or restarted.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Returns the number of revokes that the handle may still add.
    pub fn revokes_left(&self) -> u32 {
        self.credits.revokes
    }

    /// Requests more credits, without waiting. Returns false if there is no room: the caller
    /// restarts the handle.
    ///
    /// # Errors
    /// - [`Error::Aborted`] if the journal has aborted.
    pub fn extend(&mut self, more: Credits) -> Result<bool> {
        self.check_open()?;
        let restart_every = self.shared.config.policy.restart_every;
        let is_extended = restart_every == 0 && self.shared.gate.extend(more) || {
            let mut state = self.shared.state.lock();
            state.check()?;
            if state.is_to_restart(restart_every) {
                self.shared.request(&mut state, self.tid);
                return Ok(false);
            }
            state.extend(more)
        };
        if is_extended {
            self.credits = self.credits.plus(more);
        }
        Ok(is_extended)
    }

    /// Ends this step and starts another, perhaps in a later transaction. The changes so far must
    /// be consistent. May wait: the caller holds no lock that a thread may take before it starts a
    /// handle.
    ///
    /// # Errors
    /// - Errors of [`Journal::start`](crate::Journal::start). The handle is then unusable: every
    ///   later call on it fails with the same error.
    pub fn restart(&mut self, credits: Credits) -> Result<()> {
        let left = self.leave();
        self.has_changed = false;
        self.credits = Credits::default();
        match left.and_then(|()| self.shared.admit(credits)) {
            Ok(tid) => {
                self.tid = tid;
                self.is_open = true;
                self.credits = credits;
                Ok(())
            }
            Err(error) => {
                self.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Ends the step successfully. Returns the transaction to commit if the step is to be durable.
    ///
    /// # Errors
    /// - [`Error::Aborted`] if the journal has aborted: the step will not be durable.
    pub fn finish(mut self) -> Result<Tid> {
        self.check_open()?;
        self.leave().map(|()| self.tid)
    }

    /// Returns the error of a failed restart.
    fn check_open(&self) -> Result<()> {
        if self.is_open {
            return Ok(());
        }
        Err(self.failure.clone().unwrap_or(Error::Closed))
    }

    /// Leaves the transaction.
    fn leave(&mut self) -> Result<()> {
        if !core::mem::replace(&mut self.is_open, false) || self.shared.gate.leave(self.credits) {
            return Ok(());
        }
        let mut state = self.shared.state.lock();
        let is_awaited = state.leave(self.credits);
        let result = state.check();
        drop(state);
        if is_awaited {
            self.shared.handles_done.notify_one();
        }
        result
    }
}

impl Drop for Handle<'_> {
    /// Removes an unfinished handle from its transaction. If it had changed something, the journal
    /// has to abort, which the next caller does.
    ///
    /// The lock is held for memory work only, and is not waited for while the task is unwinding.
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let shared = self.shared;
        if self.has_changed {
            // Before the committer finds that no handle is open.
            shared.note_abandoned();
        }
        let is_unwinding = std::thread::panicking();
        let mut state = if is_unwinding {
            shared.state.try_lock()
        } else {
            Some(shared.state.lock())
        };
        if let (true, Some(state)) = (self.has_changed, &mut state) {
            state.abandon(self.tid);
        }
        shared.gate.depart(self.credits);
        drop(state);
        shared.handles_done.notify_one();
        shared.work.notify_one();
    }
}
