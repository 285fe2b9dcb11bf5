//! A mount.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::tool;

/// A mounted file system, unmounted with its value.
#[derive(Debug)]
pub struct Mounted {
    folder: PathBuf,
    is_there: bool,
}

impl Mounted {
    /// Mounts a device, or whatever the type takes for one, at a folder.
    ///
    /// # Errors
    /// What `mount` said.
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
    /// What `umount` said.
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
            // There is an error to report already.
            let _ = tool::call("umount", &["--lazy", folder]);
        }
    }
}

pub(super) fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{}: not UTF-8", path.display()))
}
