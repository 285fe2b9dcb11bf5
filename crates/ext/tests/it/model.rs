//! A model of a file system: maps in memory. Inodes have the numbers that the real one gave them.

use std::collections::BTreeMap;

use ext::volume::FileKind;
use layout::InodeNr;

use crate::tree::{Node, Tree};

/// The outcome of an operation, in terms common to both sides.
pub type Outcome<T> = Result<T, &'static str>;

/// An inode of the model.
#[derive(Debug, Clone)]
pub struct Inode {
    pub kind: FileKind,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub mtime: Option<i64>,
    pub contents: Vec<u8>,
    pub device: Option<(u32, u32)>,
    pub names: BTreeMap<Vec<u8>, InodeNr>,
    pub parent: InodeNr,
    /// Extended attributes by name.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Extended attributes by path and name.
pub type Attributes = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The model.
#[derive(Debug, Clone)]
pub struct Model {
    pub inodes: BTreeMap<InodeNr, Inode>,
}

impl Model {
    /// Creates a tree with nothing but the root (and `lost+found`, as mkfs leaves it).
    pub fn new(lost_found: InodeNr) -> Self {
        let mut model = Self {
            inodes: BTreeMap::new(),
        };
        let mut root = Inode::new(FileKind::Directory, 0o755, 0, 0, InodeNr::ROOT);
        root.links = 3;
        root.names.insert(b"lost+found".to_vec(), lost_found);
        model.inodes.insert(InodeNr::ROOT, root);
        let lost = Inode::new(FileKind::Directory, 0o700, 0, 0, InodeNr::ROOT);
        model.inodes.insert(lost_found, lost);
        model
    }

    pub fn get(&self, nr: InodeNr) -> &Inode {
        &self.inodes[&nr]
    }

    pub fn get_mut(&mut self, nr: InodeNr) -> &mut Inode {
        self.inodes.get_mut(&nr).expect("the model has the inode")
    }

    /// Returns all inodes of a kind.
    pub fn of_kind(&self, kind: FileKind) -> Vec<InodeNr> {
        let all = self.inodes.iter().filter(|(_, inode)| inode.kind == kind);
        all.map(|(nr, _)| *nr).collect()
    }

    pub fn lookup(&self, parent: InodeNr, name: &[u8]) -> Option<InodeNr> {
        self.get(parent).names.get(name).copied()
    }

    /// Checks that a new name may be added.
    pub fn check_new(&self, parent: InodeNr, name: &[u8]) -> Outcome<()> {
        if self.lookup(parent, name).is_some() {
            Err("exists")
        } else {
            Ok(())
        }
    }

    /// Adds a new inode under a name.
    pub fn make(&mut self, parent: InodeNr, name: &[u8], nr: InodeNr, mut inode: Inode) {
        inode.parent = parent;
        let is_directory = inode.kind == FileKind::Directory;
        assert!(
            self.inodes.insert(nr, inode).is_none(),
            "inode {nr} was in use"
        );
        let directory = self.get_mut(parent);
        directory.names.insert(name.to_vec(), nr);
        directory.mtime = None;
        directory.links += u32::from(is_directory);
    }

    pub fn link(&mut self, nr: InodeNr, parent: InodeNr, name: &[u8]) -> Outcome<()> {
        if self.get(nr).kind == FileKind::Directory {
            return Err("is a directory");
        }
        self.check_new(parent, name)?;
        self.get_mut(nr).links += 1;
        self.touch(parent).names.insert(name.to_vec(), nr);
        Ok(())
    }

    pub fn unlink(&mut self, parent: InodeNr, name: &[u8]) -> Outcome<()> {
        let nr = self.lookup(parent, name).ok_or("not found")?;
        if self.get(nr).kind == FileKind::Directory {
            return Err("is a directory");
        }
        self.touch(parent).names.remove(name);
        self.drop_link(nr);
        Ok(())
    }

    pub fn remove_directory(&mut self, parent: InodeNr, name: &[u8]) -> Outcome<()> {
        let nr = self.lookup(parent, name).ok_or("not found")?;
        if self.get(nr).kind != FileKind::Directory {
            return Err("not a directory");
        }
        if !self.get(nr).names.is_empty() {
            return Err("not empty");
        }
        let directory = self.touch(parent);
        directory.names.remove(name);
        directory.links -= 1;
        self.inodes.remove(&nr);
        Ok(())
    }

    /// Renames, with replacement.
    pub fn rename(
        &mut self,
        parent: InodeNr,
        name: &[u8],
        new_parent: InodeNr,
        new_name: &[u8],
    ) -> Outcome<()> {
        let nr = self.lookup(parent, name).ok_or("not found")?;
        if self.is_within(new_parent, nr) {
            return Err("invalid");
        }
        let is_directory = self.get(nr).kind == FileKind::Directory;
        if let Some(old) = self.lookup(new_parent, new_name) {
            if old == nr {
                return Ok(());
            }
            if self.is_within(parent, old) {
                return Err("not empty");
            }
            match (is_directory, self.get(old).kind == FileKind::Directory) {
                (true, false) => return Err("not a directory"),
                (false, true) => return Err("is a directory"),
                (true, true) => self.remove_directory(new_parent, new_name)?,
                (false, false) => self.unlink(new_parent, new_name)?,
            }
        }
        self.touch(parent).names.remove(name);
        self.touch(new_parent).names.insert(new_name.to_vec(), nr);
        if is_directory && parent != new_parent {
            self.get_mut(parent).links -= 1;
            self.get_mut(new_parent).links += 1;
            let moved = self.get_mut(nr);
            moved.parent = new_parent;
            moved.mtime = None;
        }
        Ok(())
    }

    /// Exchanges two names.
    pub fn exchange(
        &mut self,
        parent: InodeNr,
        name: &[u8],
        new_parent: InodeNr,
        new_name: &[u8],
    ) -> Outcome<()> {
        let a = self.lookup(parent, name).ok_or("not found")?;
        let inside = self.is_within(new_parent, a);
        if inside {
            return Err("invalid");
        }
        let b = self.lookup(new_parent, new_name).ok_or("not found")?;
        if a == b {
            return Ok(());
        }
        if self.is_within(parent, b) {
            return Err("invalid");
        }
        self.touch(parent).names.insert(name.to_vec(), b);
        self.touch(new_parent).names.insert(new_name.to_vec(), a);
        for (nr, from, to) in [(a, parent, new_parent), (b, new_parent, parent)] {
            if self.get(nr).kind == FileKind::Directory && from != to {
                self.get_mut(from).links -= 1;
                self.get_mut(to).links += 1;
                let moved = self.get_mut(nr);
                moved.parent = to;
                moved.mtime = None;
            }
        }
        Ok(())
    }

    /// Returns true if `inner` is `outer` or lies below it.
    fn is_within(&self, inner: InodeNr, outer: InodeNr) -> bool {
        let mut current = inner;
        loop {
            if current == outer {
                return true;
            }
            if current == InodeNr::ROOT {
                return false;
            }
            current = self.get(current).parent;
        }
    }

    fn touch(&mut self, directory: InodeNr) -> &mut Inode {
        let inode = self.get_mut(directory);
        inode.mtime = None;
        inode
    }

    fn drop_link(&mut self, nr: InodeNr) {
        let inode = self.get_mut(nr);
        inode.links -= 1;
        if inode.links == 0 {
            self.inodes.remove(&nr);
        }
    }

    /// Returns the tree by path.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        self.describe(InodeNr::ROOT, &[], &mut tree);
        tree
    }

    /// Returns a path of each inode, and the directory that has it.
    pub fn paths(&self) -> BTreeMap<InodeNr, (Vec<u8>, InodeNr)> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![(InodeNr::ROOT, Vec::new())];
        while let Some((nr, path)) = waiting.pop() {
            for (name, child) in &self.get(nr).names {
                let path = [path.as_slice(), b"/", name].concat();
                found.insert(*child, (path.clone(), nr));
                waiting.push((*child, path));
            }
        }
        found
    }

    /// Returns the extended attributes of the paths that have some.
    pub fn attributes(&self) -> Attributes {
        let mut found = Attributes::new();
        let mut waiting = vec![(InodeNr::ROOT, Vec::new())];
        while let Some((nr, path)) = waiting.pop() {
            let inode = self.get(nr);
            for (name, child) in &inode.names {
                waiting.push((*child, [path.as_slice(), b"/", name].concat()));
            }
            if !inode.attributes.is_empty() {
                found.insert(path, inode.attributes.clone());
            }
        }
        found
    }

    fn describe(&self, nr: InodeNr, path: &[u8], tree: &mut Tree) {
        let inode = self.get(nr);
        tree.insert(path.to_vec(), inode.node());
        for (name, child) in &inode.names {
            let mut child_path = path.to_vec();
            child_path.push(b'/');
            child_path.extend_from_slice(name);
            self.describe(*child, &child_path, tree);
        }
    }
}

impl Inode {
    pub fn new(kind: FileKind, permissions: u16, uid: u32, gid: u32, parent: InodeNr) -> Self {
        let is_directory = kind == FileKind::Directory;
        Self {
            kind,
            permissions,
            uid,
            gid,
            links: if is_directory { 2 } else { 1 },
            mtime: None,
            contents: Vec::new(),
            device: None,
            names: BTreeMap::new(),
            parent,
            attributes: BTreeMap::new(),
        }
    }

    fn node(&self) -> Node {
        Node {
            kind: kind_letter(self.kind),
            permissions: self.permissions,
            uid: self.uid,
            gid: self.gid,
            links: Some(self.links),
            mtime: self.mtime,
            contents: Some(self.contents.clone()),
            device: self.device,
        }
    }
}

/// Returns the letter of ls for a kind.
pub fn kind_letter(kind: FileKind) -> char {
    match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::CharacterDevice => 'c',
        FileKind::BlockDevice => 'b',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
    }
}
