//! The extents of all files of a mounted file system, as `filefrag` counts them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use lab::system::tool;

/// Number of files that one call of `filefrag` gets.
const FILES_MAX: usize = 500;

/// Numbers of extents, one for each file, sorted.
pub(super) struct Extents(Vec<u64>);

impl Extents {
    /// Counts the extents of all files below a folder.
    pub(super) fn of(folder: &Path) -> Result<Self> {
        let mut paths = Vec::new();
        list(folder, &mut paths)?;
        let mut counts = Vec::with_capacity(paths.len());
        for some in paths.chunks(FILES_MAX) {
            let names = some.iter().map(|path| path.to_str());
            let names: Vec<&str> = names.collect::<Option<_>>().context("a name")?;
            let output = tool::output("filefrag", &names)?;
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                counts.push(count(line).with_context(|| format!("filefrag: {line}"))?);
            }
        }
        counts.sort_unstable();
        Ok(Self(counts))
    }

    pub(super) fn files(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn mean(&self) -> f64 {
        self.all() as f64 / self.0.len().max(1) as f64
    }

    pub(super) fn greatest(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    /// Returns the percentage of files in one extent, or in none.
    pub(super) fn whole_percent(&self) -> f64 {
        let whole = self.0.iter().filter(|count| **count <= 1).count();
        whole as f64 * 100.0 / self.0.len().max(1) as f64
    }
}

fn list(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(&entry.path(), found)?;
        } else {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// Returns the number of a line such as `/mnt/a: 3 extents found`.
fn count(line: &str) -> Option<u64> {
    let (_, said) = line.rsplit_once(": ")?;
    let (number, rest) = said.split_once(' ')?;
    rest.starts_with("extent")
        .then(|| number.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_extents_are_found() {
        assert_eq!(count("/mnt/a: b: 3 extents found"), Some(3));
        assert_eq!(count("/mnt/a: 1 extent found"), Some(1));
        assert_eq!(count("/mnt/a: Permission denied"), None);
        let extents = Extents(vec![0, 1, 1, 6]);
        assert_eq!((extents.files(), extents.all()), (4, 8));
        assert_eq!((extents.mean(), extents.greatest()), (2.0, 6));
        assert_eq!(extents.whole_percent(), 75.0);
    }
}
