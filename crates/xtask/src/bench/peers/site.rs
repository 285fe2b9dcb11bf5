//! The things that all works share: a tmpfs, a folder on a disk, and the program jext.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use lab::system::Mounted;
use workload::Control;

use super::PURPOSE;
use crate::disk_image::DiskImage;
use crate::program;
use crate::scratch::Scratch;

/// A directory that every system has and that nothing uses; the mounts on it are visible only to
/// this process.
const MEMORY: &str = "/mnt";
/// Maximum size of the tmpfs. Only what is written takes memory.
const MEMORY_BYTES: u64 = 64 << 30;
/// Size of the image on disk, and of its log in megabytes.
const DISK: (u64, u32) = (512 << 20, 64);
/// The same for small loads.
const SMALL_DISK: (u64, u32) = (96 << 20, 16);

/// The needs of the selected works.
pub(super) struct Needs {
    /// An image on disk.
    pub(super) disk: bool,
    /// A file system of XFS.
    pub(super) xfs: bool,
    /// The program jext.
    pub(super) jext: bool,
}

/// The places of all runs. The field order is the drop order.
pub(super) struct Site {
    /// A folder in a tmpfs.
    pub(super) memory: Scratch,
    /// The image in a folder on a disk, and that folder.
    disk: Option<(DiskImage, Scratch)>,
    jext: Option<PathBuf>,
    pub(super) is_small: bool,
    pub(super) control: Arc<Control>,
    _tmpfs: Mounted,
}

impl Site {
    /// Mounts a tmpfs, and makes a folder on the disk if that is needed. The process must have a
    /// private mount namespace.
    pub(super) fn make(
        needs: &Needs,
        folder: &Path,
        is_small: bool,
        control: Arc<Control>,
    ) -> Result<Self> {
        let jext = needs.jext.then(program::find).transpose()?;
        let folder = needs.disk.then(|| fs::canonicalize(folder)).transpose()?;
        if let Some(folder) = &folder {
            let shown = folder.display();
            ensure!(
                !folder.starts_with(MEMORY),
                "{shown}: the tmpfs of this command on {MEMORY} hides it; choose another --folder"
            );
        }
        let options = format!("size={MEMORY_BYTES}");
        let tmpfs = Mounted::new("tmpfs", &options, "jext-bench", Path::new(MEMORY))?;
        let disk = folder.map(|folder| -> Result<_> {
            let scratch = Scratch::make(&folder, PURPOSE)?;
            // XFS needs 300 MB.
            let (bytes, journal) = match is_small && !needs.xfs {
                true => SMALL_DISK,
                false => DISK,
            };
            let image = DiskImage::new(&scratch, bytes, journal);
            Ok((image, scratch))
        });
        Ok(Self {
            memory: Scratch::make(Path::new(MEMORY), PURPOSE)?,
            disk: disk.transpose()?,
            jext,
            is_small,
            control,
            _tmpfs: tmpfs,
        })
    }

    /// Returns the image on disk.
    pub(super) fn disk_image(&self) -> Result<&DiskImage> {
        let disk = self.disk.as_ref().context("no work needs a disk")?;
        Ok(&disk.0)
    }

    /// Returns the path of a file on disk.
    pub(super) fn disk_file(&self, name: &str) -> Result<PathBuf> {
        let disk = self.disk.as_ref().context("no work needs a disk")?;
        Ok(disk.1.at(name))
    }

    /// Returns the program jext.
    pub(super) fn jext(&self) -> Result<&Path> {
        self.jext.as_deref().context("no side needs the program")
    }

    /// Fails if the user has interrupted the command.
    pub(super) fn check_running(&self) -> Result<()> {
        ensure!(!self.control.is_cancelled(), "interrupted");
        Ok(())
    }
}
