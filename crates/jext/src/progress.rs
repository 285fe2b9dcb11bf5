//! Progress on a terminal; nothing where standard error is none.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
        "{bar:40} {percent:>3} % {elapsed}, {eta} left {msg}",
    )
}

fn bar(length: u64, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template(template).expect("the template is right");
    let bar = ProgressBar::new(length).with_style(style);
    bar.enable_steady_tick(TICK);
    bar
}
