//! `jext umount`: unmounts, and waits until the image is closed.
//!
//! umount(8) returns when the kernel has unmounted; jext writes the rest afterwards. This command
//! returns when other programs can use the image.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::in_use::{Holders, locker};

/// Maximum time for the process of a read-only mount to close its image.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between checks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Unmount a file system that `jext mount` has mounted, and wait until its image is closed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Mount point.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let place = arguments.directory.display().to_string();
    // A mount whose process has ended cannot be resolved, but its name is still known.
    let directory = std::path::absolute(&arguments.directory)?;
    let directory = directory.canonicalize().unwrap_or(directory);
    let source = fuse::mount_point::source_at(&directory).context("the table of mounts")?;
    let Some(source) = source else {
        bail!("{place}: `jext mount` has mounted nothing there");
    };
    // Opened first, so that it is the same image afterwards.
    let image = File::open(&source).ok();
    let holders = Holders::of(source.as_ref());
    let locker = std::fs::metadata(&source).ok().as_ref().and_then(locker);
    unmount(&directory).with_context(|| place.clone())?;
    if let Some(image) = image {
        wait_for_lock(&image, locker).with_context(|| source.clone())?;
    }
    if let Some(holders) = holders {
        wait_for_one(&holders);
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the process of the mount has given the lock of the image back. Another process may
/// have it by then.
fn wait_for_lock(image: &File, locker_before: Option<u32>) -> io::Result<()> {
    let Some(process) = locker_before else {
        return Ok(rustix::fs::flock(image, FlockOperation::LockShared)?);
    };
    let metadata = image.metadata()?;
    loop {
        match rustix::fs::flock(image, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) if locker(&metadata) == Some(process) => {
                std::thread::sleep(LOOK_EVERY);
            }
            Err(Errno::WOULDBLOCK) => return Ok(()),
            done => return Ok(done?),
        }
    }
}

/// Waits until a process has closed the image. For a read-only mount the lock does not show this,
/// because other readers share it.
fn wait_for_one(holders: &Holders) {
    let began = Instant::now();
    while !holders.has_shrunk() && began.elapsed() < PATIENCE {
        std::thread::sleep(LOOK_EVERY);
    }
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
