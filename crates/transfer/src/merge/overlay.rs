//! The tree that results from layers on top of each other: names and the inodes that they lead to.
//!
//! Layers are put on in order, and each entry does what its extraction would do: it replaces what
//! has its name, a link leads to the inode that its target has at that moment, and a whiteout
//! removes what lower layers have. Only the last state is made, so nothing is made in vain.
//!
//! An image may have millions of names, so names and inodes are lists that go to a temporary file
//! when they are larger than their share of memory. Names are never removed, but marked as absent,
//! and walks through the tree need no stack.
//!
//! A container image is a whole: its marks and links mean its own layers. If it is put on top of
//! other sources, its layers are merged below a root of their own, and then the result is put on.

use anyhow::{Context, Result, bail};
use ext::volume::FileKind;

use super::RESERVED;
use super::merged::Merged;
use super::records::{Inode, KINDS, NO_LAYER, NONE, Name, ROOT};
use crate::paged::{Index, Paged};
use crate::split_path;
use crate::tally::{Tally, entry_bytes};

/// Maximum number of symbolic links on the way to a file, as in Linux.
const LINKS_MAX: u32 = 40;
/// Maximum bytes of the target of a link that is followed, as in Linux.
const TARGET_BYTES_MAX: usize = 4096;
/// Maximum bytes of a name.
const NAME_BYTES_MAX: usize = 255;

/// Memory of names, of inodes, of their text, and of the index of names, in bytes.
const NAMES_MEMORY: usize = 16 << 20;
const INODES_MEMORY: usize = 8 << 20;
const TEXT_MEMORY: usize = 8 << 20;
const INDEX_MEMORY: usize = 16 << 20;

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
    /// Space for attributes, and for holes in the data.
    pub(super) more: Tally,
}

/// The tree.
pub(super) struct Overlay {
    names: Paged<Name>,
    inodes: Paged<Inode>,
    text: Paged<u8>,
    /// Numbers of names, by directory and text.
    index: Index,
    /// Number of the first inode of each layer.
    layer_starts: Vec<u32>,
    /// The current layer.
    layer: u16,
    /// True if paths lead through symbolic links.
    follows: bool,
    /// True if the current layer has files with reserved names.
    has_reserved: bool,
    /// The root of the current layer: [`ROOT`], or that of a container image.
    root: u32,
    /// The last directory that was looked up.
    last: Option<(Vec<u8>, u32)>,
}

impl Overlay {
    pub(super) fn new() -> Result<Self> {
        let mut overlay = Self {
            names: Paged::new(NAMES_MEMORY),
            inodes: Paged::new(INODES_MEMORY),
            text: Paged::new(TEXT_MEMORY),
            index: Index::new(INDEX_MEMORY),
            layer_starts: Vec::new(),
            layer: 0,
            follows: false,
            has_reserved: false,
            root: ROOT,
            last: None,
        };
        overlay.new_root()?;
        Ok(overlay)
    }

    fn new_root(&mut self) -> Result<u32> {
        let number = self.names.len() as u32;
        let inode = self.new_inode(Inode::directory())?;
        self.names.push(Name {
            parent: NONE,
            inode,
            is_present: 1,
            is_listed: 1,
            ..Name::absent()
        })?;
        Ok(number)
    }

    /// Starts a layer. In a container image paths lead through symbolic links of lower layers.
    pub(super) fn start(&mut self, follows: bool) -> Result<()> {
        let layer = u16::try_from(self.layer_starts.len()).ok();
        let layer = layer.filter(|layer| *layer < NO_LAYER);
        self.layer = layer.with_context(|| format!("more than {NO_LAYER} layers"))?;
        self.layer_starts.push(self.inodes.len() as u32);
        self.follows = follows;
        self.last = None;
        Ok(())
    }

    /// Ends a layer. In a container image, files with reserved names only have links.
    pub(super) fn end(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.has_reserved) || !self.follows {
            return Ok(());
        }
        let mut child = self.name(self.root)?.first_child;
        while child != NONE {
            let name = self.name(child)?;
            if name.is_present != 0 && self.text_of(&name)?.starts_with(RESERVED) {
                self.remove(child)?;
            }
            child = name.next;
        }
        Ok(())
    }

    /// Starts a container image, which will be put on what is there by [`Self::end_image`].
    pub(super) fn start_image(&mut self) -> Result<()> {
        if self.names.len() > 1 {
            self.root = self.new_root()?;
        }
        Ok(())
    }

    /// Puts what is left of a container image on what was there before.
    pub(super) fn end_image(&mut self) -> Result<()> {
        let image = std::mem::replace(&mut self.root, ROOT);
        self.last = None;
        if image == ROOT {
            return Ok(());
        }
        self.put_inode(ROOT, image)?;
        self.names.get_mut(image as usize)?.is_present = 0;
        let (mut directory, mut at) = (image, ROOT);
        let mut child = self.name(image)?.first_child;
        loop {
            if child == NONE {
                if directory == image {
                    return Ok(());
                }
                let done = self.name(directory)?;
                (directory, child) = (done.parent, done.next);
                at = self.name(at)?.parent;
                continue;
            }
            let name = self.name(child)?;
            if name.is_present == 0 {
                child = name.next;
                continue;
            }
            let text = self.text_of(&name)?;
            let target = self.name_in(at, &text)?;
            self.names.get_mut(child as usize)?.is_present = 0;
            self.put_inode(target, child)?;
            if self.inode(name.inode)?.is_directory() {
                (directory, at, child) = (child, target, name.first_child);
            } else {
                child = name.next;
            }
        }
    }

    /// Lets a name lead to the inode of another one. A directory on a directory keeps what is
    /// there.
    fn put_inode(&mut self, at: u32, from: u32) -> Result<()> {
        let (old, inode) = (self.name(at)?, self.name(from)?.inode);
        let new = self.inode(inode)?;
        let is_kept =
            old.is_present != 0 && new.is_directory() && self.inode(old.inode)?.is_directory();
        if !is_kept {
            return self.replace(at, inode);
        }
        if new.is_described() {
            self.names.get_mut(at as usize)?.inode = inode;
        }
        Ok(())
    }

    /// Puts an entry, the one with this number in the layer, into the tree.
    pub(super) fn put(&mut self, entry: &Entry, number: u32) -> Result<()> {
        self.has_reserved |= entry.path.starts_with(RESERVED);
        let (parent, name) = split_path(&entry.path);
        let at = match name {
            [] => self.root,
            _ => {
                let parent = self.directory(parent)?;
                self.name_in(parent, name)?
            }
        };
        if let Some(first) = &entry.link_to {
            return self.put_link(at, first);
        }
        let is_directory = entry.kind == FileKind::Directory;
        let old = self.name(at)?;
        let is_kept = is_directory && old.is_present != 0 && self.inode(old.inode)?.is_directory();
        if at == self.root && !is_kept {
            bail!("the root is a directory");
        }
        let held = match entry.kind {
            FileKind::Symlink => {
                let length = u32::try_from(entry.target.len())?;
                [self.add_text(&entry.target)?, length]
            }
            _ => [entry.held as u32, (entry.held >> 32) as u32],
        };
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let kind = KINDS.iter().position(|kind| *kind == entry.kind);
        // Also for a directory that is kept: inodes are in the order of their entries.
        let inode = self.new_inode(Inode {
            entry: number,
            held,
            more: [narrow(entry.more.inodes), narrow(entry.more.blocks)],
            kind: kind.unwrap_or_default() as u8,
            is_described: 1,
            ..Inode::directory()
        })?;
        match is_kept {
            true => self.names.get_mut(at as usize)?.inode = inode,
            false => self.replace(at, inode)?,
        }
        self.touch(at)
    }

    fn put_link(&mut self, at: u32, first: &[u8]) -> Result<()> {
        let text = || String::from_utf8_lossy(first);
        let target = self.find(first)?;
        let target =
            target.with_context(|| format!("a hard link to {}, which is not there", text()))?;
        let inode = self.name(target)?.inode;
        if self.inode(inode)?.is_directory() {
            bail!("a hard link to {}, which is a directory", text());
        }
        let old = self.name(at)?;
        if old.is_present == 0 || old.inode != inode {
            self.replace(at, inode)?;
        }
        self.touch(at)
    }

    /// Removes a name that lower layers have. What the current layer has there stays.
    pub(super) fn white_out(&mut self, path: &[u8]) -> Result<()> {
        let (parent, name) = split_path(path);
        let Some(parent) = self.walk(parent, false)? else {
            return Ok(());
        };
        match self.child(parent, name)? {
            Some(at) if self.name(at)?.layer == self.layer => self.hide_below(at),
            Some(at) => self.remove(at),
            None => Ok(()),
        }
    }

    /// Removes everything that lower layers have in a directory.
    pub(super) fn make_opaque(&mut self, path: &[u8]) -> Result<()> {
        match self.walk(path, false)? {
            Some(at) => self.hide_below(at),
            None => Ok(()),
        }
    }

    fn hide_below(&mut self, top: u32) -> Result<()> {
        self.last = None;
        let Some(mut child) = self.hide(top)? else {
            return Ok(());
        };
        let mut directory = top;
        loop {
            if child == NONE {
                if directory == top {
                    return Ok(());
                }
                let done = self.name(directory)?;
                (directory, child) = (done.parent, done.next);
                continue;
            }
            let name = self.name(child)?;
            if name.is_present != 0 && name.layer == self.layer {
                if let Some(first) = self.hide(child)? {
                    (directory, child) = (child, first);
                    continue;
                }
            } else if name.is_present != 0 {
                self.remove(child)?;
            }
            child = name.next;
        }
    }

    /// Marks what is below a name as hidden, and returns the first name there; none if it is marked
    /// already. Once is enough: lower layers put nothing there any more.
    fn hide(&mut self, at: u32) -> Result<Option<u32>> {
        let layer = self.layer;
        let name = self.names.get_mut(at as usize)?;
        let was_hidden = std::mem::replace(&mut name.hidden_in, layer) == layer;
        Ok((!was_hidden).then_some(name.first_child))
    }

    /// Marks a name, and all below it, as absent.
    fn remove(&mut self, at: u32) -> Result<()> {
        self.last = None;
        let name = self.names.get_mut(at as usize)?;
        name.is_present = 0;
        // Each name leaves the list in which it is found, so that no list is walked in vain again.
        let mut waiting = std::mem::replace(&mut name.first_child, NONE);
        while waiting != NONE {
            let name = self.names.get_mut(waiting as usize)?;
            (name.is_present, name.is_listed) = (0, 0);
            let (first, next) = (std::mem::replace(&mut name.first_child, NONE), name.next);
            waiting = match first {
                NONE => next,
                first => {
                    let mut last = first;
                    while let name = self.name(last)?
                        && name.next != NONE
                    {
                        last = name.next;
                    }
                    self.names.get_mut(last as usize)?.next = next;
                    first
                }
            };
        }
        Ok(())
    }

    /// Lets a name lead to an inode.
    fn replace(&mut self, at: u32, inode: u32) -> Result<()> {
        let name = self.name(at)?;
        if name.is_present != 0 {
            self.remove(at)?;
        }
        if name.is_listed == 0 {
            let parent = self.names.get_mut(name.parent as usize)?;
            let next = std::mem::replace(&mut parent.first_child, at);
            let name = self.names.get_mut(at as usize)?;
            (name.is_listed, name.next) = (1, next);
        }
        let name = self.names.get_mut(at as usize)?;
        (name.is_present, name.inode) = (1, inode);
        self.touch(at)
    }

    /// Notes that the current layer has this name.
    fn touch(&mut self, at: u32) -> Result<()> {
        self.names.get_mut(at as usize)?.layer = self.layer;
        Ok(())
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
        let (mut at, mut links) = (self.root, 0);
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
                    at = self.name(at)?.parent.min(at);
                    continue;
                }
                _ => {}
            }
            let child = match self.child(at, &name)? {
                Some(child) => {
                    let inode = self.name(child)?.inode;
                    Some((child, self.inode(inode)?))
                }
                None => None,
            };
            match child {
                Some((child, inode)) if inode.is_directory() => at = child,
                Some((_, inode)) if self.follows && inode.kind() == FileKind::Symlink => {
                    let target = self.target_of(&inode)?;
                    links += 1;
                    if links > LINKS_MAX || target.len() > TARGET_BYTES_MAX {
                        bail!("its directory lies behind too many symbolic links");
                    }
                    if target.first() == Some(&b'/') {
                        at = self.root;
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
                self.touch(at)?;
            }
        }
        Ok(Some(at))
    }

    /// Returns the name at a path, if it is there. The last name may be that of a symbolic link.
    fn find(&mut self, path: &[u8]) -> Result<Option<u32>> {
        let (parent, name) = split_path(path);
        match (name, self.walk(parent, false)?) {
            ([], _) => Ok(Some(self.root)),
            (_, Some(parent)) => self.child(parent, name),
            (_, None) => Ok(None),
        }
    }

    fn name(&mut self, at: u32) -> Result<Name> {
        self.names.get(at as usize)
    }

    fn inode(&mut self, number: u32) -> Result<Inode> {
        self.inodes.get(number as usize)
    }

    fn target_of(&mut self, inode: &Inode) -> Result<Vec<u8>> {
        let [offset, length] = inode.held;
        let mut target = vec![0; length as usize];
        self.text.read(offset as usize, &mut target)?;
        Ok(target)
    }

    fn text_of(&mut self, name: &Name) -> Result<Vec<u8>> {
        name.text(&mut self.text)
    }

    /// Returns a name in a directory, if it is present.
    fn child(&mut self, parent: u32, name: &[u8]) -> Result<Option<u32>> {
        let hash = self.index.hash((parent, name));
        match self.known(hash, parent, name)? {
            Some(at) if self.name(at)?.is_present != 0 => Ok(Some(at)),
            _ => Ok(None),
        }
    }

    fn known(&mut self, hash: u32, parent: u32, text: &[u8]) -> Result<Option<u32>> {
        let Self {
            index,
            names,
            text: texts,
            ..
        } = self;
        index.find(hash, |at| {
            let name = names.get(at as usize)?;
            let is_long = usize::from(name.length) == text.len();
            Ok(name.parent == parent && is_long && name.text(texts)? == text)
        })
    }

    /// Returns a name in a directory; a new one is absent.
    fn name_in(&mut self, parent: u32, name: &[u8]) -> Result<u32> {
        let hash = self.index.hash((parent, name));
        if let Some(known) = self.known(hash, parent, name)? {
            return Ok(known);
        }
        if name.len() > NAME_BYTES_MAX {
            bail!(
                "a name of {} bytes; the maximum is {NAME_BYTES_MAX}",
                name.len()
            );
        }
        let number = u32::try_from(self.names.len());
        let number = number.ok().filter(|number| *number < NONE);
        let number = number.context("more than 2^32 names")?;
        let text_at = self.add_text(name)?;
        self.names.push(Name {
            parent,
            text_at,
            length: name.len() as u8,
            ..Name::absent()
        })?;
        self.index.add(hash, number)?;
        Ok(number)
    }

    fn add_text(&mut self, bytes: &[u8]) -> Result<u32> {
        let at = self.text.len() as u32;
        let end = u32::try_from(self.text.len() + bytes.len());
        end.context("names of more than 4 GiB")?;
        self.text.extend(bytes)?;
        Ok(at)
    }

    fn new_inode(&mut self, inode: Inode) -> Result<u32> {
        let number = u32::try_from(self.inodes.len());
        let number = number.ok().filter(|number| *number < NONE);
        self.inodes.push(inode)?;
        number.context("more than 2^32 inodes")
    }

    /// Ends the merge: threads the names of each inode on a list, and adds up the entries of each
    /// directory.
    pub(super) fn finish(self) -> Result<Merged> {
        let Self {
            mut names,
            mut inodes,
            text,
            mut layer_starts,
            ..
        } = self;
        layer_starts.push(inodes.len() as u32);
        for number in 0..names.len() {
            names.get_mut(number)?.first_child = 0;
        }
        for number in (0..names.len()).rev() {
            let name = names.get(number)?;
            if name.is_present == 0 {
                continue;
            }
            let inode = inodes.get_mut(name.inode as usize)?;
            let next = std::mem::replace(&mut inode.first_name, number as u32);
            names.get_mut(number)?.next = next;
            if name.parent != NONE {
                let total = &mut names.get_mut(name.parent as usize)?.first_child;
                *total = total.saturating_add(entry_bytes(name.length.into()) as u32);
            }
        }
        Ok(Merged {
            names,
            inodes,
            text,
            layer_starts,
        })
    }
}

#[cfg(test)]
mod tests;
