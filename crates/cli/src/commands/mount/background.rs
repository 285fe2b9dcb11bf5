//! A mount in the background: this program is started once more, and reports through a pipe when
//! the mount is ready.
//!
//! A process cannot safely fork once it has threads, so nothing here forks. The new process gets a
//! session of its own. Until it is ready, its messages go to the caller's streams, and its exit
//! status is the caller's.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use super::helper;

/// Message of the background process when the mount is ready.
const READY: &[u8] = b"ready\n";

/// Starts the background process, and waits until its mount is ready or it has reported an error.
pub(super) fn start() -> Result<ExitCode> {
    let program = std::env::current_exe().context("this program")?;
    let mut child = Command::new(&program)
        .args(helper::arguments(std::env::args_os()).into_iter().skip(1))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut said = Vec::new();
    let mut pipe = child.stdout.take().context("the pipe of the process")?;
    pipe.read_to_end(&mut said)?;
    if said == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// Opens the file for messages.
pub(super) fn open_log(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.create(true).append(true).open(path);
    opened.with_context(|| path.display().to_string())
}

/// Reports that the mount is ready, and leaves the caller's session, directory and streams.
pub(super) fn leave(log: Option<File>) -> Result<()> {
    // This process may be the leader of a session already.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").context("/")?;
    let nothing = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .context("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stderr(log.as_ref().unwrap_or(&nothing))?;
    let mut pipe = std::io::stdout();
    pipe.write_all(READY)?;
    pipe.flush()?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}
