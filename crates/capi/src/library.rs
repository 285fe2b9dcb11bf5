//! The version of the library, and the message of the last error.

use std::ffi::c_char;

use crate::call::last_message;

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn jext_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the message of the last call of this thread that failed: one line with the object, the
/// fact, and what to do. It is empty if no call has failed, and valid until the next call that
/// fails. Calls that succeed leave it as it is.
#[unsafe(no_mangle)]
pub extern "C" fn jext_last_error() -> *const c_char {
    last_message()
}
