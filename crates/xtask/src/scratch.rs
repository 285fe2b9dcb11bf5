//! A private folder of a comparison, removed on drop.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A new folder within a folder of the user.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder. `purpose` is a part of its name.
    pub(crate) fn make(folder: &Path, purpose: &str) -> Result<Self> {
        let path = folder.join(format!("jext-{purpose}-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    /// Returns the path of a file in it.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Drop cannot return an error.
        let _ = fs::remove_dir_all(&self.0);
    }
}
