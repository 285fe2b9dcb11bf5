//! A mount.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::tool;

/// A mounted file system, unmounted on drop.
#[derive(Debug)]
pub struct Mounted {
    folder: PathBuf,
    is_there: bool,
}

impl Mounted {
    /// Mounts a device, or another source of this type, at a folder.
    ///
    /// # Errors
    /// Fails with the message of `mount`.
    pub fn new(kind: &str, options: &str, source: &str, folder: &Path) -> Result<Self> {
        let at = text(folder)?;
        tool::call("mount", &["-t", kind, "-o", options, source, at])?;
        Ok(Self::found(folder))
    }

    /// Returns the mount of another process at a folder.
    #[must_use]
    pub fn found(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            is_there: true,
        }
    }

    /// Returns its mount point.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// Fails with the message of `umount`.
    pub fn unmount(mut self) -> Result<()> {
        tool::call("umount", &[text(&self.folder)?])?;
        self.is_there = false;
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_there
            && let Ok(folder) = text(&self.folder)
        {
            // Drop cannot return an error.
            let _ = tool::call("umount", &["--lazy", folder]);
        }
    }
}

pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{}: not UTF-8", path.display()))
}
