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

    /// Removes the folders that killed processes have left in a folder of the user.
    pub(crate) fn release_strays(folder: &Path, purpose: &str) {
        let prefix = format!("jext-{purpose}-");
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(&prefix));
            let process = process.and_then(|process| process.parse::<u32>().ok());
            let is_dead = |process: u32| !Path::new("/proc").join(process.to_string()).exists();
            if process.is_some_and(is_dead) {
                // What cannot be removed is left to its owner.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_dead_processes_are_strays() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = Scratch::make(folder.path(), "peers").expect("it is new");
        // The largest process id is less than 2^22.
        for name in ["jext-peers-9999999", "jext-peers-x", "jext-other-9999999"] {
            fs::create_dir(folder.path().join(name)).expect("it is new");
        }
        Scratch::release_strays(folder.path(), "peers");
        let left = |name: &str| folder.path().join(name).exists();
        assert!(!left("jext-peers-9999999"));
        assert!(left("jext-peers-x") && left("jext-other-9999999") && own.at("").exists());
    }
}
