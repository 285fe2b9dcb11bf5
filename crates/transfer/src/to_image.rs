//! Fills a volume that is being made, as a sink.
//!
//! The same tree gives the same bytes: inodes are numbered in order of arrival, generations are
//! derived from the numbers, and all times except mtime are the time at which the volume is made.

mod unfinished;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use ext::volume::{
    DeviceExtent, FileId, FileKind, NewInode, OpenFlags, RangeChange, Restored, SetAttributes,
    SetMode,
};
use ext::{Error, Volume};
use layout::InodeNr;
use layout::time::InodeTime;

use super::edits::Edits;
use super::placed::PlacedData;
use super::{Counter, Item, Node, Parts, Sink, split_path};
use unfinished::Unfinished;

/// Paths of the directories that a new volume has.
const OWN_DIRECTORIES: [&[u8]; 2] = [b"", b"lost+found"];
/// Maximum total bytes of cached directory paths, and what the map adds to each.
const REMEMBERED_BYTES_MAX: usize = 24 << 20;
const REMEMBERED_BYTES_MORE: usize = 80;

/// A volume that is being filled.
pub struct ImageSink<'v> {
    volume: &'v Volume,
    times: Times,
    count: Counter<'v>,
    edits: &'v Edits,
    /// The way of data past the volume, if there is one.
    placed: Option<PlacedData>,
    directories: BTreeMap<Vec<u8>, InodeNr>,
    /// Bytes of the cached paths.
    remembered_bytes: usize,
    /// The directory of the last lookup; consecutive nodes are usually in the same one.
    last_directory: (Vec<u8>, InodeNr),
    unfinished: Unfinished,
    /// Directories of a new volume that the source has described: the root, and `lost+found`.
    described: [bool; 2],
    open: Option<Open>,
    /// True if files get their blocks and no data.
    is_counting: bool,
}

/// The time at which a volume is made.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Seconds since 1970.
    pub seconds: i64,
    /// True if later modification times are clamped to this time.
    pub clamps: bool,
}

impl Times {
    /// Returns the modification time to store for `mtime`.
    pub fn of(&self, mtime: InodeTime) -> InodeTime {
        if self.clamps {
            mtime.min(InodeTime::new(self.seconds, 0))
        } else {
            mtime
        }
    }
}

/// Settings for filling a volume.
pub struct Filling<'b> {
    /// Times of the inodes.
    pub times: Times,
    /// Changes of the tree.
    pub edits: &'b Edits,
    /// Called with the number of bytes of data.
    pub count: Counter<'b>,
}

/// The file whose data is arriving.
struct Open {
    text: String,
    /// The open file, or none if its blocks are allocated already.
    file: Option<FileId>,
    nr: InodeNr,
    size: u64,
    reached: u64,
    restored: Restored,
}

impl<'v> ImageSink<'v> {
    /// Returns a sink that fills a volume from its root.
    pub fn new(volume: &'v Volume, filling: &'v Filling<'_>) -> Self {
        Self {
            volume,
            times: filling.times,
            count: filling.count,
            edits: filling.edits,
            placed: None,
            directories: BTreeMap::from([(Vec::new(), InodeNr::ROOT)]),
            remembered_bytes: 0,
            last_directory: (Vec::new(), InodeNr::ROOT),
            unfinished: Unfinished::new(InodeTime::new(filling.times.seconds, 0)),
            described: [false; 2],
            open: None,
            is_counting: false,
        }
    }

    /// Returns a sink that allocates blocks for files and drops their data.
    pub(crate) fn counting(volume: &'v Volume, filling: &'v Filling<'_>) -> Self {
        Self {
            is_counting: true,
            ..Self::new(volume, filling)
        }
    }

    /// Returns a sink that fills a volume from its root, and writes the data of files to the
    /// volume's device itself where it can.
    pub fn with_device(
        volume: &'v Volume,
        device: &Arc<dyn BlockDevice>,
        filling: &'v Filling<'_>,
    ) -> Self {
        let block_bytes = volume.superblock().geometry.block_bytes;
        Self {
            placed: Some(PlacedData::new(device, block_bytes)),
            ..Self::new(volume, filling)
        }
    }

    /// Creates a node; its data follows.
    pub(crate) fn node(&mut self, node: &Node) -> Result<()> {
        self.finish_file()?;
        let node = self.edits.edited(node)?;
        self.make(&node)
    }

    /// Returns true if contents of this size may lie within their inode (`inline_data`).
    pub(crate) fn may_fit_inode(&self, size: u64) -> bool {
        let superblock = self.volume.superblock();
        superblock.has_inline_data() && size < u64::from(superblock.geometry.inode_bytes)
    }

    /// Creates a regular file with all its blocks, and returns them. The caller writes the data to
    /// the device itself.
    pub(crate) fn laid_out(&mut self, node: &Node) -> Result<Vec<DeviceExtent>> {
        self.finish_file()?;
        let node = self.edits.edited(node)?;
        let (parent, name) = split_path(&node.path);
        let parent = self.directory(parent)?;
        self.unfinished.keep(self.volume, parent)?;
        let nr = self.volume.create(parent, name, &NewInode::default())?;
        self.set_attributes(nr, &node)?;
        let restored = self.restored(&node);
        Ok(self.volume.lay_out(nr, node.size, &restored)?)
    }

    fn restored(&self, node: &Node) -> Restored {
        let made = InodeTime::new(self.times.seconds, 0);
        Restored {
            permissions: node.permissions,
            uid: node.uid,
            gid: node.gid,
            mtime: self.times.of(node.mtime),
            other_times: made,
        }
    }

    /// Returns the inode of a directory. Creates it and its parents if the source has not described
    /// them.
    fn directory(&mut self, path: &[u8]) -> Result<InodeNr> {
        if self.last_directory.0 == path {
            return Ok(self.last_directory.1);
        }
        let mut known = path;
        while !self.directories.contains_key(known) {
            known = split_path(known).0;
        }
        let mut nr = self.directories[known];
        let mut reached = known.len();
        while reached < path.len() {
            let name_at = if reached == 0 { 0 } else { reached + 1 };
            let name_bytes = path[name_at..].split(|byte| *byte == b'/').next();
            reached = name_at + name_bytes.map_or(0, <[u8]>::len);
            nr = self.undescribed(nr, &path[..reached])?;
        }
        self.last_directory = (path.to_vec(), nr);
        Ok(nr)
    }

    /// Returns the directory at a path below its parent, and creates it if it does not exist.
    fn undescribed(&mut self, parent: InodeNr, path: &[u8]) -> Result<InodeNr> {
        let (_, name) = split_path(path);
        let found = match self.volume.lookup(parent, name) {
            Ok(nr) if self.volume.attributes(nr)?.kind == FileKind::Directory => Some(nr),
            Ok(_) | Err(Error::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        match found {
            Some(nr) => {
                self.remember(path, nr);
                Ok(nr)
            }
            None => {
                let made = InodeTime::new(self.times.seconds, 0);
                let node = Node::undescribed_directory(path.to_vec(), made);
                let node = self.edits.edited(&node)?;
                self.make_directory_in(parent, &node)
            }
        }
    }

    /// Caches a directory's inode number. The cache is bounded, because an archive may name very
    /// many long paths.
    fn remember(&mut self, path: &[u8], nr: InodeNr) {
        let bytes = path.len() + REMEMBERED_BYTES_MORE;
        if self.remembered_bytes + bytes > REMEMBERED_BYTES_MAX {
            self.directories = BTreeMap::from([(Vec::new(), InodeNr::ROOT)]);
            self.remembered_bytes = 0;
        }
        if self.directories.insert(path.to_vec(), nr).is_none() {
            self.remembered_bytes += bytes;
        }
    }

    fn make_directory(&mut self, node: &Node) -> Result<InodeNr> {
        if node.path.is_empty() {
            self.keep_attributes(InodeNr::ROOT, node)?;
            return self.describe(InodeNr::ROOT, node);
        }
        let (parent, _) = split_path(&node.path);
        let parent = self.directory(parent)?;
        self.make_directory_in(parent, node)
    }

    fn make_directory_in(&mut self, parent: InodeNr, node: &Node) -> Result<InodeNr> {
        let (_, name) = split_path(&node.path);
        let nr = match self.directories.get(&node.path) {
            Some(nr) => {
                let nr = *nr;
                self.keep_attributes(nr, node)?;
                nr
            }
            None => {
                self.unfinished.keep(self.volume, parent)?;
                let new = NewInode::default();
                match self.volume.make_directory(parent, name, &new) {
                    Err(Error::Exists) => self.existing_directory(parent, node)?,
                    other => other?,
                }
            }
        };
        self.remember(&node.path, nr);
        self.last_directory = (node.path.clone(), nr);
        self.describe(nr, node)
    }

    /// Sets a directory's attributes, and records those to restore when all its entries exist.
    fn describe(&mut self, nr: InodeNr, node: &Node) -> Result<InodeNr> {
        self.set_attributes(nr, node)?;
        let restored = self.restored(node);
        self.unfinished.set(self.volume, nr, restored)?;
        self.note_described(&node.path);
        Ok(nr)
    }

    fn note_described(&mut self, path: &[u8]) {
        if let Some(own) = OWN_DIRECTORIES.iter().position(|own| *own == path) {
            self.described[own] = true;
        }
    }

    /// Keeps only those extended attributes of an inode that the node has, too.
    fn keep_attributes(&self, nr: InodeNr, node: &Node) -> Result<()> {
        for name in self.volume.list_attributes(nr)? {
            if !node.attributes.iter().any(|(kept, _)| *kept == name) {
                self.volume.remove_attribute(nr, &name)?;
            }
        }
        Ok(())
    }

    fn existing_directory(&mut self, parent: InodeNr, node: &Node) -> Result<InodeNr> {
        let (_, name) = split_path(&node.path);
        let nr = self.volume.lookup(parent, name)?;
        if self.volume.attributes(nr)?.kind == FileKind::Directory {
            self.keep_attributes(nr, node)?;
            return Ok(nr);
        }
        self.remove(parent, &node.path)?;
        Ok(self
            .volume
            .make_directory(parent, name, &NewInode::default())?)
    }

    fn make(&mut self, node: &Node) -> Result<()> {
        if node.kind == FileKind::Directory {
            return self.make_directory(node).map(drop);
        }
        let (parent, name) = split_path(&node.path);
        if name.is_empty() {
            bail!("the root is a directory");
        }
        let parent = self.directory(parent)?;
        self.unfinished.keep(self.volume, parent)?;
        self.note_described(&node.path);
        match self.make_in(parent, name, node) {
            // Later entries of an archive replace earlier ones.
            Err(error) if matches!(error.downcast_ref(), Some(Error::Exists)) => {
                if self.is_that_link(parent, name, node)? {
                    return Ok(());
                }
                self.remove(parent, &node.path)?;
                self.make_in(parent, name, node)
            }
            other => other,
        }
    }

    /// Returns true if the name is already a link to the same file. GNU tar writes a file with
    /// several links as a link to itself if the file is given twice.
    fn is_that_link(&mut self, parent: InodeNr, name: &[u8], node: &Node) -> Result<bool> {
        match &node.link_to {
            Some(first) => Ok(self.find(first)? == self.volume.lookup(parent, name)?),
            None => Ok(false),
        }
    }

    /// Removes a directory entry, and drops a removed directory from the cache.
    fn remove(&mut self, parent: InodeNr, path: &[u8]) -> Result<()> {
        self.write_placed()?;
        let (_, name) = split_path(path);
        let nr = self.volume.lookup(parent, name)?;
        let found = self.volume.attributes(nr)?;
        if found.kind != FileKind::Directory {
            self.volume.unlink(parent, name)?;
            return match found.links {
                0 | 1 => Ok(()),
                _ => self.take_back_time(nr),
            };
        }
        self.volume.remove_directory(parent, name)?;
        self.directories.remove(path);
        self.unfinished.forget(nr);
        self.last_directory = (Vec::new(), InodeNr::ROOT);
        Ok(())
    }

    fn make_in(&mut self, parent: InodeNr, name: &[u8], node: &Node) -> Result<()> {
        if let Some(first) = &node.link_to {
            let nr = self
                .find(first)
                .with_context(|| format!("a hard link to {}", String::from_utf8_lossy(first)))?;
            self.volume.link(nr, parent, name)?;
            return self.take_back_time(nr);
        }
        let (volume, new) = (self.volume, NewInode::default());
        let nr = match node.kind {
            FileKind::Regular => volume.create(parent, name, &new)?,
            FileKind::Symlink => volume.symlink(parent, name, &node.target, &new)?,
            kind => volume.make_node(parent, name, kind, node.device, &new)?,
        };
        self.set_attributes(nr, node)?;
        let restored = self.restored(node);
        if node.kind == FileKind::Regular && node.size > 0 {
            let has_holes = node.held < node.size;
            let is_in_parts = has_holes && node.parts.is_none();
            if self.is_counting && (!is_in_parts || self.may_fit_inode(node.size)) {
                return self.allocate(nr, node, &restored);
            }
            let is_placed = !has_holes && !self.may_fit_inode(node.size);
            let file = match &mut self.placed {
                Some(placed) if is_placed => {
                    placed.start(volume.lay_out(nr, node.size, &restored)?);
                    None
                }
                _ => Some(volume.open_inode(nr, OpenFlags::READ_WRITE)?),
            };
            self.open = Some(Open {
                text: node.text(),
                file,
                nr,
                size: node.size,
                reached: 0,
                restored,
            });
            return Ok(());
        }
        Ok(volume.restore(nr, &restored)?)
    }

    /// Gives a file the blocks that its data would take.
    fn allocate(&self, nr: InodeNr, node: &Node, restored: &Restored) -> Result<()> {
        let (volume, size) = (self.volume, node.size);
        if self.may_fit_inode(size) {
            let file = volume.open_inode(nr, OpenFlags::READ_WRITE)?;
            volume.write_all(file, 0, &vec![0; size as usize])?;
            volume.release(file)?;
        } else if let Some(parts) = &node.parts
            && !is_whole(parts, size)?
        {
            for part in parts.iter() {
                let (offset, length) = part?;
                if length > 0 {
                    volume.change_range(nr, offset, length, RangeChange::Allocate, false)?;
                }
            }
            let change = SetAttributes {
                size: Some(size),
                ..SetAttributes::default()
            };
            volume.set_attributes(nr, &change)?;
        } else {
            return Ok(volume.lay_out(nr, size, restored).map(drop)?);
        }
        Ok(volume.restore(nr, restored)?)
    }

    /// Restores an inode's times after a new link has changed them.
    fn take_back_time(&self, nr: InodeNr) -> Result<()> {
        let found = self.volume.attributes(nr)?;
        let restored = Restored {
            permissions: found.permissions,
            uid: found.uid,
            gid: found.gid,
            mtime: found.mtime,
            other_times: InodeTime::new(self.times.seconds, 0),
        };
        Ok(self.volume.restore(nr, &restored)?)
    }

    fn find(&mut self, path: &[u8]) -> Result<InodeNr> {
        let (parent, name) = split_path(path);
        let parent = self.directory(parent)?;
        Ok(self.volume.lookup(parent, name)?)
    }

    fn set_attributes(&self, nr: InodeNr, node: &Node) -> Result<()> {
        for (name, value) in &node.attributes {
            let set = self.volume.set_attribute(nr, name, value, SetMode::Any);
            set.with_context(|| String::from_utf8_lossy(name).into_owned())?;
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(open) = &mut self.open else {
            // The blocks are allocated already.
            if self.is_counting {
                return Ok(());
            }
            bail!("data without a file");
        };
        let length = bytes.len() as u64;
        let gap = offset != open.reached;
        open.reached = offset + length;
        if self.is_counting {
            let change = RangeChange::Allocate;
            let allocated = self
                .volume
                .change_range(open.nr, offset, length, change, false);
            return allocated.with_context(|| open.text.clone());
        }
        (self.count)(length);
        let written = match (open.file, &mut self.placed) {
            (Some(file), _) => Ok(self.volume.write_all(file, offset, bytes)?),
            (None, Some(placed)) if !gap => placed.add(bytes),
            (None, _) => bail!("{}: a file without holes has a gap", open.text),
        };
        written.with_context(|| open.text.clone())
    }

    fn finish_file(&mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => self.finish(&open).with_context(|| open.text.clone()),
            None => Ok(()),
        }
    }

    fn finish(&self, open: &Open) -> Result<()> {
        let Some(file) = open.file else {
            if open.reached < open.size {
                bail!("has {} bytes, not {}", open.reached, open.size);
            }
            return Ok(());
        };
        if open.reached < open.size {
            let change = SetAttributes {
                size: Some(open.size),
                ..SetAttributes::default()
            };
            self.volume.set_attributes(open.nr, &change)?;
        }
        self.volume.release(file)?;
        Ok(self.volume.restore(open.nr, &open.restored)?)
    }

    /// Writes collected data, before its blocks may get another file's.
    fn write_placed(&mut self) -> Result<()> {
        self.placed.as_mut().map_or(Ok(()), PlacedData::write)
    }

    /// Gives the directories of a new volume that the source has not described their owners,
    /// their labels and their times.
    fn finish_own(&self) -> Result<()> {
        for (path, is_described) in OWN_DIRECTORIES.iter().zip(self.described) {
            if is_described {
                continue;
            }
            let found = match path {
                [] => Ok(InodeNr::ROOT),
                name => self.volume.lookup(InodeNr::ROOT, name),
            };
            let nr = match found {
                Ok(nr) => nr,
                Err(Error::NotFound) => continue,
                Err(error) => return Err(error.into()),
            };
            let found = self.volume.attributes(nr)?;
            let made = InodeTime::new(self.times.seconds, 0);
            let mut node = Node::undescribed_directory(path.to_vec(), made);
            (node.uid, node.gid, node.permissions) = (found.uid, found.gid, found.permissions);
            let node = self.edits.edited(&node)?;
            self.set_attributes(nr, &node)?;
            self.volume.restore(nr, &self.restored(&node))?;
        }
        Ok(())
    }
}

/// Returns true if a file of this size has no holes.
fn is_whole(parts: &Parts, size: u64) -> Result<bool> {
    let first = parts.iter().next().transpose()?;
    Ok(parts.count() == 1 && first == Some((0, size)))
}

impl Sink for ImageSink<'_> {
    fn take(&mut self, item: Item) -> Result<()> {
        match item {
            Item::Node(node) => self.node(&node).with_context(|| node.text()),
            Item::Data { offset, bytes } => self.write(offset, &bytes),
        }
    }

    fn end(&mut self) -> Result<()> {
        self.finish_file()?;
        self.write_placed()?;
        self.unfinished.finish(self.volume)?;
        self.finish_own()
    }
}
