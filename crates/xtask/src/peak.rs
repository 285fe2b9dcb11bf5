//! Runs jext as a child process and samples its memory.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::machine::kilobytes;

/// Sampling interval. The kernel's high-water mark only grows, so only a peak at the very end can
/// be missed.
const PAUSE: Duration = Duration::from_millis(5);

/// Memory and time of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// High-water mark of the resident memory.
    pub(crate) peak_bytes: u64,
    pub(crate) seconds: f64,
}

/// Runs the program with these arguments. Fails if the program fails.
pub(crate) fn run(program: &Path, arguments: &[&str]) -> Result<Usage> {
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .context("jext")?;
    let status_path = format!("/proc/{}/status", child.id());
    let mut peak_bytes = 0;
    let status = loop {
        // The file is gone or empty if the process has just exited.
        let said = fs::read_to_string(&status_path).unwrap_or_default();
        peak_bytes = peak_bytes.max(kilobytes(&said, "VmHWM").unwrap_or(0));
        if let Some(status) = child.try_wait().context("jext")? {
            break status;
        }
        thread::sleep(PAUSE);
    };
    if !status.success() {
        bail!("jext {}: {status}", arguments.join(" "));
    }
    Ok(Usage {
        peak_bytes,
        seconds: started.elapsed().as_secs_f64(),
    })
}
