//! Messages and locations of panics in tasks, kept for the run's error instead of being printed.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::Once;

use crate::current;

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

/// Installs this module's hook before the process's, once. It keeps the messages of tasks and
/// passes on all others.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let other = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match current::is_in_task() {
            true => LAST.set(Some(describe(info))),
            false => other(info),
        }));
    });
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

fn describe(info: &PanicHookInfo<'_>) -> Said {
    let text = text_of(info.payload());
    let message = match info.location() {
        Some(location) => format!("at {location}: {text}"),
        None => text,
    };
    let backtrace = current::captures_backtraces().then(|| Backtrace::force_capture().to_string());
    Said { message, backtrace }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "something that is not a text".to_owned()
    }
}
