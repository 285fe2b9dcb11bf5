//! Names and paths to the items that they mean, through imports and re-exports.

use crate::source::{Crate, Definition, FileId, Import, ModuleId};

/// A meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Module(ModuleId),
    /// An item that this file defines, or what the path names below it: a variant, an associated
    /// function.
    Item(FileId),
}

/// A search for the meanings of one path.
pub(crate) struct Search<'a> {
    tree: &'a Crate,
    /// The module that the path is written in.
    reader: ModuleId,
    /// Names that are being looked up, since imports may run in circles.
    pending: Vec<(ModuleId, String)>,
    found: Vec<Target>,
}

/// Returns the meanings of `path`, written in `module`. None for what other crates define.
pub(crate) fn resolve(tree: &Crate, module: ModuleId, path: &[String]) -> Vec<Target> {
    let mut search = Search {
        tree,
        reader: module,
        pending: Vec::new(),
        found: Vec::new(),
    };
    search.path(module, path);
    search.found.sort();
    search.found.dedup();
    search.found
}

impl Search<'_> {
    fn path(&mut self, module: ModuleId, path: &[String]) {
        let Some(first) = path.first() else { return };
        let rest = &path[1..];
        match first.as_str() {
            "crate" => self.walk(0, rest),
            "self" => self.walk(module, rest),
            "super" => {
                let mut above = self.tree.modules[module].parent.unwrap_or(0);
                let mut rest = rest;
                while rest.first().is_some_and(|name| name == "super") {
                    above = self.tree.modules[above].parent.unwrap_or(0);
                    rest = &rest[1..];
                }
                self.walk(above, rest);
            }
            name => {
                self.name(module, name, rest, true);
            }
        }
    }

    /// `path` from `module` on. A name that is not found there is taken for one that a macro
    /// defines there.
    fn walk(&mut self, module: ModuleId, path: &[String]) {
        let Some(name) = path.first() else {
            self.found.push(Target::Module(module));
            return;
        };
        if !self.name(module, name, &path[1..], true) {
            self.found
                .push(Target::Item(self.tree.modules[module].file));
        }
    }

    /// Finds `name` in `module`; false if it is not there.
    fn name(&mut self, module: ModuleId, name: &str, rest: &[String], private: bool) -> bool {
        let key = (module, name.to_owned());
        if self.pending.contains(&key) {
            return false;
        }
        self.pending.push(key);
        let tree = self.tree;
        let here = &tree.modules[module];
        let mut is_found = false;
        for definition in here.names.get(name).into_iter().flatten() {
            match definition {
                Definition::Module(child) => self.walk(*child, rest),
                // Nothing lies below it: another meaning of the name is the right one.
                Definition::Value if !rest.is_empty() => {}
                Definition::Value | Definition::Type => {
                    self.found.push(Target::Item(here.file));
                }
                Definition::Import(import) if import.is_private && !private => continue,
                Definition::Import(import) => {
                    let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
                    self.path(module, &path);
                }
            }
            is_found = true;
        }
        if !is_found {
            is_found = here.globs.iter().any(|g| self.glob(module, g, name, rest));
        }
        self.pending.pop();
        is_found
    }

    /// Finds `name` in what a glob import of `module` names.
    fn glob(&mut self, module: ModuleId, glob: &Import, name: &str, rest: &[String]) -> bool {
        let mut search = Search {
            tree: self.tree,
            reader: self.reader,
            pending: self.pending.clone(),
            found: Vec::new(),
        };
        search.path(module, &glob.path);
        let mut is_found = false;
        for target in search.found {
            if let Target::Module(source) = target {
                let private = self.is_within(source);
                is_found |= self.name(source, name, rest, private);
            }
        }
        is_found
    }

    /// True if the reader is `module` or a module below it, which sees its private names.
    fn is_within(&self, module: ModuleId) -> bool {
        let parent = |id: &ModuleId| self.tree.modules[*id].parent;
        std::iter::successors(Some(self.reader), parent).any(|id| id == module)
    }
}
