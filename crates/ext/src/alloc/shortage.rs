//! A full volume: a commit gives back the blocks that uncommitted transactions freed.

use crate::core::Core;
use crate::error::{Error, Result};

impl Core {
    /// Commits and returns true if that releases freed blocks, so that the caller tries again;
    /// returns false otherwise. The caller holds no transaction.
    ///
    /// A caller that tries again checks [`Space::has_pending`] before each try: blocks that a try
    /// itself took and gave back are no reason for another one.
    pub(crate) fn wait_for_space(&self) -> Result<bool> {
        let Some(journal) = &self.journal else {
            return Ok(false);
        };
        let tids = self.space.freed.lock().tids();
        if tids.is_empty() {
            return Ok(false);
        }
        journal.commit_running()?;
        // Durability is not enough: the journal signals when no older write to the blocks is still
        // in flight.
        self.space.wait_released(&tids, || match journal.error() {
            Some(error) => Err(error),
            None => Ok(()),
        })?;
        Ok(true)
    }
}

/// Runs a step, and repeats it after a commit if it failed for space that a commit gives back. A
/// step that fails for space must have changed nothing.
pub(crate) fn with_space<T>(core: &Core, mut step: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        let has_pending = core.space.has_pending();
        match step() {
            Err(Error::NoSpace | Error::NoInodes) if has_pending && core.wait_for_space()? => {}
            other => return other,
        }
    }
}
