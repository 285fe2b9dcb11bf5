//! A private mount namespace.
//!
//! It ends with its last process and unmounts its mounts, so that no mount or loop device remains,
//! even after a kill.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Error, Result, ensure};

use super::tool::{self, Needed};

const TOOLS: [Needed; 1] = [("unshare", "util-linux")];

/// Returns true if this process may mount.
#[must_use]
pub fn may_mount() -> bool {
    rustix::process::geteuid().is_root()
}

/// Replaces this process with the same command in a new namespace. An additional argument marks the
/// second start. Returns only on failure.
#[must_use]
pub fn enter(mark: &str) -> Error {
    let prepare = || -> Result<Command> {
        ensure!(may_mount(), "mounting file systems requires root");
        tool::check(&TOOLS)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--"]);
        command.arg(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).arg(mark);
        Ok(command)
    };
    match prepare() {
        Ok(mut command) => Error::from(command.exec()).context("unshare"),
        Err(error) => error,
    }
}
