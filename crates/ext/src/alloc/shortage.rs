//! Retries on a full volume: a commit releases the blocks that uncommitted transactions freed, and
//! a trim gives back what it withholds.

use crate::cache::space::Before;
use crate::core::Core;
use crate::error::{Error, Result};

impl Core {
    /// Waits until what could not be allocated during a failed attempt is free: blocks that a
    /// transaction freed, or that a trim withheld. Returns true if there were any, so that the
    /// caller retries. The caller has no open handle.
    ///
    /// `before` is the state before the attempt: blocks that the attempt itself allocated and freed
    /// do not cause another one.
    pub(crate) fn wait_for_space(&self, before: Before) -> Result<bool> {
        let was_withheld = self.space.withheld.wait_since(before.parts_ended);
        Ok((before.has_pending && self.wait_for_freed()?) || was_withheld)
    }

    /// Commits the running transaction and waits until the blocks that it and earlier ones freed
    /// are released. Returns true if there were any.
    pub(crate) fn wait_for_freed(&self) -> Result<bool> {
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
/// blocks come back. A step that fails with one of these must leave nothing changed.
pub(crate) fn with_space<T>(core: &Core, mut step: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        let before = core.space.before();
        match step() {
            Err(Error::NoSpace) if core.wait_for_space(before)? => {}
            Err(Error::NoInodes) if before.has_pending && core.wait_for_freed()? => {}
            other => return other,
        }
    }
}
