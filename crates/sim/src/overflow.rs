//! A signal handler that names the task whose stack overflowed.
//!
//! A task that touches the guard page below its stack gets a SIGSEGV. This handler runs on the
//! alternate signal stack, which the standard library sets up for every thread that it starts. It
//! prints the task's name and aborts. Any other SIGSEGV is passed to the previous handler.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use crate::current;

/// The previous handler.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler for the whole process, once.
pub(crate) fn install_handler() {
    PREVIOUS.get_or_init(|| {
        let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the action is fully initialised (all zero is valid), and the handler has the
        // signature that SA_SIGINFO requires. On failure the previous action stays zero, which
        // means the default.
        unsafe {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handle;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &raw const action, previous.as_mut_ptr());
            previous.assume_init()
        }
    });
}

extern "C" fn handle(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO, and SIGSEGV has an
    // address.
    let address = unsafe { (*info).si_addr() }.addr();
    // SAFETY: the interrupted code is a task that touched its guard page, so no code of the world
    // itself is running on this thread.
    let name = unsafe { current::task_with_guard_at(address) };
    if let Some(name) = name {
        say(b"task `");
        say(name.as_bytes());
        say(b"` of a simulated world overflowed its stack\n");
        // SAFETY: abort may be called from a signal handler.
        unsafe { libc::abort() };
    }
    let previous = PREVIOUS.get().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: sigaction may be called from a signal handler. The faulting instruction runs again
    // under the previous handler. A null action changes nothing, and is possible only before the
    // installation has returned.
    unsafe { libc::sigaction(libc::SIGSEGV, previous, ptr::null_mut()) };
}

/// Writes to the standard error without taking a lock or allocating.
fn say(bytes: &[u8]) {
    // SAFETY: the pointer and the length are those of a slice.
    unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}
