//! Work that others wait for, and a panic in it.
//!
//! Whoever reads or writes an inode, a block or a page leaves a mark in its cache, at which others wait. A panic on the way, in a device or in a
//! check of our own, would leave the mark for ever; on a mount the process goes on after it, and would never end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Does the work. If it panics, `abandon` takes the mark away before the panic goes on; whoever waits then does the work itself, or hears that
/// it has failed.
pub(crate) fn awaited<T>(work: impl FnOnce() -> T, abandon: impl FnOnce()) -> T {
    awaited_with(&mut (), |()| work(), |()| abandon())
}

/// The same for work on a state, which `abandon` finds as the panic has left it.
pub(crate) fn awaited_with<S, T>(
    state: &mut S,
    work: impl FnOnce(&mut S) -> T,
    abandon: impl FnOnce(&mut S),
) -> T {
    match catch_unwind(AssertUnwindSafe(|| work(state))) {
        Ok(result) => result,
        Err(panic) => {
            abandon(state);
            resume_unwind(panic)
        }
    }
}

#[cfg(test)]
mod tests;
