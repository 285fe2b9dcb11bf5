//! `jext umount`: unmounts, and waits until the image is closed.
//!
//! umount(8) returns when the kernel has let go; what the mount still holds is written after that.
//! This command returns when the image can be used by others.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::fs::FlockOperation;
use rustix::mount::UnmountFlags;

/// Unmount a file system that `jext mount` has mounted, and wait until its image is closed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Mount point.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let place = arguments.directory.display().to_string();
    // A mount whose process has ended cannot be resolved, and is known by its name all the same.
    let directory = std::path::absolute(&arguments.directory)?;
    let directory = directory.canonicalize().unwrap_or(directory);
    let source = fuse::mount_point::source_at(&directory).context("the table of mounts")?;
    let Some(source) = source else {
        bail!("{place}: `jext mount` has mounted nothing there");
    };
    // Opened before, so that it is the same image afterwards.
    let image = File::open(&source).ok();
    unmount(&directory).with_context(|| place.clone())?;
    if let Some(image) = image {
        rustix::fs::flock(&image, FlockOperation::LockShared).with_context(|| source.clone())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn unmount(directory: &std::path::Path) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(rustix::mount::unmount(directory, UnmountFlags::empty())?);
    }
    let output = std::process::Command::new("fusermount3")
        .args(["-u", "--"])
        .arg(directory)
        .output()
        .context("fusermount3 (Debian: fuse3)")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
