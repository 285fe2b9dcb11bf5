//! The stacks of tasks: 512 KiB each above a guard page, reused by later tasks of the same OS
//! thread.

use std::cell::RefCell;
use std::io;

use corosensei::stack::DefaultStack;

/// Size of a stack without its guard page in bytes. Pages are allocated on first use.
const STACK_BYTES: usize = 512 * 1024;
/// Minimum size of a guard page in bytes.
pub(crate) const GUARD_BYTES: usize = 4096;
/// Maximum number of stacks that an OS thread keeps.
const KEPT_MAX: usize = 256;

thread_local! {
    static KEPT: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Returns a stack for a new task.
pub(crate) fn take() -> io::Result<DefaultStack> {
    let kept = KEPT.with_borrow_mut(Vec::pop);
    kept.map_or_else(|| DefaultStack::new(STACK_BYTES), Ok)
}

/// Takes back the stack of a task that has ended.
pub(crate) fn give_back(stack: DefaultStack) {
    KEPT.with_borrow_mut(|kept| {
        if kept.len() < KEPT_MAX {
            kept.push(stack);
        }
    });
}
