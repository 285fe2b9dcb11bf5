//! The namespace of a counting target: one sorted map from full paths to entries.
//!
//! Paths are normalised: no slash at either end, no empty component, no `.`; the root is the empty
//! path. The entries of a directory are then one range of the map, and so is a whole tree.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rt::atomic::AtomicU64;

use crate::error::ErrorKind;
use crate::target::{DirectoryEntry, FileKind, OpenFlags, Stat};

/// A regular file: its size and its link count.
#[derive(Debug)]
pub(super) struct Node {
    inode: u64,
    size: AtomicU64,
    links: AtomicU64,
}

impl Node {
    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::SeqCst)
    }

    pub(super) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::SeqCst);
    }

    pub(super) fn stat(&self) -> Stat {
        Stat {
            inode: self.inode,
            kind: FileKind::File,
            size: self.size(),
            allocated: 0,
            links: self.links.load(Ordering::SeqCst),
        }
    }

    /// Removes one link and returns the number of remaining links.
    pub(super) fn drop_link(&self) -> u64 {
        self.links.fetch_sub(1, Ordering::SeqCst) - 1
    }
}

/// Object that a name refers to.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    File(Arc<Node>),
    Directory,
    Symlink(Arc<str>),
}

impl Entry {
    pub(super) fn stat(&self) -> Stat {
        match self {
            Self::File(node) => node.stat(),
            Self::Directory => without_inode(FileKind::Directory, 0),
            Self::Symlink(contents) => without_inode(FileKind::Symlink, contents.len() as u64),
        }
    }
}

/// Returns the attributes of an object that has one link and no inode number here.
const fn without_inode(kind: FileKind, size: u64) -> Stat {
    Stat {
        inode: 0,
        kind,
        size,
        allocated: 0,
        links: 1,
    }
}

/// All names; see the module.
#[derive(Debug)]
pub(super) struct Namespace {
    entries: BTreeMap<String, Entry>,
    next_inode: u64,
}

impl Namespace {
    pub(super) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            next_inode: 1,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, path: &str) -> Result<&Entry, ErrorKind> {
        if path.is_empty() {
            return Ok(&Entry::Directory);
        }
        self.entries.get(path).ok_or(ErrorKind::NotFound)
    }

    pub(super) fn directory(&self, path: &str) -> Result<(), ErrorKind> {
        match self.get(path)? {
            Entry::Directory => Ok(()),
            Entry::File(_) | Entry::Symlink(_) => Err(ErrorKind::NotDirectory),
        }
    }

    pub(super) fn file(&self, path: &str) -> Result<Arc<Node>, ErrorKind> {
        match self.get(path)? {
            Entry::File(node) => Ok(Arc::clone(node)),
            Entry::Directory => Err(ErrorKind::IsDirectory),
            Entry::Symlink(_) => Err(ErrorKind::Unsupported),
        }
    }

    pub(super) fn open(&mut self, path: &str, flags: OpenFlags) -> Result<Arc<Node>, ErrorKind> {
        match self.file(path) {
            Ok(_) if flags.create && flags.exclusive => Err(ErrorKind::Exists),
            Err(ErrorKind::NotFound) if flags.create => {
                let inode = self.next_inode;
                let node = Arc::new(Node {
                    inode,
                    size: AtomicU64::new(0),
                    links: AtomicU64::new(1),
                });
                self.insert(path, Entry::File(Arc::clone(&node)))?;
                self.next_inode += 1;
                Ok(node)
            }
            other => other,
        }
    }

    pub(super) fn insert(&mut self, path: &str, entry: Entry) -> Result<(), ErrorKind> {
        self.directory(parent(path))?;
        if self.get(path).is_ok() {
            return Err(ErrorKind::Exists);
        }
        self.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &str) -> Result<Entry, ErrorKind> {
        if matches!(self.get(path)?, Entry::Directory) {
            return Err(ErrorKind::IsDirectory);
        }
        self.entries.remove(path).ok_or(ErrorKind::NotFound)
    }

    pub(super) fn rmdir(&mut self, path: &str) -> Result<(), ErrorKind> {
        self.directory(path)?;
        if path.is_empty() {
            return Err(ErrorKind::Invalid);
        }
        if self.below(path).next().is_some() {
            return Err(ErrorKind::NotEmpty);
        }
        self.entries.remove(path);
        Ok(())
    }

    /// Renames an entry and returns the replaced one.
    pub(super) fn rename(&mut self, old: &str, new: &str) -> Result<Option<Entry>, ErrorKind> {
        let moved = self.get(old)?.clone();
        self.directory(parent(new))?;
        if old.is_empty() || is_below(new, old) {
            return Err(ErrorKind::Invalid);
        }
        if old == new {
            return Ok(None);
        }
        match (&moved, self.get(new)) {
            (_, Err(_)) => {}
            (Entry::Directory, Ok(Entry::Directory)) => self.rmdir(new)?,
            (Entry::Directory, Ok(_)) => return Err(ErrorKind::NotDirectory),
            (_, Ok(Entry::Directory)) => return Err(ErrorKind::IsDirectory),
            (Entry::File(a), Ok(Entry::File(b))) if Arc::ptr_eq(a, b) => return Ok(None),
            (_, Ok(_)) => {}
        }
        let tree: Vec<String> = self.below(old).map(|(path, _)| path.clone()).collect();
        for path in tree {
            let entry = self.entries.remove(&path).expect("it was just listed");
            self.entries
                .insert(format!("{new}{}", &path[old.len()..]), entry);
        }
        self.entries.remove(old);
        Ok(self.entries.insert(new.to_owned(), moved))
    }

    pub(super) fn link(&mut self, existing: &str, new: &str) -> Result<(), ErrorKind> {
        let node = self.file(existing)?;
        self.insert(new, Entry::File(Arc::clone(&node)))?;
        node.links.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    pub(super) fn list(&self, path: &str) -> Result<Vec<DirectoryEntry>, ErrorKind> {
        self.directory(path)?;
        let prefix = if path.is_empty() { 0 } else { path.len() + 1 };
        let names = self
            .below(path)
            .map(|(whole, entry)| (&whole[prefix..], entry));
        let own = names.filter(|(name, _)| !name.contains('/'));
        let listed = own.map(|(name, entry)| {
            let stat = entry.stat();
            DirectoryEntry {
                name: name.to_owned(),
                inode: stat.inode,
                kind: stat.kind,
            }
        });
        Ok(listed.collect())
    }

    /// Returns everything below a directory, at any depth.
    fn below<'a>(&'a self, path: &'a str) -> impl Iterator<Item = (&'a String, &'a Entry)> + 'a {
        let first = if path.is_empty() {
            String::new()
        } else {
            format!("{path}/")
        };
        let range = self
            .entries
            .range::<String, _>((Bound::Included(&first), Bound::Unbounded));
        range.take_while(move |(whole, _)| path.is_empty() || is_below(whole, path))
    }
}

/// Returns the message for an error of the namespace.
pub(super) const fn cause(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotFound => "not found",
        ErrorKind::Exists => "exists already",
        ErrorKind::NotDirectory => "not a directory",
        ErrorKind::IsDirectory => "is a directory",
        ErrorKind::NotEmpty => "directory not empty",
        ErrorKind::Unsupported => "symbolic links are not followed here",
        ErrorKind::BadName => "`..` is not allowed in a path",
        _ => "invalid argument",
    }
}

/// Returns a path in normalised form.
pub(super) fn clean(path: &str) -> Result<Cow<'_, str>, ErrorKind> {
    let trimmed = path.trim_matches('/');
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    if trimmed.is_empty() || trimmed.split('/').all(plain) {
        return Ok(Cow::Borrowed(trimmed));
    }
    let parts = trimmed
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    let parts: Vec<&str> = parts.collect();
    if parts.contains(&"..") {
        return Err(ErrorKind::BadName);
    }
    Ok(Cow::Owned(parts.join("/")))
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.starts_with('/'))
}
