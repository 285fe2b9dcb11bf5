//! Generates the tree of the benchmark, similar to the sources of a large program. The same shape
//! gives the same tree.
//!
//! Sizes spread over eleven octaves, most of them around 4 KiB, and are then scaled to the
//! requested sum. No file has holes or blocks of zeroes, which `mke2fs` would omit.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rt::split_mix::SplitMix;

/// Number of files per directory.
const FILES_PER_DIRECTORY: u32 = 15;
/// Number of subdirectories per directory.
const BRANCHES: usize = 8;
/// Percentage of files per octave of sizes, and the first octave, which starts at 128 bytes.
const OCTAVES: [u32; 11] = [2, 4, 7, 12, 17, 20, 16, 11, 6, 3, 2];
const FIRST_OCTAVE: u32 = 7;
const SEED: u64 = 65_000;
/// Size of the pattern, whose pieces fill the files.
const PATTERN_BYTES: usize = 1 << 20;

/// Number and total size of the files of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) files: u32,
    /// Sum of the file sizes in bytes.
    pub(crate) bytes: u64,
}

impl Shape {
    /// Returns the number of directories, including the root.
    pub(crate) fn directories(self) -> u32 {
        1 + self.files / FILES_PER_DIRECTORY
    }
}

/// Makes the tree.
pub(crate) fn make(root: &Path, shape: Shape) -> Result<()> {
    let mut random = SplitMix::new(SEED);
    let directories = directories(root, shape.directories() as usize);
    for directory in &directories {
        fs::create_dir(directory).with_context(|| directory.display().to_string())?;
    }
    let pattern = pattern(&mut random);
    for (number, size) in sizes(shape, &mut random).into_iter().enumerate() {
        let directory = &directories[random.below(directories.len() as u64) as usize];
        let path = directory.join(format!("file-{number:05}"));
        let start = random.below(PATTERN_BYTES as u64) as usize;
        let bytes: Vec<u8> = pattern[start..]
            .iter()
            .chain(pattern.iter().cycle())
            .take(size as usize)
            .copied()
            .collect();
        fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Returns the paths of the directories, each before its subdirectories.
fn directories(root: &Path, count: usize) -> Vec<PathBuf> {
    let mut directories = vec![root.to_owned()];
    for number in 1..count {
        let parent = &directories[(number - 1) / BRANCHES];
        directories.push(parent.join(format!("directory-{number:04}")));
    }
    directories
}

/// Returns printable characters.
fn pattern(random: &mut SplitMix) -> Vec<u8> {
    let character = || b' ' + random.below(95) as u8;
    std::iter::repeat_with(character)
        .take(PATTERN_BYTES)
        .collect()
}

fn sizes(shape: Shape, random: &mut SplitMix) -> Vec<u64> {
    let raw: Vec<u64> = (0..shape.files).map(|_| size(random)).collect();
    let sum: u64 = raw.iter().sum();
    let stretched = |size: u64| u128::from(size) * u128::from(shape.bytes) / u128::from(sum);
    let mut sizes: Vec<u64> = raw
        .into_iter()
        .map(|size| u64::try_from(stretched(size)).unwrap_or(u64::MAX))
        .collect();
    // Gives the rounding error to the first file.
    let rest = shape.bytes - sizes.iter().sum::<u64>();
    if let Some(first) = sizes.first_mut() {
        *first += rest;
    }
    sizes
}

fn size(random: &mut SplitMix) -> u64 {
    let mut percent = random.below(100) as u32;
    for (step, share) in (0..).zip(OCTAVES) {
        if percent < share {
            let least = 1 << (FIRST_OCTAVE + step);
            return least + random.below(least);
        }
        percent -= share;
    }
    unreachable!("the shares are a hundred percent")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_add_up_and_do_not_depend_on_chance() {
        assert_eq!(OCTAVES.iter().sum::<u32>(), 100);
        let shape = Shape {
            files: 1000,
            bytes: 10_000_000,
        };
        let found = sizes(shape, &mut SplitMix::new(SEED));
        assert_eq!(found.len(), 1000);
        assert_eq!(found.iter().sum::<u64>(), 10_000_000);
        assert_eq!(found, sizes(shape, &mut SplitMix::new(SEED)));
    }

    #[test]
    fn a_tree_is_made_as_it_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("tree");
        let shape = Shape {
            files: 150,
            bytes: 1_000_000,
        };
        make(&root, shape).expect("there is room");
        let (mut waiting, mut directories, mut files, mut bytes) = (vec![root], 0, 0, 0);
        while let Some(directory) = waiting.pop() {
            directories += 1;
            for entry in fs::read_dir(directory).expect("it is there") {
                let entry = entry.expect("it is read");
                let metadata = entry.metadata().expect("it is there");
                if metadata.is_dir() {
                    waiting.push(entry.path());
                } else {
                    files += 1;
                    bytes += metadata.len();
                }
            }
        }
        assert_eq!(
            (directories, files, bytes),
            (shape.directories(), 150, 1_000_000)
        );
    }
}
