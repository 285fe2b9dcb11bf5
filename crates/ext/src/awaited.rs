//! Work that other threads wait for, protected against panics.
//!
//! A thread that reads or writes an inode, a block or a page leaves a mark in its cache, and other
//! threads wait until the mark is gone. A panic in that work (in a device or in an assertion) would
//! leave the mark in place. The process of a mount survives such a panic, and the threads that wait
//! would hang.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs `work`. If it panics, `abandon` removes the mark before the panic continues; a thread that
/// waits then does the work itself or gets an error.
pub(crate) fn awaited<T>(work: impl FnOnce() -> T, abandon: impl FnOnce()) -> T {
    awaited_with(&mut (), |()| work(), |()| abandon())
}

/// Runs `work` on a state. If it panics, `abandon` gets the state as the panic left it.
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
