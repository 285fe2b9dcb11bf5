//! Work that other threads wait for, and panics in it.
//!
//! A thread that reads or writes an inode, a block or a page leaves a mark in its cache, at which
//! other threads wait. A panic in that work, in a device or in an assertion, would leave the mark
//! in place for ever; the process of a mount goes on after it, and would never end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Does the work. If it panics, `abandon` removes the mark before the panic continues; a thread
/// that waits then does the work itself or gets an error.
pub(crate) fn awaited<T>(work: impl FnOnce() -> T, abandon: impl FnOnce()) -> T {
    awaited_with(&mut (), |()| work(), |()| abandon())
}

/// Does work on a state. If it panics, `abandon` gets the state as the panic left it.
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
