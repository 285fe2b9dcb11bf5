//! Resolution of names and paths to items, through imports and re-exports.

use crate::source::{Crate, Definition, FileId, Import, ModuleId};

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Module(ModuleId),
    /// An item that this file defines, or a name below the item: a variant, an associated function.
    Item(FileId),
}

/// A search for the targets of one path.
pub(crate) struct Search<'a> {
    tree: &'a Crate,
    /// The module that contains the path.
    reader: ModuleId,
    /// Names being looked up, because imports may form a cycle.
    pending: Vec<(ModuleId, String)>,
    found: Vec<Target>,
}

/// Returns the targets of `path` in `module`; empty for items of other crates.
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

    /// Follows `path` from `module` on. An unknown name is assumed to be defined there by a macro.
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

    /// Finds `name` in `module`; returns false if it is not there.
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
                // A value has no names below it: another meaning of the name is the right one.
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

    /// Finds `name` in the target of a glob import of `module`.
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

    /// Returns true if the reader is `module` or a module below it, which sees its private names.
    fn is_within(&self, module: ModuleId) -> bool {
        let parent = |id: &ModuleId| self.tree.modules[*id].parent;
        std::iter::successors(Some(self.reader), parent).any(|id| id == module)
    }
}
