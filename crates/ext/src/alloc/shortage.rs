//! Retries on a full volume: a commit releases the blocks that uncommitted transactions freed.

use crate::core::Core;
use crate::error::{Error, Result};

impl Core {
    /// Commits the running transaction and waits until freed blocks are released. Returns true if
    /// there were any, so that the caller retries. The caller has no open handle.
    ///
    /// The caller checks [`Space::has_pending`] before each attempt, so that blocks that the
    /// attempt itself allocated and freed do not cause another one.
    pub(crate) fn wait_for_space(&self) -> Result<bool> {
        let Some(journal) = &self.journal else {
            return Ok(false);
        };
        let tids = self.space.freed.lock().tids();
        if tids.is_empty() {
            return Ok(false);
        }
        journal.commit_running()?;
        // A durable commit is not enough: the journal releases the blocks once no older write to
        // them is in flight.
        self.space.wait_released(&tids, || match journal.error() {
            Some(error) => Err(error),
            None => Ok(()),
        })?;
        Ok(true)
    }
}

/// Runs a step, and retries it after a commit as long as it fails with `NoSpace` or `NoInodes` and
/// the commit releases blocks. A step that fails with one of these must leave nothing changed.
pub(crate) fn with_space<T>(core: &Core, mut step: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        let has_pending = core.space.has_pending();
        match step() {
            Err(Error::NoSpace | Error::NoInodes) if has_pending && core.wait_for_space()? => {}
            other => return other,
        }
    }
}
