//! `-o remount`: changes the flags of an existing mount.
//!
//! The kernel keeps the flags, and passes its cached writes to jext before a mount becomes
//! read-only. The process that serves the mount is not notified: its options stay as they were, and
//! a volume that it opened read-only stays read-only.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use fuse::mount_point::{is_kernel_flag, source_at};
use jext::mount_options::split;
use rustix::io::Errno;

use super::options;
use crate::image::MountArguments;
use crate::output;

/// The option.
const REMOUNT: &str = "remount";
/// An attribute that no file has, to probe for a read-only mount.
const PROBE: &str = "user.jext.is-this-writable";

/// Returns true if an existing mount is to be changed.
pub(super) fn is_wanted(arguments: &MountArguments) -> bool {
    words(arguments).any(|word| word == REMOUNT)
}

fn words(arguments: &MountArguments) -> impl Iterator<Item = &str> {
    arguments.options.iter().flat_map(|list| split(list))
}

/// Changes the flags of the mount at a directory.
pub(super) fn run(directory: &Path, arguments: &MountArguments) -> Result<ExitCode> {
    let at = directory.display();
    if source_at(directory)?.is_none() {
        bail!("{at}: jext has mounted nothing there");
    }
    let flags: Vec<_> = words(arguments)
        .filter(|word| is_kernel_flag(word))
        .collect();
    let mut others = words(arguments)
        .filter(|word| *word != REMOUNT && !is_kernel_flag(word) && !options::means_nothing(word));
    if let Some(other) = others.next() {
        output::warn(&format!(
            "{at}: {other} stays as it was: remount changes ro, rw, nosuid, nodev, noexec, noatime, sync and dirsync only"
        ));
    }
    remount(directory, &flags)?;
    let is_writable = flags.iter().rfind(|flag| ["ro", "rw"].contains(flag)) == Some(&"rw");
    if is_writable && rustix::fs::removexattr(directory, PROBE) == Err(Errno::ROFS) {
        remount(directory, &["ro"])?;
        bail!(
            "{at}: the volume was opened read-only, or is after an error; unmount it and mount it again"
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs mount(8), which keeps the flags that are not named, without its own helpers, of which jext
/// may be one.
fn remount(directory: &Path, flags: &[&str]) -> Result<()> {
    let list = [&[REMOUNT], flags].concat().join(",");
    let output = std::process::Command::new("mount")
        .args(["-i", "-o", &list, "--"])
        .arg(directory)
        .output()
        .context("mount")?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("{}", said.trim().replace('\n', "; "));
}
