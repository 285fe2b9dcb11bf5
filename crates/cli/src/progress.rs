//! Progress on a terminal; nothing where standard error is none.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// How often a bar is drawn.
const TICK: Duration = Duration::from_millis(100);

/// A bar that counts to `length` in units of bytes, if somebody can see it.
pub(crate) fn bytes(length: u64) -> ProgressBar {
    let template = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}";
    bar(length, template)
}

/// A bar of shares of one, out of `length` thousandths.
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
        // Whoever looks first is not told that nothing is left.
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
