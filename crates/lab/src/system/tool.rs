//! Running the system's tools.

use std::path::PathBuf;
use std::process::{Command, Output};

use std::os::unix::process::ExitStatusExt;

use anyhow::{Context, Result, bail};

/// Folders of the tools besides those of PATH.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Tools that are needed, and the Debian packages that they are from.
pub type Needed = (&'static str, &'static str);

/// Names the first tool that is missing, and the package that has it.
///
/// # Errors
/// If one is missing.
pub fn check(needed: &[Needed]) -> Result<()> {
    for (tool, package) in needed {
        if find(tool).is_none() {
            bail!("{tool} is missing; apt-get install {package}");
        }
    }
    Ok(())
}

/// Returns the path of a tool.
#[must_use]
pub fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders
        .map(|folder| folder.join(tool))
        .find(|path| path.is_file())
}

/// Runs a tool that has to succeed.
///
/// # Errors
/// If it is missing or fails: what it said.
pub fn call(tool: &str, arguments: &[&str]) -> Result<()> {
    output(tool, arguments).map(drop)
}

/// Runs a tool that has to succeed; what it printed.
///
/// # Errors
/// As of [`call`].
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
