//! The panic hook: keeps the messages of tasks ([`panics`]) and passes on all others.

use std::backtrace::Backtrace;
use std::panic::PanicHookInfo;
use std::sync::Once;

use crate::panics::Said;
use crate::{current, panics};

/// Installs the hook before the process's, once. It keeps the messages of tasks and
/// passes on all others.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let other = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| match current::is_in_task() {
            true => panics::keep(describe(info)),
            false => other(info),
        }));
    });
}

fn describe(info: &PanicHookInfo<'_>) -> Said {
    let text = panics::text_of(info.payload());
    let message = match info.location() {
        Some(location) => format!("at {location}: {text}"),
        None => text,
    };
    let backtrace = current::captures_backtraces().then(|| Backtrace::force_capture().to_string());
    Said { message, backtrace }
}
