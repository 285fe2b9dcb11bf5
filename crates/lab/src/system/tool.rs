//! Runs the system's tools.

use std::path::PathBuf;
use std::process::{Command, Output};

use std::os::unix::process::ExitStatusExt;

use anyhow::{Context, Result, bail};

/// Directories of tools in addition to PATH.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// A required tool, and the Debian package that contains it.
pub type Needed = (&'static str, &'static str);

/// Checks that all tools are installed.
///
/// # Errors
/// Fails with the first missing tool and its package.
pub fn check(needed: &[Needed]) -> Result<()> {
    for (tool, package) in needed {
        if find(tool).is_none() {
            bail!("{tool} is missing; apt-get install {package}");
        }
    }
    Ok(())
}

/// Returns the path of a tool; `None` if it is not installed.
#[must_use]
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders
        .map(|folder| folder.join(tool))
        .find(|path| path.is_file())
}

/// Runs a tool that must succeed.
///
/// # Errors
/// Fails if it is missing, or with its message if it fails.
pub fn call(tool: &str, arguments: &[&str]) -> Result<()> {
    output(tool, arguments).map(drop)
}

/// Runs a tool that must succeed; returns its output.
///
/// # Errors
/// Fails as [`call`].
pub fn output(tool: &str, arguments: &[&str]) -> Result<Output> {
    let path = find(tool).with_context(|| format!("{tool} is missing"))?;
    let output = Command::new(path)
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .with_context(|| tool.to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.signal() {
            Some(signal) => bail!("{tool}: ended by signal {signal}"),
            None => bail!("{tool} {}: {}", arguments.join(" "), said.trim()),
        }
    }
    Ok(output)
}
