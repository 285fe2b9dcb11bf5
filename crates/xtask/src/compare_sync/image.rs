//! The image that all sides use: a file whose blocks were all written, with a new ext4.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use lab::system::tool;
use rustix::fs::Advice;

use super::Form;
use crate::scratch::Scratch;

/// Bytes copied at a time.
const COPIED_BYTES: usize = 1 << 20;

/// An image on disk, made anew before each run.
///
/// Programs that make a file system leave holes and unwritten extents, in which a first write costs
/// more. So one makes a template, and the image is overwritten with all bytes of the template.
pub(super) struct Image {
    path: PathBuf,
    /// The new file systems, without fast commits and with them.
    templates: [PathBuf; 2],
}

impl Image {
    /// Makes the templates, and the image as large as they are.
    pub(super) fn make(scratch: &Scratch, form: Form) -> Result<Self> {
        let image = Self {
            path: scratch.at("image"),
            templates: ["plain", "fast"].map(|name| scratch.at(name)),
        };
        for (template, feature) in image.templates.iter().zip(["^fast_commit", "fast_commit"]) {
            let file = File::create(template).context("template")?;
            file.set_len(form.size_bytes).context("template")?;
            let journal = format!("size={}", form.journal_megabytes);
            let now = "lazy_itable_init=0,lazy_journal_init=0";
            let name = template.to_str().context("a path that is not UTF-8")?;
            let options = ["-q", "-F", "-t", "ext4", "-b", "4096", "-J", &journal];
            tool::call(
                "mke2fs",
                &[&options[..], &["-E", now, "-O", feature, name]].concat(),
            )?;
        }
        Ok(image)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Overwrites the image with a new file system, and drops it from the page cache.
    pub(super) fn renew(&self, has_fast_commits: bool) -> Result<()> {
        let mut template = File::open(&self.templates[usize::from(has_fast_commits)])?;
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
    pub(super) fn check(&self) -> Result<()> {
        let mut command = Command::new(tool::find("e2fsck").context("e2fsck")?);
        let checked = command.arg("-fn").arg(&self.path).output();
        let checked = checked.context("e2fsck")?;
        let said = String::from_utf8_lossy(&checked.stdout);
        ensure!(checked.status.success(), "e2fsck: {said}");
        Ok(())
    }
}
