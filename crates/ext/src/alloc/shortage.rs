//! A full volume: a commit gives back the blocks that uncommitted transactions freed.

use crate::core::Core;
use crate::error::{Error, Result};

impl Core {
    /// Holding no transaction: if a commit would release freed blocks, commits and returns true (try again); else false.
    ///
    /// Whoever tries again asks [`Space::has_pending`] before each try: what a try has taken and given back is no reason for
    /// another one.
    pub(crate) fn wait_for_space(&self) -> Result<bool> {
        let Some(journal) = &self.journal else {
            return Ok(false);
        };
        let tids = self.space.freed.lock().tids();
        if tids.is_empty() {
            return Ok(false);
        }
        journal.commit_running()?;
        // Durable is not enough: the journal says when nothing older is on its way to the blocks any more.
        self.space.wait_released(&tids, || match journal.error() {
            Some(error) => Err(error),
            None => Ok(()),
        })?;
        Ok(true)
    }
}

/// Runs a step, and again after a commit when it failed for space that a commit gives back. The step must have
/// changed nothing when it fails for space.
pub(crate) fn with_space<T>(core: &Core, mut step: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        let has_pending = core.space.has_pending();
        match step() {
            Err(Error::NoSpace | Error::NoInodes) if has_pending && core.wait_for_space()? => {}
            other => return other,
        }
    }
}
