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
use crate::transaction::Transaction;

/// One step of an operation.
#[must_use = "a handle has to be finished"]
pub struct Handle {
    shared: Arc<Shared>,
    /// The transaction; none while the handle ends, and after a failed restart.
    transaction: Option<Arc<Transaction>>,
    /// The number of its current or last transaction.
    tid: Tid,
    /// The error of a failed restart, which every later call on the handle returns.
    failure: Option<Error>,
    /// Credits left.
    credits: Credits,
    has_changed: bool,
}

impl Handle {
    pub(crate) fn new(
        shared: Arc<Shared>,
        transaction: Arc<Transaction>,
        credits: Credits,
    ) -> Self {
        Self {
            shared,
            tid: transaction.tid,
            failure: None,
            transaction: Some(transaction),
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
        let transaction = open(&self.transaction, &self.failure)?;
        let mut state = buffer.lock();
        if state
            .holds
            .running
            .is_none_or(|filing| filing.tid != transaction.tid)
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
            transaction.file(buffer, &mut state, &mut self.credits)?;
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
        let transaction = open(&self.transaction, &self.failure)?;
        transaction.forget(nr, buffer, revoke, &mut self.credits)?;
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
        open(&self.transaction, &self.failure)?;
        let mut state = self.shared.state.lock();
        state.check()?;
        if state.is_to_restart(self.shared.config.policy.restart_every) {
            self.shared.request(&mut state, self.tid);
            return Ok(false);
        }
        let is_extended = state.extend(more);
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
            Ok(transaction) => {
                self.tid = transaction.tid;
                self.transaction = Some(transaction);
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
        open(&self.transaction, &self.failure)?;
        self.leave().map(|()| self.tid)
    }

    /// Leaves the transaction.
    fn leave(&mut self) -> Result<()> {
        let Some(transaction) = self.transaction.take() else {
            return Ok(());
        };
        let mut state = self.shared.state.lock();
        let is_awaited = state.leave(transaction.tid, self.credits);
        let result = state.check();
        drop(state);
        if is_awaited {
            self.shared.handles_done.notify_one();
        }
        result
    }
}

/// Returns the transaction of a handle, or the error of a failed restart.
fn open<'h>(
    transaction: &'h Option<Arc<Transaction>>,
    failure: &Option<Error>,
) -> Result<&'h Arc<Transaction>> {
    let missing = || failure.clone().unwrap_or(Error::Closed);
    transaction.as_ref().ok_or_else(missing)
}

impl Drop for Handle {
    /// Removes an unfinished handle from its transaction. If it had changed something, the journal
    /// has to abort, which the next caller does.
    ///
    /// The lock is held for memory work only, and is not waited for while the task is unwinding.
    fn drop(&mut self) {
        let Some(transaction) = self.transaction.take() else {
            return;
        };
        let has_changed = self.has_changed;
        let state = if std::thread::panicking() {
            self.shared.note_abandoned(has_changed);
            self.shared.state.try_lock()
        } else {
            Some(self.shared.state.lock())
        };
        if let Some(mut state) = state {
            if has_changed {
                state.abandoned.get_or_insert(transaction.tid);
            }
            state.leave(transaction.tid, self.credits);
        }
        if has_changed {
            self.shared.note_abandoned(true);
        }
        self.shared.handles_done.notify_one();
        self.shared.work.notify_one();
    }
}
