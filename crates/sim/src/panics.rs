//! Messages and locations of panics in tasks, kept for the run's error instead of being printed.

use std::any::Any;
use std::cell::RefCell;

thread_local! {
    static LAST: RefCell<Option<Said>> = const { RefCell::new(None) };
}

/// The message of a panic.
pub(crate) struct Said {
    /// Location and text.
    pub(crate) message: String,
    /// Backtrace, if the world captures backtraces.
    pub(crate) backtrace: Option<String>,
}

/// Keeps the message of a panic.
pub(crate) fn keep(said: Said) {
    LAST.set(Some(said));
}

/// Takes the message of the panic with this payload.
pub(crate) fn take(payload: &(dyn Any + Send)) -> Said {
    LAST.take().unwrap_or_else(|| Said {
        message: text_of(payload),
        backtrace: None,
    })
}

/// Returns the message of the last panic.
pub(crate) fn last_message() -> String {
    LAST.with_borrow(|last| {
        last.as_ref()
            .map(|said| said.message.clone())
            .unwrap_or_default()
    })
}

/// Returns the text of a panic's payload.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "something that is not a text".to_owned()
    }
}
