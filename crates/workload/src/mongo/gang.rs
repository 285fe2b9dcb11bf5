//! The processes of Mongo, and their trees.

use super::{FOLDER, Parameters};
use crate::client::Client;
use crate::contents;
use crate::copier::Copier;
use crate::meter::Call;
use crate::run_error::RunError;
use crate::target::{FileKind, OpenFlags};

/// Name prefixes of the original trees and of their copies.
pub(super) const FIRST: &str = "testdir1";
pub(super) const SECOND: &str = "testdir2";

/// A process with one tree per repetition.
pub(super) struct Process {
    copier: Copier,
    parameters: Parameters,
    pub(super) trees: Vec<Tree>,
}

/// A tree, and its copy after the copy phase.
pub(super) struct Tree {
    // Repetition and process: `-1-0`.
    suffix: String,
    key: u64,
    // Directory and size of each file, indexed by the file's number.
    files: Vec<(u32, u64)>,
    directories: u32,
}

/// Totals of a process.
pub(super) struct Counted {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Space of the trees and of their copies.
    pub(super) allocated: u64,
}

impl Tree {
    fn root(&self, kind: &str) -> String {
        format!("{FOLDER}/{kind}{}", self.suffix)
    }

    fn path(&self, kind: &str, number: usize) -> String {
        format!("{}/d{}/f{number}", self.root(kind), self.files[number].0)
    }

    fn key_of(&self, number: usize) -> u64 {
        contents::key(self.key << 32 | number as u64)
    }

    /// Returns the paths of the files above a size in the tree of this kind.
    pub(super) fn larger_than(&self, size: u64, kind: &str) -> impl Iterator<Item = String> {
        let numbers = (0..self.files.len()).filter(|number| self.files[*number].1 > size);
        let paths: Vec<String> = numbers.map(|number| self.path(kind, number)).collect();
        paths.into_iter()
    }
}

impl Process {
    pub(super) fn new(parameters: &Parameters, index: u32, client: Client) -> Self {
        let tree = |repetition: u32| Tree {
            suffix: format!("-{repetition}-{index}"),
            key: u64::from(repetition) << 16 | u64::from(index),
            files: Vec::new(),
            directories: 0,
        };
        Self {
            copier: Copier::new(client, parameters.buffer),
            parameters: parameters.clone(),
            trees: (0..parameters.repetitions).map(tree).collect(),
        }
    }

    pub(super) fn into_client(self) -> Client {
        self.copier.client
    }

    fn client(&mut self) -> &mut Client {
        &mut self.copier.client
    }

    /// Runs a phase in the tree of one repetition.
    pub(super) fn in_tree(
        &mut self,
        repetition: usize,
        work: fn(&mut Self, &mut Tree) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let mut tree = self.trees.remove(repetition);
        let result = work(self, &mut tree);
        self.trees.insert(repetition, tree);
        self.client().advance(1);
        result
    }

    /// Draws a number from a heavy-tailed distribution with this median; at most `most`.
    fn draw(&mut self, median: u64, most: u64) -> u64 {
        loop {
            let share = 1.0 - self.client().random.unit();
            let drawn = median as f64 * share / (1.0 - share);
            if drawn <= most as f64 {
                return drawn as u64;
            }
        }
    }

    pub(super) fn create(&mut self, tree: &mut Tree) -> Result<(), RunError> {
        let root = tree.root(FIRST);
        self.client().make_directory(&root)?;
        let (mut bytes, mut room) = (0, 0);
        while bytes < self.parameters.bytes && self.client().goes_on()? {
            if room == 0 {
                let directory = format!("{root}/d{}", tree.directories);
                self.client().make_directory(&directory)?;
                tree.directories += 1;
                let (median, most) = (
                    self.parameters.directory_median,
                    self.parameters.directory_max,
                );
                room = self.draw(u64::from(median), u64::from(most)).max(1);
            }
            room -= 1;
            let size = self.draw(self.parameters.median, self.parameters.file_max);
            let size = size.min(self.parameters.bytes - bytes);
            tree.files.push((tree.directories - 1, size));
            let number = tree.files.len() - 1;
            let (path, key) = (tree.path(FIRST, number), tree.key_of(number));
            let block = self.parameters.buffer;
            self.client().make_file(path, key, size, block)?;
            bytes += size;
        }
        Ok(())
    }

    pub(super) fn copy(&mut self, tree: &mut Tree) -> Result<(), RunError> {
        self.copier
            .copy_directory(&tree.root(FIRST), &tree.root(SECOND))
    }

    pub(super) fn link(&mut self, tree: &mut Tree) -> Result<(), RunError> {
        for number in 0..tree.files.len() {
            if !self.client().goes_on()? {
                break;
            }
            let path = format!("{}.lnk", tree.path(FIRST, number));
            let contents = format!("f{number}");
            self.client()
                .call(Call::Symlink, |target| target.symlink(&contents, &path))?;
        }
        Ok(())
    }

    pub(super) fn read(&mut self, tree: &mut Tree) -> Result<(), RunError> {
        let mut seen = 0;
        for kind in [FIRST, SECOND] {
            self.walk(&tree.root(kind), &mut |process, path, entry| {
                if entry == FileKind::File {
                    seen += process.read_file(tree, path)?;
                }
                Ok(())
            })?;
        }
        let expected = 2 * tree.files.iter().map(|(_, size)| size).sum::<u64>();
        if seen != expected && self.client().goes_on()? {
            return Err(RunError::ShortFile {
                path: tree.root(FIRST),
                expected,
                got: seen,
            });
        }
        Ok(())
    }

    fn read_file(&mut self, tree: &Tree, path: &str) -> Result<u64, RunError> {
        let name = path.rsplit_once("/f").map_or("", |(_, number)| number);
        let number: usize = name.parse().map_err(|_| RunError::WrongTree {
            path: path.to_owned(),
            fact: "nobody has made this".to_owned(),
        })?;
        let (key, block) = (tree.key_of(number), self.parameters.buffer);
        self.client()
            .with_file(path, OpenFlags::READ, key, |client, file| {
                client.read_to_end(file, block)
            })
    }

    pub(super) fn stat(&mut self, tree: &mut Tree) -> Result<(), RunError> {
        for kind in [FIRST, SECOND] {
            self.walk(&tree.root(kind), &mut |process, path, _| {
                process.client().stat(path).map(drop)
            })?;
        }
        Ok(())
    }

    pub(super) fn rename(&mut self, tree: &mut Tree) -> Result<(), RunError> {
        self.walk(&tree.root(FIRST), &mut |process, path, kind| {
            if kind == FileKind::File {
                process.client().rename(path, &format!("{path}.r"))?;
            }
            Ok(())
        })
    }

    pub(super) fn delete(&mut self, tree: &mut Tree) -> Result<(), RunError> {
        for kind in [FIRST, SECOND] {
            let root = tree.root(kind);
            self.walk(&root, &mut |process, path, kind| {
                if kind == FileKind::Directory {
                    process.client().remove_directory(path)
                } else {
                    process.client().delete(path)
                }
            })?;
            self.client().remove_directory(&root)?;
        }
        Ok(())
    }

    /// Visits everything below a directory, each directory after its entries.
    fn walk(
        &mut self,
        directory: &str,
        visit: &mut dyn FnMut(&mut Self, &str, FileKind) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        for entry in self.client().list(directory)? {
            if !self.client().goes_on()? {
                return Ok(());
            }
            let path = format!("{directory}/{}", entry.name);
            if entry.kind == FileKind::Directory {
                self.walk(&path, visit)?;
            }
            visit(self, &path, entry.kind)?;
        }
        Ok(())
    }

    /// Counts files and space, outside the measured time.
    pub(super) fn count(&mut self) -> Result<Counted, RunError> {
        let target = self.copier.client.meter.target();
        let mut counted = Counted {
            files: 0,
            bytes: 0,
            allocated: 0,
        };
        for tree in &self.trees {
            for number in 0..tree.files.len() {
                counted.files += 1;
                counted.bytes += tree.files[number].1;
                for kind in [FIRST, SECOND] {
                    counted.allocated += target.stat(&tree.path(kind, number))?.allocated;
                }
            }
        }
        Ok(counted)
    }
}
