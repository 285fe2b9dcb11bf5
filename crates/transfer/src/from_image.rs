//! Reads an image's file system as a source. Names are in byte order; an empty `lost+found` is
//! omitted.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use ext::Volume;
use ext::volume::{Attributes, FileKind, OpenFlags};
use layout::InodeNr;
use layout::inode_flags::InodeFlags;

use super::entered::{Entered, PATH_BYTES_MAX};
use super::file_data::TOO_SHORT;
use super::{CHUNK_BYTES, Counter, Error, Item, Node, Parts, Scope, Source};

const LOST_AND_FOUND: &[u8] = b"lost+found";

/// The file system of an image, the tree below one of its directories, or a file of it.
pub struct ImageSource<'v> {
    volume: &'v Volume,
    root: InodeNr,
    /// Name of the root in messages.
    name: String,
    scope: Scope,
    /// Called with the number of bytes read.
    count: Counter<'v>,
}

struct Walk<'s> {
    source: &'s ImageSource<'s>,
    volume: &'s Volume,
    with_data: bool,
    send: &'s mut dyn FnMut(Item) -> Result<()>,
    /// Inodes with several links that were already sent, with their first path.
    seen: BTreeMap<InodeNr, Vec<u8>>,
    entered: Entered,
}

impl<'v> ImageSource<'v> {
    /// Returns a source for the tree of a volume; `count` is called with the bytes of data read.
    pub fn new(volume: &'v Volume, count: Counter<'v>) -> Self {
        Self::below(volume, InodeNr::ROOT, String::new(), Scope::WHOLE, count)
    }

    /// Returns a source for the tree below an inode, which messages call `name`.
    pub fn below(
        volume: &'v Volume,
        root: InodeNr,
        name: String,
        scope: Scope,
        count: Counter<'v>,
    ) -> Self {
        Self {
            volume,
            root,
            name,
            scope,
            count,
        }
    }

    /// Returns a path below the root, for messages.
    fn text(&self, path: &[u8]) -> String {
        let is_named = !self.name.is_empty() && !self.name.ends_with(':');
        match path {
            [] if is_named => self.name.clone(),
            path => format!("{}/{}", self.name, String::from_utf8_lossy(path)),
        }
    }
}

impl Source for ImageSource<'_> {
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        let mut walk = Walk {
            source: self,
            volume: self.volume,
            with_data,
            send,
            seen: BTreeMap::new(),
            entered: Entered::default(),
        };
        walk.visit_all()
    }
}

/// A directory on the current path: its remaining entries in reverse order, and the length of its
/// own path.
struct Level {
    left: Vec<(Vec<u8>, InodeNr)>,
    path_bytes: usize,
}

impl Walk<'_> {
    /// Sends everything below the root. It does not recurse, so the depth of the tree is not
    /// limited by the stack.
    fn visit_all(&mut self) -> Result<()> {
        let mut path = Vec::new();
        let mut levels = Vec::from_iter(self.visit(self.source.root, &path)?);
        while let Some(level) = levels.last_mut() {
            path.truncate(level.path_bytes);
            let Some((name, nr)) = level.left.pop() else {
                levels.pop();
                continue;
            };
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            if path.len() > PATH_BYTES_MAX {
                bail!("directory {nr}: its path has more than {PATH_BYTES_MAX} bytes");
            }
            levels.extend(self.visit(nr, &path)?);
        }
        Ok(())
    }

    /// Sends one file, and returns the entries of a directory.
    fn visit(&mut self, nr: InodeNr, path: &[u8]) -> Result<Option<Level>> {
        let source = self.source;
        let context = || source.text(path);
        let mut node = self.node(nr, path.to_vec()).with_context(context)?;
        let kind = node.kind;
        let mut parts = None;
        if kind == FileKind::Regular && self.with_data && node.link_to.is_none() {
            let found = data_parts(self.volume, nr, node.size).with_context(context)?;
            let data: u64 = found.iter().map(|(_, length)| length).sum();
            node.parts = (data < node.size).then(|| Parts::of(&found)).transpose()?;
            parts = Some(found);
        }
        if kind == FileKind::Directory {
            self.entered.enter(nr).with_context(context)?;
        }
        (self.send)(Item::Node(Box::new(node)))?;
        if let Some(parts) = parts {
            self.send_data(nr, &parts).with_context(context)?;
        }
        if kind != FileKind::Directory {
            return Ok(None);
        }
        let mut left = self.children(nr, path.is_empty()).with_context(context)?;
        left.reverse();
        let path_bytes = path.len();
        Ok(Some(Level { left, path_bytes }))
    }

    fn children(&self, nr: InodeNr, is_root: bool) -> Result<Vec<(Vec<u8>, InodeNr)>> {
        let mut children = Vec::new();
        self.volume.read_directory(nr, 0, &mut |_, entry| {
            if entry.name != b"." && entry.name != b".." {
                children.push((entry.name, entry.inode));
            }
            true
        })?;
        if is_root
            && !self.source.scope.lost_and_found
            && let Some(at) = children.iter().position(|(name, _)| name == LOST_AND_FOUND)
            && self.volume.attributes(children[at].1)?.kind == FileKind::Directory
            && self.children(children[at].1, false)?.is_empty()
        {
            children.remove(at);
        }
        children.sort_unstable();
        Ok(children)
    }

    fn node(&mut self, nr: InodeNr, path: Vec<u8>) -> Result<Node> {
        let found = self.volume.attributes(nr).map_err(|error| match error {
            ext::Error::NotFound => Error::InodeNotInUse(nr).into(),
            error => anyhow::Error::from(error),
        })?;
        // Without a key its names, target and contents are not those of the original.
        if found.flags.contains(InodeFlags::ENCRYPT) {
            return Err(ext::Error::NoKey.into());
        }
        let scope = self.source.scope;
        let mut node = node_of(&found, path);
        if scope.links && found.kind != FileKind::Directory && found.links > 1 {
            if let Some(first) = self.seen.get(&nr) {
                node.link_to = Some(first.clone());
                return Ok(node);
            }
            self.seen.insert(nr, node.path.clone());
        }
        if found.kind == FileKind::Symlink {
            node.target = self.volume.read_link(nr)?;
        }
        let names = match scope.attributes {
            true => self.volume.list_attributes(nr)?,
            false => Vec::new(),
        };
        for name in names {
            let value = self.volume.get_attribute(nr, &name)?;
            node.attributes.push((name, value));
        }
        node.attributes.sort_unstable();
        Ok(node)
    }

    fn send_data(&mut self, nr: InodeNr, parts: &[(u64, u64)]) -> Result<()> {
        let file = self.volume.open_inode(nr, OpenFlags::READ)?;
        let sent = self.send_parts(file, parts);
        sent.and(Ok(self.volume.release(file)?))
    }

    fn send_parts(&mut self, file: ext::volume::FileId, parts: &[(u64, u64)]) -> Result<()> {
        for (start, length) in parts {
            let end = start + length;
            let mut offset = *start;
            while offset < end {
                let mut bytes = vec![0; (end - offset).min(CHUNK_BYTES as u64) as usize];
                let count = self.volume.read(file, offset, &mut bytes)?;
                if count == 0 {
                    bail!(TOO_SHORT);
                }
                bytes.truncate(count);
                (self.source.count)(count as u64);
                (self.send)(Item::Data { offset, bytes })?;
                offset += count as u64;
            }
        }
        Ok(())
    }
}

/// Returns the node of an inode, without target and attributes.
#[must_use]
pub fn node_of(found: &Attributes, path: Vec<u8>) -> Node {
    Node {
        kind: found.kind,
        permissions: found.permissions,
        uid: found.uid,
        gid: found.gid,
        atime: found.atime,
        mtime: found.mtime,
        identity: Some((0, found.inode.get().into())),
        links: found.links.into(),
        size: found.size,
        held: match found.flags.contains(InodeFlags::INLINE_DATA) {
            true => found.size,
            false => found.size.min(found.sectors * 512),
        },
        device: found.device.unwrap_or_default(),
        ..Node::plain_directory(path)
    }
}

/// Returns the data parts of a file as (offset, length), in ascending order; no two are adjacent.
fn data_parts(volume: &Volume, nr: InodeNr, size: u64) -> Result<Vec<(u64, u64)>> {
    if volume
        .attributes(nr)?
        .flags
        .contains(InodeFlags::INLINE_DATA)
    {
        return Ok(match size {
            0 => Vec::new(),
            size => vec![(0, size)],
        });
    }
    let block_bytes = u64::from(volume.superblock().geometry.block_bytes);
    let mut runs: Vec<(u64, u64)> = volume
        .blocks_of(nr)?
        .into_iter()
        .filter_map(|extent| {
            let first = extent.file_block?.get();
            Some((first * block_bytes, u64::from(extent.count) * block_bytes))
        })
        .collect();
    runs.sort_unstable();
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for (start, length) in runs {
        let length = length.min(size.saturating_sub(start));
        match parts.last_mut() {
            _ if length == 0 => {}
            Some((first, before)) if *first + *before == start => *before += length,
            _ => parts.push((start, length)),
        }
    }
    Ok(parts)
}
