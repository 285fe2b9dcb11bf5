//! A block device of the kernel: an existing one, or a loop device over a file.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::tool;

/// A device that can be mounted. A loop device is detached on drop, or with the mount that holds
/// it.
#[derive(Debug)]
pub struct Attached {
    path: String,
    is_loop: bool,
}

/// The requests to a device since it was created, from the kernel's statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// Reads.
    pub reads: u64,
    /// Sectors of 512 bytes that they read.
    pub read_sectors: u64,
    /// Writes.
    pub writes: u64,
    /// Sectors of 512 bytes that they wrote.
    pub write_sectors: u64,
    /// Flushes.
    pub flushes: u64,
}

/// The fields of a device's `stat` file: Linux, Documentation/block/stat.rst.
const FIELDS: [usize; 5] = [0, 2, 4, 6, 15];

impl Attached {
    /// Returns the device at a path, or attaches a loop device to the file there.
    ///
    /// # Errors
    /// Fails if the path is neither a block device nor a file that can be attached.
    pub fn new(path: &Path) -> Result<Self> {
        let shown = path.display();
        let kind = fs::metadata(path)
            .with_context(|| shown.to_string())?
            .file_type();
        let text = path
            .to_str()
            .with_context(|| format!("{shown}: not UTF-8"))?;
        if kind.is_block_device() {
            let path = text.to_owned();
            return Ok(Self {
                path,
                is_loop: false,
            });
        }
        if !kind.is_file() {
            bail!("{shown}: neither a file nor a block device");
        }
        Self::attach(&["--find", "--show", text])
    }

    /// Attaches a loop device to a file, past the page cache of the file.
    ///
    /// # Errors
    /// Fails if the file cannot be attached, or its file system does not support that.
    pub fn direct(file: &Path) -> Result<Self> {
        let text = super::mounted::text(file)?;
        Self::attach(&["--find", "--show", "--direct-io=on", text])
    }

    fn attach(arguments: &[&str]) -> Result<Self> {
        let output = tool::output("losetup", arguments)?;
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Self {
            path,
            is_loop: true,
        })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Leaves a loop device to the mount that holds it: the kernel detaches it after the unmount,
    /// even if this process is killed.
    ///
    /// # Errors
    /// Fails with the message of `losetup`.
    pub fn leave_to_mount(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_loop) {
            // The kernel defers the detachment of a device in use.
            tool::call("losetup", &["--detach", &self.path])?;
        }
        Ok(())
    }

    /// Returns its requests.
    ///
    /// # Errors
    /// Fails if the kernel does not report it.
    pub fn requests(&self) -> Result<Requests> {
        let number = fs::metadata(&self.path)
            .with_context(|| self.path.clone())?
            .rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let place = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
        let text = fs::read_to_string(&place).with_context(|| place.display().to_string())?;
        let all: Vec<u64> = text
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [reads, read_sectors, writes, write_sectors, flushes] =
            FIELDS.map(|field| all.get(field).copied().unwrap_or(0));
        Ok(Requests {
            reads,
            read_sectors,
            writes,
            write_sectors,
            flushes,
        })
    }
}

impl core::ops::Sub for Requests {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read_sectors: self.read_sectors.saturating_sub(before.read_sectors),
            writes: self.writes.saturating_sub(before.writes),
            write_sectors: self.write_sectors.saturating_sub(before.write_sectors),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.is_loop {
            let _ = tool::call("losetup", &["--detach", &self.path]);
        }
    }
}
