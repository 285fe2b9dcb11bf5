//! The frame of every call: results as numbers, panics as failures, the message of the last one.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::{Failure, Result};

thread_local! {
    /// The message of the last failed call of this thread.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the work of a call. Returns 0, or the negative number of the failure, whose message becomes
/// the last one of this thread.
pub(crate) fn call(work: impl FnOnce() -> Result<()>) -> c_int {
    // State that a panic leaves behind belongs to the engine, whose locks are not poisoned.
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::of_panic(&*panic),
    };
    let line = failure.text.replace(['\n', '\0'], " ");
    let message = CString::new(line).unwrap_or_default();
    // A call from a destructor of the thread has no place for it any more.
    let _ = LAST.try_with(|last| last.replace(message));
    // No failure is a success.
    -failure.number.max(1)
}

/// Returns the message of the last failed call of this thread; empty if no call has failed.
pub(crate) fn last_message() -> *const c_char {
    let message = LAST.try_with(|last| last.borrow().as_ptr());
    message.unwrap_or(c"".as_ptr())
}
