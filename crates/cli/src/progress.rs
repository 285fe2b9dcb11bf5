//! Progress bars on a terminal; nothing if standard error is not one.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Interval between two redraws of a bar.
const TICK: Duration = Duration::from_millis(100);

/// Returns a bar that counts to `length` bytes, hidden unless standard error is a terminal.
pub(crate) fn bytes(length: u64) -> ProgressBar {
    let template = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
    bar(length, template)
}

/// Returns a bar of a fraction that counts to `length` thousandths.
pub(crate) fn share(length: u64) -> ProgressBar {
    bar(
        length,
        "{bar:40} {percent:>3} % {elapsed}, {left} left {msg}",
    )
}

fn bar(length: u64, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
    }
    let left = |state: &ProgressState, out: &mut dyn Write| {
        // Before the first progress the estimate would be zero.
        let written = match state.pos() {
            0 => out.write_str("?"),
            _ => write!(out, "{:#}", HumanDuration(state.eta())),
        };
        written.expect("writing to a string does not fail");
    };
    let style = ProgressStyle::with_template(template)
        .expect("the template is right")
        .with_key("left", left);
    let bar = ProgressBar::new(length).with_style(style);
    bar.enable_steady_tick(TICK);
    bar
}
