//! A mount namespace of one's own.
//!
//! It ends with its processes, and what was mounted in it with it, so that no mount and no loop
//! device stays behind, however a command ends.

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

/// Replaces this process by the same command in a namespace of its own, with one more argument by
/// which it knows that it is there. Returns only why it could not.
#[must_use]
pub fn enter(mark: &str) -> Error {
    let prepare = || -> Result<Command> {
        ensure!(may_mount(), "this mounts file systems, so it needs root");
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
