//! The tree that results from layers on top of each other: names and the inodes that they lead to.
//!
//! Layers are put on in order, and each entry does what its extraction would do: it replaces what
//! has its name, a link leads to the inode that its target has at that moment, and a whiteout
//! removes what lower layers have. Only the last state is made, so nothing is made in vain.
//!
//! The tree takes about 70 bytes for each name that any layer has, because an image may have
//! millions. Names are never removed from memory, but marked as absent.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use anyhow::{Context, Result, bail};
use ext::volume::FileKind;

use crate::entered::PATH_BYTES_MAX;
use crate::split_path;
use crate::tally::Tally;

/// Number of the root, both as a name and as an inode.
pub(super) const ROOT: u32 = 0;
/// No name, or no inode.
pub(super) const NONE: u32 = u32::MAX;
/// Maximum number of symbolic links on the way to a file, as in Linux.
const LINKS_MAX: u32 = 40;
/// Maximum bytes of the target of a link that is followed, as in Linux.
const TARGET_BYTES_MAX: usize = 4096;
/// Maximum bytes of a name.
const NAME_BYTES_MAX: usize = 255;

/// An entry of a layer.
pub(super) struct Entry {
    pub(super) path: Vec<u8>,
    pub(super) kind: FileKind,
    /// Path of a hard link's target.
    pub(super) link_to: Option<Vec<u8>>,
    /// Target of a symbolic link.
    pub(super) target: Vec<u8>,
    /// Bytes that are data.
    pub(super) held: u64,
    /// Space for attributes.
    pub(super) attributes: Tally,
}

/// A directory entry.
pub(super) struct Name {
    parent: u32,
    /// Offset of the text.
    text_at: u32,
    /// The next name in the directory; in the end, the next name of the inode.
    next: u32,
    /// First name in a directory.
    first_child: u32,
    pub(super) inode: u32,
    /// The last layer that has this name or one below it.
    layer: u16,
    length: u8,
    pub(super) is_present: bool,
    /// True if the name is in the list of its directory.
    is_listed: bool,
}

/// An inode.
#[derive(Clone, Copy)]
pub(super) struct Inode {
    /// Number of the entry within its layer.
    pub(super) entry: u32,
    /// Layer of the entry, or none if no layer has one: a directory that is only on the way to
    /// others.
    pub(super) layer: Option<u16>,
    pub(super) kind: FileKind,
    /// In the end, the first name.
    pub(super) first_name: u32,
    /// Bytes that are data, or offset of a link's target and its length.
    held: [u32; 2],
}

/// The tree.
pub(super) struct Overlay {
    names: Vec<Name>,
    inodes: Vec<Inode>,
    text: Vec<u8>,
    /// Numbers of names, by a hash of directory and text; open addressing.
    table: Vec<u32>,
    hasher: RandomState,
    /// The current layer.
    layer: u16,
    /// True if paths lead through symbolic links.
    follows: bool,
    /// Directories of which the current layer hides what is below.
    opaque: BTreeSet<u32>,
    /// The last directory that was looked up.
    last: Option<(Vec<u8>, u32)>,
    /// Space for attributes, of inodes that need some.
    attributes: BTreeMap<u32, Tally>,
}

impl Overlay {
    pub(super) fn new() -> Self {
        let mut overlay = Self {
            names: Vec::new(),
            inodes: Vec::new(),
            text: Vec::new(),
            table: vec![NONE; 1024],
            hasher: RandomState::new(),
            layer: 0,
            follows: false,
            opaque: BTreeSet::new(),
            last: None,
            attributes: BTreeMap::new(),
        };
        overlay.names.push(Name {
            parent: NONE,
            text_at: 0,
            next: NONE,
            first_child: NONE,
            inode: ROOT,
            layer: 0,
            length: 0,
            is_present: true,
            is_listed: true,
        });
        overlay.inodes.push(Inode::directory());
        overlay
    }

    /// Starts a layer. In a container image paths lead through symbolic links of lower layers.
    pub(super) fn start(&mut self, layer: u16, follows: bool) {
        self.layer = layer;
        self.follows = follows;
        self.opaque.clear();
        self.last = None;
    }

    /// Puts an entry, the one with this number in the layer, into the tree.
    pub(super) fn put(&mut self, entry: &Entry, number: u32) -> Result<()> {
        let (parent, name) = split_path(&entry.path);
        let at = match name {
            [] => ROOT,
            _ => {
                let parent = self.directory(parent)?;
                self.name_in(parent, name)?
            }
        };
        if let Some(first) = &entry.link_to {
            let target = self.find(first)?;
            let text = || String::from_utf8_lossy(first).into_owned();
            let target =
                target.with_context(|| format!("a hard link to {}, which is not there", text()))?;
            let inode = self.names[target as usize].inode;
            if self.inodes[inode as usize].kind == FileKind::Directory {
                bail!("a hard link to {}, which is a directory", text());
            }
            if !self.names[at as usize].is_present || self.names[at as usize].inode != inode {
                self.replace(at, inode)?;
            }
            self.touch(at);
            return Ok(());
        }
        let old = self.names[at as usize].inode;
        let is_kept = entry.kind == FileKind::Directory
            && self.names[at as usize].is_present
            && self.inodes[old as usize].kind == FileKind::Directory;
        if at == ROOT && !is_kept {
            bail!("the root is a directory");
        }
        let inode = match is_kept {
            true => old,
            false => {
                let inode = self.new_inode(Inode::directory())?;
                self.replace(at, inode)?;
                inode
            }
        };
        let held = match entry.kind {
            FileKind::Symlink => {
                let length = u32::try_from(entry.target.len())?;
                [self.add_text(&entry.target)?, length]
            }
            _ => [entry.held as u32, (entry.held >> 32) as u32],
        };
        self.inodes[inode as usize] = Inode {
            entry: number,
            layer: Some(self.layer),
            kind: entry.kind,
            first_name: NONE,
            held,
        };
        self.attributes.remove(&inode);
        if entry.attributes != Tally::default() {
            self.attributes.insert(inode, entry.attributes);
        }
        self.touch(at);
        Ok(())
    }

    /// Removes a name that lower layers have. What the current layer has there stays.
    pub(super) fn white_out(&mut self, path: &[u8]) -> Result<()> {
        let (parent, name) = split_path(path);
        let Some(parent) = self.walk(parent, false)? else {
            return Ok(());
        };
        match self.child(parent, name) {
            Some(at) if self.names[at as usize].layer == self.layer => self.hide_below(at),
            Some(at) => self.remove(at),
            None => {}
        }
        Ok(())
    }

    /// Removes everything that lower layers have in a directory.
    pub(super) fn make_opaque(&mut self, path: &[u8]) -> Result<()> {
        if let Some(at) = self.walk(path, false)? {
            self.hide_below(at);
        }
        Ok(())
    }

    fn hide_below(&mut self, at: u32) {
        let mut waiting = vec![at];
        while let Some(at) = waiting.pop() {
            // Once is enough: lower layers put nothing there any more.
            if !self.opaque.insert(at) {
                continue;
            }
            let mut child = self.names[at as usize].first_child;
            while child != NONE {
                let name = &self.names[child as usize];
                let next = name.next;
                if name.is_present {
                    match name.layer == self.layer {
                        true => waiting.push(child),
                        false => self.remove(child),
                    }
                }
                child = next;
            }
        }
        self.last = None;
    }

    /// Marks a name, and all below it, as absent.
    fn remove(&mut self, at: u32) {
        self.names[at as usize].is_present = false;
        self.last = None;
        let mut waiting = vec![at];
        while let Some(at) = waiting.pop() {
            // Each name leaves the list in which it is found, so that no list is walked in vain
            // again.
            let mut child = std::mem::replace(&mut self.names[at as usize].first_child, NONE);
            while child != NONE {
                let name = &mut self.names[child as usize];
                name.is_present = false;
                name.is_listed = false;
                waiting.push(child);
                child = name.next;
            }
        }
    }

    /// Lets a name lead to an inode.
    fn replace(&mut self, at: u32, inode: u32) -> Result<()> {
        if self.names[at as usize].is_present {
            self.remove(at);
        }
        let parent = self.names[at as usize].parent;
        let first = self.names[parent as usize].first_child;
        let name = &mut self.names[at as usize];
        name.is_present = true;
        name.inode = inode;
        if !name.is_listed {
            name.is_listed = true;
            name.next = first;
            self.names[parent as usize].first_child = at;
        }
        self.touch(at);
        Ok(())
    }

    /// Notes that the current layer has this name.
    fn touch(&mut self, at: u32) {
        self.names[at as usize].layer = self.layer;
    }

    /// Returns the directory at a path. The current layer has it, with what was missing on the way.
    fn directory(&mut self, path: &[u8]) -> Result<u32> {
        if let Some((known, at)) = &self.last
            && known == path
        {
            return Ok(*at);
        }
        let at = self.walk(path, true)?;
        let at = at.context("its directory is not there")?;
        self.last = Some((path.to_vec(), at));
        Ok(at)
    }

    /// Returns the directory at a path, if it is there or if it `makes` what is missing. A mere
    /// lookup changes nothing.
    fn walk(&mut self, path: &[u8], makes: bool) -> Result<Option<u32>> {
        let (mut at, mut links) = (ROOT, 0);
        // Paths that are still to be walked, each from an offset.
        let mut waiting = vec![(path.to_vec(), 0)];
        while let Some((path, start)) = waiting.pop() {
            let end = path[start..].iter().position(|byte| *byte == b'/');
            let end = end.map_or(path.len(), |length| start + length);
            let name = path[start..end].to_vec();
            if end < path.len() {
                waiting.push((path, end + 1));
            }
            match &name[..] {
                b"" | b"." => continue,
                b".." => {
                    at = self.names[at as usize].parent.min(at);
                    continue;
                }
                _ => {}
            }
            match self.child(at, &name) {
                Some(child) if self.kind_of(child) == FileKind::Directory => at = child,
                Some(child) if self.follows && self.kind_of(child) == FileKind::Symlink => {
                    let target = self.target_of(child).to_vec();
                    links += 1;
                    if links > LINKS_MAX || target.len() > TARGET_BYTES_MAX {
                        bail!("its directory lies behind too many symbolic links");
                    }
                    if target.first() == Some(&b'/') {
                        at = ROOT;
                    }
                    waiting.push((target, 0));
                    continue;
                }
                _ if !makes => return Ok(None),
                _ => {
                    let child = self.name_in(at, &name)?;
                    let inode = self.new_inode(Inode::directory())?;
                    self.replace(child, inode)?;
                    at = child;
                }
            }
            if makes {
                self.touch(at);
            }
        }
        Ok(Some(at))
    }

    /// Returns the name at a path, if it is there. The last name may be that of a symbolic link.
    fn find(&mut self, path: &[u8]) -> Result<Option<u32>> {
        let (parent, name) = split_path(path);
        Ok(match (name, self.walk(parent, false)?) {
            ([], _) => Some(ROOT),
            (_, Some(parent)) => self.child(parent, name),
            (_, None) => None,
        })
    }

    fn kind_of(&self, at: u32) -> FileKind {
        self.inodes[self.names[at as usize].inode as usize].kind
    }

    fn target_of(&self, at: u32) -> &[u8] {
        let [offset, length] = self.inodes[self.names[at as usize].inode as usize].held;
        &self.text[offset as usize..][..length as usize]
    }

    /// Returns a name in a directory, if it is present.
    fn child(&self, parent: u32, name: &[u8]) -> Option<u32> {
        let found = self.table[self.slot(parent, name)];
        (found != NONE && self.names[found as usize].is_present).then_some(found)
    }

    /// Returns the slot of a name, or the free one where it belongs.
    fn slot(&self, parent: u32, name: &[u8]) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = self.hasher.hash_one((parent, name)) as usize & mask;
        loop {
            match self.table[slot] {
                NONE => return slot,
                found => {
                    let known = &self.names[found as usize];
                    if known.parent == parent && self.text_of(known) == name {
                        return slot;
                    }
                }
            }
            slot = (slot + 1) & mask;
        }
    }

    fn text_of(&self, name: &Name) -> &[u8] {
        &self.text[name.text_at as usize..][..usize::from(name.length)]
    }

    /// Returns a name in a directory; a new one is absent.
    fn name_in(&mut self, parent: u32, name: &[u8]) -> Result<u32> {
        let mut slot = self.slot(parent, name);
        if self.table[slot] != NONE {
            return Ok(self.table[slot]);
        }
        if name.len() > NAME_BYTES_MAX {
            bail!(
                "a name of {} bytes; the maximum is {NAME_BYTES_MAX}",
                name.len()
            );
        }
        if self.names.len() * 4 > self.table.len() * 3 {
            self.grow();
            slot = self.slot(parent, name);
        }
        let number = u32::try_from(self.names.len())
            .ok()
            .filter(|number| *number < NONE);
        let number = number.context("more than 2^32 names")?;
        let text_at = self.add_text(name)?;
        self.names.push(Name {
            parent,
            text_at,
            next: NONE,
            first_child: NONE,
            inode: NONE,
            layer: self.layer,
            length: name.len() as u8,
            is_present: false,
            is_listed: false,
        });
        self.table[slot] = number;
        Ok(number)
    }

    fn grow(&mut self) {
        self.table = vec![NONE; self.table.len() * 2];
        for number in 1..self.names.len() {
            let name = &self.names[number];
            let slot = self.slot(name.parent, self.text_of(name));
            self.table[slot] = number as u32;
        }
    }

    fn add_text(&mut self, bytes: &[u8]) -> Result<u32> {
        let at = u32::try_from(self.text.len() + bytes.len());
        at.context("names of more than 4 GiB")?;
        self.text.extend_from_slice(bytes);
        Ok((self.text.len() - bytes.len()) as u32)
    }

    fn new_inode(&mut self, inode: Inode) -> Result<u32> {
        let number = u32::try_from(self.inodes.len())
            .ok()
            .filter(|number| *number < NONE);
        self.inodes.push(inode);
        number.context("more than 2^32 inodes")
    }

    /// Ends the merge: threads the names of each inode on a list.
    pub(super) fn finish(mut self) -> Merged {
        self.table = Vec::new();
        for number in (0..self.names.len()).rev() {
            let name = &mut self.names[number];
            if name.is_present {
                let inode = &mut self.inodes[name.inode as usize];
                name.next = std::mem::replace(&mut inode.first_name, number as u32);
            }
        }
        Merged {
            names: self.names,
            inodes: self.inodes,
            text: self.text,
            attributes: self.attributes,
        }
    }
}

impl Inode {
    /// Returns a directory that no layer has described.
    fn directory() -> Self {
        Self {
            entry: 0,
            layer: None,
            kind: FileKind::Directory,
            first_name: NONE,
            held: [0; 2],
        }
    }
}

/// A tree that is complete.
pub(super) struct Merged {
    pub(super) names: Vec<Name>,
    pub(super) inodes: Vec<Inode>,
    text: Vec<u8>,
    pub(super) attributes: BTreeMap<u32, Tally>,
}

impl Merged {
    /// Returns the text of a name.
    pub(super) fn text(&self, name: &Name) -> &[u8] {
        &self.text[name.text_at as usize..][..usize::from(name.length)]
    }

    /// Returns the bytes of data of a regular file.
    pub(super) fn held(inode: &Inode) -> u64 {
        u64::from(inode.held[0]) | u64::from(inode.held[1]) << 32
    }

    /// Returns the length of a symbolic link's target.
    pub(super) fn target_bytes(inode: &Inode) -> usize {
        inode.held[1] as usize
    }

    /// Returns the names of an inode.
    pub(super) fn names_of(&self, inode: &Inode) -> impl Iterator<Item = u32> {
        let start = Some(inode.first_name).filter(|name| *name != NONE);
        std::iter::successors(start, |name| {
            let next = self.names[*name as usize].next;
            Some(next).filter(|next| *next != NONE)
        })
    }

    /// Returns the directory of a name.
    pub(super) fn parent(name: &Name) -> u32 {
        name.parent
    }

    /// Returns the path of a name.
    ///
    /// # Errors
    /// Fails if it is too long.
    pub(super) fn path(&self, number: u32) -> Result<Vec<u8>> {
        let (mut length, mut texts) = (0, Vec::new());
        let mut at = number;
        while at != ROOT {
            let name = &self.names[at as usize];
            length += usize::from(name.length) + 1;
            if length > PATH_BYTES_MAX {
                bail!("a path of more than {PATH_BYTES_MAX} bytes");
            }
            texts.push(self.text(name));
            at = name.parent;
        }
        texts.reverse();
        Ok(texts.join(&b'/'))
    }
}

#[cfg(test)]
mod tests;
