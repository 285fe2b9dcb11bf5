//! The kernel side: Debian's PostMark on ext3 or ext4, mounted through a loop device from an image
//! on a tmpfs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lab::system::Mounted;
use lab::system::tool::{self, Needed};
use workload::Control;
use workload::directory::DirectoryTarget;

use super::{Form, MOUNT_OPTIONS, Test, sequential};
use crate::spans::Run;

/// A directory that every system has and that nothing uses; the mounts on it are visible only to
/// this process.
const MOUNT_POINT: &str = "/mnt";
/// Space on the tmpfs in addition to the image, in bytes.
const ROOM_BYTES: u64 = 64 << 20;
/// Programs to run, and the Debian packages that contain them.
pub(super) const TOOLS: [Needed; 5] = [
    ("postmark", "postmark"),
    ("mke2fs", "e2fsprogs"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("losetup", "mount"),
];

/// A tmpfs with an image and its mount point.
pub(super) struct Place {
    image: PathBuf,
    mounted: PathBuf,
    script: PathBuf,
    form: Form,
}

impl Place {
    /// Mounts the tmpfs. The process must have a private mount namespace.
    pub(super) fn make(form: Form) -> Result<Self> {
        let size = format!("size={}", form.size_bytes + ROOM_BYTES);
        tool::call(
            "mount",
            &["-t", "tmpfs", "-o", &size, "jext-bench", MOUNT_POINT],
        )?;
        let folder = Path::new(MOUNT_POINT);
        let place = Self {
            image: folder.join("image"),
            mounted: folder.join("mounted"),
            script: folder.join("script"),
            form,
        };
        fs::create_dir(&place.mounted).context("mount point")?;
        Ok(place)
    }

    /// Makes a file system and runs a test on it.
    pub(super) fn run(&self, test: Test, control: &Control) -> Result<Run> {
        self.format()?;
        let mounted = self.mount()?;
        let run = test.run_program(&self.mounted, &self.script, control)?;
        mounted.unmount()?;
        Ok(run)
    }

    /// Makes a file system, and writes and reads a large file; returns the seconds of each phase.
    pub(super) fn run_sequential(&self, bytes: u64) -> Result<[f64; 3]> {
        self.format()?;
        let mounted = self.mount()?;
        let written = sequential::write(&DirectoryTarget::new(&self.mounted)?, bytes)?;
        mounted.unmount()?;
        let mounted = self.mount()?;
        let target = DirectoryTarget::new(&self.mounted)?;
        let read = sequential::read(&target, bytes)?;
        let read_again = sequential::read(&target, bytes)?;
        drop(target);
        mounted.unmount()?;
        Ok([written, read, read_again])
    }

    fn mount(&self) -> Result<Mounted> {
        let options = format!("loop,{MOUNT_OPTIONS}");
        let kind = self.form.file_system.name();
        Mounted::new(kind, &options, text(&self.image)?, &self.mounted)
    }

    fn format(&self) -> Result<()> {
        let Form {
            file_system,
            size_bytes,
            block_bytes,
            journal_megabytes,
            ..
        } = self.form;
        // A new file, so that its pages are allocated anew, as jext's are.
        let image = File::create(&self.image).context("image")?;
        image.set_len(size_bytes).context("image")?;
        let (block, journal) = (block_bytes.to_string(), format!("size={journal_megabytes}"));
        let name = text(&self.image)?;
        let (kind, now) = (file_system.name(), "lazy_itable_init=0,lazy_journal_init=0");
        let options = [
            "-q", "-F", "-t", kind, "-E", now, "-b", &block, "-J", &journal,
        ];
        tool::call("mke2fs", &[&options[..], &[name]].concat())
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}
