//! Results on standard output, everything else on standard error.

use std::io::{self, Write};

use anyhow::{Context, Result};
use serde_json::Value;

/// Prints text to standard output.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("standard output")
}

/// Prints one JSON document to standard output.
pub(crate) fn print_json(value: &Value) -> Result<()> {
    print(&format!("{value:#}\n"))
}

/// Prints one line to standard error.
pub(crate) fn tell(text: &str) {
    // If standard error is closed the line is lost.
    let _ = writeln!(io::stderr(), "{text}");
}
