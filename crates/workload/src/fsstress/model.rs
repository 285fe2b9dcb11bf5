//! The expected contents of a task's directory.

use std::collections::BTreeMap;

use crate::random::Random;

/// Object that a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// A file, as an index into [`Model::files`].
    File(usize),
    Directory,
    Symlink(String),
}

/// A file, independent of its names.
#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    pub(super) key: u64,
    pub(super) size: u64,
    pub(super) links: u64,
}

/// All names below the task's directory, including the directory itself.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) names: BTreeMap<String, Node>,
    pub(super) files: Vec<File>,
}

impl Model {
    pub(super) fn new(root: &str) -> Self {
        Self {
            names: BTreeMap::from([(root.to_owned(), Node::Directory)]),
            files: Vec::new(),
        }
    }

    /// Returns a random name among those that fit.
    pub(super) fn pick(&self, random: &mut Random, fits: impl Fn(&Node) -> bool) -> Option<String> {
        let fitting: Vec<&String> = self
            .names
            .iter()
            .filter(|(_, node)| fits(node))
            .map(|(name, _)| name)
            .collect();
        let at = random.below(fitting.len() as u64) as usize;
        fitting.get(at).map(|name| (*name).clone())
    }

    pub(super) fn is_empty(&self, directory: &str) -> bool {
        self.below(directory).next().is_none()
    }

    /// Returns the names below a directory, at any depth.
    pub(super) fn below(&self, directory: &str) -> impl Iterator<Item = &String> {
        let prefix = format!("{directory}/");
        let from = self.names.range(prefix.clone()..);
        from.map(|(name, _)| name)
            .take_while(move |name| name.starts_with(&prefix))
    }

    /// Returns the last components of the names in a directory, sorted.
    pub(super) fn list(&self, directory: &str) -> Vec<String> {
        let start = directory.len() + 1;
        let parts = self.below(directory).map(|name| &name[start..]);
        parts
            .filter(|part| !part.contains('/'))
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(Node::File(number)) = self.names.remove(name) {
            self.files[number].links -= 1;
        }
    }

    /// Renames an entry and everything below it.
    pub(super) fn rename(&mut self, old: &str, new: &str) {
        if let (Some(Node::File(a)), Some(Node::File(b))) =
            (self.names.get(old), self.names.get(new))
            && a == b
        {
            // Both names refer to one file, so a rename does nothing.
            return;
        }
        self.remove(new);
        let below: Vec<String> = self.below(old).cloned().collect();
        for name in below {
            if let Some(node) = self.names.remove(&name) {
                self.names
                    .insert(format!("{new}{}", &name[old.len()..]), node);
            }
        }
        if let Some(node) = self.names.remove(old) {
            self.names.insert(new.to_owned(), node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_moves_with_all_that_is_in_it() {
        let mut model = Model::new("r");
        for name in ["r/a", "r/a/b", "r/ab"] {
            model.names.insert(name.to_owned(), Node::Directory);
        }
        model.rename("r/a", "r/c");
        let names: Vec<&String> = model.names.keys().collect();
        assert_eq!(names, ["r", "r/ab", "r/c", "r/c/b"]);
        assert_eq!(model.list("r"), ["ab", "c"]);
        assert!(model.is_empty("r/ab") && !model.is_empty("r/c"));
    }
}
