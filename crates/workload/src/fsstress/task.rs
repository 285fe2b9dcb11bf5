//! One task of fsstress.

use super::Parameters;
use super::model::{File, Model, Node};
use crate::client::Client;
use crate::contents;
use crate::meter::Call;
use crate::run_error::RunError;
use crate::target::{FileKind, OpenFlags, Target};

/// An operation and its frequency.
type Weighted = (u64, fn(&mut Task) -> Result<(), RunError>);

const OPERATIONS: &[Weighted] = &[
    (4, Task::create),
    (4, Task::write),
    (4, Task::read),
    (2, Task::make_directory),
    (2, Task::symlink),
    (2, Task::rename),
    (2, Task::truncate),
    (1, Task::unlink),
    (1, Task::link),
    (1, Task::remove_directory),
    (1, Task::stat),
    (1, Task::list),
    (1, Task::read_link),
    (1, Task::fsync),
    (1, Task::fdatasync),
    (1, Task::fsync_directory),
    (1, Task::sync),
];

/// A task with its directory.
pub(super) struct Task {
    pub(super) client: Client,
    parameters: Parameters,
    model: Model,
    index: u32,
    made: u64,
}

impl Task {
    pub(super) fn new(
        parameters: &Parameters,
        directory: String,
        index: u32,
        client: Client,
    ) -> Self {
        Self {
            client,
            parameters: parameters.clone(),
            model: Model::new(&directory),
            index,
            made: 0,
        }
    }

    pub(super) fn work(&mut self) -> Result<(), RunError> {
        let total: u64 = OPERATIONS.iter().map(|(weight, _)| weight).sum();
        for _ in 0..self.parameters.operations {
            if !self.client.goes_on()? {
                break;
            }
            let mut drawn = self.client.random.below(total);
            for (weight, operation) in OPERATIONS {
                if drawn < *weight {
                    operation(self)?;
                    break;
                }
                drawn -= weight;
            }
            self.client.advance(1);
        }
        Ok(())
    }

    /// Compares the whole tree with the model.
    pub(super) fn check(&mut self) -> Result<(), RunError> {
        let names: Vec<(String, Node)> = self.model.names.clone().into_iter().collect();
        for (name, node) in names {
            match node {
                Node::Directory => self.check_list(&name)?,
                Node::File(number) => {
                    self.check_stat(&name)?;
                    let File { key, size, .. } = self.model.files[number];
                    let block = self.parameters.write_max;
                    self.client.read_file(&name, key, size, block)?;
                }
                Node::Symlink(contents) => self.check_link(&name, &contents)?,
            }
        }
        Ok(())
    }

    /// Returns a name that does not exist yet, unless the limit of names is reached.
    fn new_name(&mut self) -> Option<String> {
        if self.model.names.len() > self.parameters.names_max as usize {
            return None;
        }
        let directory = self.pick(|node| *node == Node::Directory)?;
        self.made += 1;
        Some(format!("{directory}/{:x}", self.made))
    }

    fn pick(&mut self, fits: impl Fn(&Node) -> bool) -> Option<String> {
        self.model.pick(&mut self.client.random, fits)
    }

    /// Returns the name and number of a random file.
    fn pick_file(&mut self) -> Option<(String, usize)> {
        let name = self.pick(|node| matches!(node, Node::File(_)))?;
        match self.model.names.get(&name) {
            Some(Node::File(number)) => Some((name, *number)),
            _ => None,
        }
    }

    fn create(&mut self) -> Result<(), RunError> {
        let Some(name) = self.new_name() else {
            return Ok(());
        };
        let key = contents::key(u64::from(self.index) << 40 | self.made);
        let flags = OpenFlags::READ_WRITE.create_new();
        self.client
            .with_file(name.as_str(), flags, key, |_, _| Ok(()))?;
        self.model.files.push(File {
            key,
            size: 0,
            links: 1,
        });
        let number = self.model.files.len() - 1;
        self.model.names.insert(name, Node::File(number));
        Ok(())
    }

    fn write(&mut self) -> Result<(), RunError> {
        let Some((name, number)) = self.pick_file() else {
            return Ok(());
        };
        let File { key, size, .. } = self.model.files[number];
        let random = &mut self.client.random;
        let offset = random.below(size + 1);
        let length = 1 + random.below(self.parameters.write_max as u64);
        let length = length.min(self.parameters.size_max.saturating_sub(offset));
        if length == 0 {
            return Ok(());
        }
        self.client
            .with_file(name, OpenFlags::WRITE, key, |client, file| {
                client.pwrite(file, offset, length as usize)
            })?;
        self.model.files[number].size = size.max(offset + length);
        Ok(())
    }

    fn read(&mut self) -> Result<(), RunError> {
        let Some((name, number)) = self.pick_file() else {
            return Ok(());
        };
        let File { key, size, .. } = self.model.files[number];
        let offset = self.client.random.below(size + 1);
        let length = (size - offset).min(self.parameters.write_max as u64);
        self.client
            .with_file(name, OpenFlags::READ, key, |client, file| {
                client.pread(file, offset, length as usize)
            })
    }

    fn truncate(&mut self) -> Result<(), RunError> {
        let Some((name, number)) = self.pick_file() else {
            return Ok(());
        };
        let size = self.client.random.below(self.model.files[number].size + 1);
        self.client
            .call(Call::Truncate, |target| target.truncate(&name, size))?;
        self.model.files[number].size = size;
        self.check_stat(&name)
    }

    fn make_directory(&mut self) -> Result<(), RunError> {
        let Some(name) = self.new_name() else {
            return Ok(());
        };
        self.client.make_directory(&name)?;
        self.model.names.insert(name, Node::Directory);
        Ok(())
    }

    fn symlink(&mut self) -> Result<(), RunError> {
        let Some(name) = self.new_name() else {
            return Ok(());
        };
        let length = 1 + self.client.random.below(200) as usize;
        let contents = "x".repeat(length);
        self.client
            .call(Call::Symlink, |target| target.symlink(&contents, &name))?;
        self.model.names.insert(name, Node::Symlink(contents));
        Ok(())
    }

    /// Renames to a new name, or over a file.
    fn rename(&mut self) -> Result<(), RunError> {
        let root = self.model.names.keys().next().cloned();
        let Some(old) = self.pick(|_| true).filter(|old| Some(old) != root.as_ref()) else {
            return Ok(());
        };
        let is_directory = self.model.names.get(&old) == Some(&Node::Directory);
        let replaces = !is_directory && self.client.random.percent(50);
        let new = if replaces {
            self.pick(|node| *node != Node::Directory)
        } else {
            self.new_name()
        };
        let Some(new) = new.filter(|new| !new.starts_with(&format!("{old}/"))) else {
            return Ok(());
        };
        self.client.rename(&old, &new)?;
        if old != new {
            self.model.rename(&old, &new);
        }
        Ok(())
    }

    fn unlink(&mut self) -> Result<(), RunError> {
        let Some(name) = self.pick(|node| *node != Node::Directory) else {
            return Ok(());
        };
        self.client.delete(&name)?;
        self.model.remove(&name);
        Ok(())
    }

    fn link(&mut self) -> Result<(), RunError> {
        let Some((existing, number)) = self.pick_file() else {
            return Ok(());
        };
        let Some(name) = self.new_name() else {
            return Ok(());
        };
        self.client
            .call(Call::Link, |target| target.link(&existing, &name))?;
        self.model.files[number].links += 1;
        self.model.names.insert(name, Node::File(number));
        self.check_stat(&existing)
    }

    fn remove_directory(&mut self) -> Result<(), RunError> {
        let root = self.model.names.keys().next().cloned();
        let picked = self.pick(|node| *node == Node::Directory);
        let Some(name) = picked.filter(|name| Some(name) != root.as_ref()) else {
            return Ok(());
        };
        if self.model.is_empty(&name) {
            self.client.remove_directory(&name)?;
            self.model.remove(&name);
        }
        Ok(())
    }

    fn stat(&mut self) -> Result<(), RunError> {
        match self.pick(|_| true) {
            Some(name) => self.check_stat(&name),
            None => Ok(()),
        }
    }

    fn list(&mut self) -> Result<(), RunError> {
        match self.pick(|node| *node == Node::Directory) {
            Some(name) => self.check_list(&name),
            None => Ok(()),
        }
    }

    fn read_link(&mut self) -> Result<(), RunError> {
        let Some(name) = self.pick(|node| matches!(node, Node::Symlink(_))) else {
            return Ok(());
        };
        match self.model.names.get(&name).cloned() {
            Some(Node::Symlink(contents)) => self.check_link(&name, &contents),
            _ => Ok(()),
        }
    }

    fn fsync(&mut self) -> Result<(), RunError> {
        let Some((name, _)) = self.pick_file() else {
            return Ok(());
        };
        self.client
            .with_file(name, OpenFlags::READ, 0, |client, file| client.fsync(file))
    }

    fn fdatasync(&mut self) -> Result<(), RunError> {
        let Some((name, _)) = self.pick_file() else {
            return Ok(());
        };
        self.client
            .with_file(name, OpenFlags::READ, 0, |client, file| {
                client.fdatasync(file)
            })
    }

    fn fsync_directory(&mut self) -> Result<(), RunError> {
        match self.pick(|node| *node == Node::Directory) {
            Some(name) => self.client.fsync_directory(&name),
            None => Ok(()),
        }
    }

    fn sync(&mut self) -> Result<(), RunError> {
        self.client.sync()
    }

    fn check_stat(&mut self, name: &str) -> Result<(), RunError> {
        let found = self.client.stat(name)?;
        let (kind, size, links) = match self.model.names.get(name) {
            Some(Node::File(number)) => {
                let file = self.model.files[*number];
                (FileKind::File, file.size, file.links)
            }
            Some(Node::Symlink(contents)) => (FileKind::Symlink, contents.len() as u64, 1),
            _ => (FileKind::Directory, found.size, found.links),
        };
        if (found.kind, found.size, found.links) == (kind, size, links) {
            return Ok(());
        }
        Err(RunError::WrongTree {
            path: name.to_owned(),
            fact: format!("found {found:?} instead of {kind:?}, {size} bytes, {links} links"),
        })
    }

    fn check_list(&mut self, name: &str) -> Result<(), RunError> {
        let entries = self.client.list(name)?;
        let mut found: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
        found.sort_unstable();
        let mut expected = self.model.list(name);
        expected.sort_unstable();
        if found == expected {
            return Ok(());
        }
        Err(RunError::WrongTree {
            path: name.to_owned(),
            fact: format!("lists {found:?} instead of {expected:?}"),
        })
    }

    fn check_link(&mut self, name: &str, contents: &str) -> Result<(), RunError> {
        let read = |target: &dyn Target| target.read_link(name);
        let found = self.client.call(Call::ReadLink, read)?;
        if found == contents {
            return Ok(());
        }
        Err(RunError::WrongTree {
            path: name.to_owned(),
            fact: format!("points to {found:?} instead of {contents:?}"),
        })
    }
}
