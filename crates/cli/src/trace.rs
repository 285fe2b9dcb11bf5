//! Traces on standard error, for `-v` and JEXT_LOG. Their clock is the world's: virtual in a
//! simulated world.
//!
//! A line that cannot be written is dropped: a full disk under `--log` must not end a mount.

use std::fmt;
use std::io::{self, Write};

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// The environment variable of the trace filter.
const VARIABLE: &str = "JEXT_LOG";

/// Starts traces with the filter in JEXT_LOG, or else the level given by the number of `-v`. The
/// default is errors, or nothing if they are injected on purpose.
pub(crate) fn start(verbose: u8, is_on_purpose: bool) -> Result<()> {
    let filter = match std::env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => text
            .parse::<EnvFilter>()
            .with_context(|| format!("{VARIABLE}={text}: not a filter; say JEXT_LOG=jbd2=debug"))?,
        _ => EnvFilter::new(match verbose {
            0 if is_on_purpose => "off",
            0 => "error",
            1 => "info",
            2 => "debug",
            _ => "trace",
        }),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Droppable(io::stderr()))
        .log_internal_errors(false)
        .with_ansi(false)
        .with_timer(WorldTime)
        .init();
    Ok(())
}

/// A writer that drops output on errors.
struct Droppable<W>(W);

impl<W: Write> Write for Droppable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

struct WorldTime;

impl FormatTime for WorldTime {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        let micros = rt::monotonic().get() / 1000;
        write!(out, "{:6}.{:06}", micros / 1_000_000, micros % 1_000_000)
    }
}
