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

    /// Removes a file or a folder in it.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        let path = self.at(name);
        let removed = match path.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.with_context(|| path.display().to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Drop cannot return an error.
        let _ = fs::remove_dir_all(&self.0);
    }
}
