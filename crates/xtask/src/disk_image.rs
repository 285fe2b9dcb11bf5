//! An image on disk that file systems of several formats use in turn.
//!
//! Programs that make a file system leave holes and unwritten extents, in which a first write costs
//! more. So each format has a template, and the image is overwritten with all bytes of the
//! template: no write allocates on the disk's own file system.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use lab::system::tool;
use rustix::fs::Advice;

use crate::scratch::Scratch;

/// Bytes copied at a time.
const COPIED_BYTES: usize = 1 << 20;

/// A format of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Ext3,
    /// Ext4 without fast commits.
    Ext4,
    /// Ext4 with fast commits.
    Ext4Fast,
    /// Ext4 whose log may have asynchronous commits: without fast ones and `metadata_csum`.
    Ext4Async,
    Xfs,
}

/// An image on disk, made anew before each run.
pub(crate) struct DiskImage {
    path: PathBuf,
    folder: PathBuf,
    size_bytes: u64,
    journal_megabytes: u32,
}

impl Format {
    /// Returns the type that mount and the makers know.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Ext3 => "ext3",
            Self::Ext4 | Self::Ext4Fast | Self::Ext4Async => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// Returns the features to pass to mke2fs.
    const fn features(self) -> Option<&'static str> {
        match self {
            Self::Ext4 => Some("^fast_commit"),
            Self::Ext4Fast => Some("fast_commit"),
            Self::Ext4Async => Some("^fast_commit,^metadata_csum"),
            Self::Ext3 | Self::Xfs => None,
        }
    }

    const fn file_name(self) -> &'static str {
        match self {
            Self::Ext3 => "ext3-template",
            Self::Ext4 => "ext4-template",
            Self::Ext4Fast => "ext4-fast-template",
            Self::Ext4Async => "ext4-async-template",
            Self::Xfs => "xfs-template",
        }
    }
}

impl DiskImage {
    /// Returns an image of this size in a folder. Nothing is written yet.
    pub(crate) fn new(scratch: &Scratch, size_bytes: u64, journal_megabytes: u32) -> Self {
        Self {
            path: scratch.at("image"),
            folder: scratch.at(""),
            size_bytes,
            journal_megabytes,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Overwrites the image with a new file system, and drops it from the page cache.
    pub(crate) fn renew(&self, format: Format) -> Result<()> {
        let mut template = File::open(self.template(format)?).context("template")?;
        let open = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path);
        let mut image = open.context("the image")?;
        let mut bytes = vec![0; COPIED_BYTES];
        loop {
            let count = template.read(&mut bytes).context("template")?;
            if count == 0 {
                break;
            }
            image.write_all(&bytes[..count]).context("the image")?;
        }
        image.sync_all().context("the image")?;
        Ok(rustix::fs::fadvise(&image, 0, None, Advice::DontNeed)?)
    }

    /// Fails if e2fsck finds a problem.
    pub(crate) fn check(&self) -> Result<()> {
        let mut command = Command::new(tool::find("e2fsck").context("e2fsck")?);
        let checked = command.arg("-fn").arg(&self.path).output();
        let checked = checked.context("e2fsck")?;
        let said = String::from_utf8_lossy(&checked.stdout);
        ensure!(checked.status.success(), "e2fsck: {said}");
        Ok(())
    }

    /// Returns the template of a format, which is made at its first use.
    fn template(&self, format: Format) -> Result<PathBuf> {
        let template = self.folder.join(format.file_name());
        if template.exists() {
            return Ok(template);
        }
        let file = File::create(&template).context("template")?;
        file.set_len(self.size_bytes).context("template")?;
        let name = template.to_str().context("a path that is not UTF-8")?;
        if format == Format::Xfs {
            tool::call("mkfs.xfs", &["-q", "-f", name])?;
            return Ok(template);
        }
        let journal = format!("size={}", self.journal_megabytes);
        let now = "lazy_itable_init=0,lazy_journal_init=0";
        let mut arguments = vec!["-q", "-F", "-t", format.kind(), "-b", "4096"];
        arguments.extend(["-J", &journal, "-E", now]);
        arguments.extend(format.features().into_iter().flat_map(|own| ["-O", own]));
        arguments.push(name);
        tool::call("mke2fs", &arguments)?;
        Ok(template)
    }
}
