//! A volume that is being made as a sink.
//!
//! The same tree gives the same bytes: inodes are numbered as they come, generations follow from the numbers, and all times but
//! that of the last change of contents are the time at which the volume is made.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use ext::volume::{FileId, FileKind, NewInode, OpenFlags, Restored, SetMode, Stretch};
use ext::{Error, Volume};
use layout::InodeNr;
use layout::time::InodeTime;

use super::{Item, Node, Sink, split_path};

/// A volume that is being filled.
pub(crate) struct ImageSink<'v> {
    volume: &'v Volume,
    times: Times,
    directories: BTreeMap<Vec<u8>, InodeNr>,
    /// The one that was asked for last: what follows each other lies mostly in one.
    last_directory: (Vec<u8>, InodeNr),
    /// What directories become when all is in them.
    unfinished: BTreeMap<InodeNr, Restored>,
    open: Option<Open>,
}

/// When the volume is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// In seconds since 1970.
    pub(crate) seconds: i64,
    /// Whether files are older than that: what has changed later counts as changed then.
    pub(crate) clamps: bool,
}

/// The file whose data is coming.
struct Open {
    text: String,
    file: FileId,
    nr: InodeNr,
    size: u64,
    reached: u64,
    restored: Restored,
}

impl<'v> ImageSink<'v> {
    pub(crate) fn new(volume: &'v Volume, times: Times) -> Self {
        Self {
            volume,
            times,
            directories: BTreeMap::from([(Vec::new(), InodeNr::ROOT)]),
            last_directory: (Vec::new(), InodeNr::ROOT),
            unfinished: BTreeMap::new(),
            open: None,
        }
    }

    /// Makes a node; its data follows.
    pub(super) fn node(&mut self, node: &Node) -> Result<()> {
        self.finish_file()?;
        self.make(node)
    }

    /// Makes a regular file with all its blocks, whose data the caller brings to the device himself.
    pub(super) fn laid_out(&mut self, node: &Node) -> Result<Vec<Stretch>> {
        self.finish_file()?;
        let (parent, name) = split_path(&node.path);
        let parent = self.directory(parent)?;
        let nr = self.volume.create(parent, name, &NewInode::default())?;
        self.set_attributes(nr, node)?;
        let restored = self.restored(nr, node);
        Ok(self.volume.lay_out(nr, node.size, &restored)?)
    }

    fn restored(&self, nr: InodeNr, node: &Node) -> Restored {
        let made = InodeTime::new(self.times.seconds, 0);
        Restored {
            permissions: node.permissions,
            uid: node.uid,
            gid: node.gid,
            mtime: if self.times.clamps {
                node.mtime.min(made)
            } else {
                node.mtime
            },
            other_times: made,
            generation: nr.get().wrapping_mul(0x9E37_79B9),
        }
    }

    /// The inode of a directory; one that nobody has described is made.
    fn directory(&mut self, path: &[u8]) -> Result<InodeNr> {
        if self.last_directory.0 == path {
            return Ok(self.last_directory.1);
        }
        if let Some(nr) = self.directories.get(path) {
            self.last_directory = (path.to_vec(), *nr);
            return Ok(*nr);
        }
        let mut node = Node::plain_directory(path.to_vec());
        node.mtime = InodeTime::new(self.times.seconds, 0);
        self.make_directory(&node)
    }

    fn make_directory(&mut self, node: &Node) -> Result<InodeNr> {
        let nr = match self.directories.get(&node.path) {
            Some(nr) => *nr,
            None => {
                let (parent, name) = split_path(&node.path);
                let parent = self.directory(parent)?;
                let new = NewInode::default();
                match self.volume.make_directory(parent, name, &new) {
                    Err(Error::Exists) => self.existing_directory(parent, name)?,
                    other => other?,
                }
            }
        };
        self.directories.insert(node.path.clone(), nr);
        self.last_directory = (node.path.clone(), nr);
        self.set_attributes(nr, node)?;
        self.unfinished.insert(nr, self.restored(nr, node));
        Ok(nr)
    }

    fn existing_directory(&self, parent: InodeNr, name: &[u8]) -> Result<InodeNr> {
        let nr = self.volume.lookup(parent, name)?;
        if self.volume.attributes(nr)?.kind == FileKind::Directory {
            return Ok(nr);
        }
        self.volume.unlink(parent, name)?;
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
        match self.make_in(parent, name, node) {
            // Later entries of an archive replace earlier ones.
            Err(error) if matches!(error.downcast_ref(), Some(Error::Exists)) => {
                match self.volume.unlink(parent, name) {
                    Err(Error::IsDirectory) => self.volume.remove_directory(parent, name)?,
                    other => other?,
                }
                self.make_in(parent, name, node)
            }
            other => other,
        }
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
        let restored = self.restored(nr, node);
        if node.kind == FileKind::Regular && node.size > 0 {
            self.open = Some(Open {
                text: node.text(),
                file: volume.open_inode(nr, OpenFlags::READ_WRITE)?,
                nr,
                size: node.size,
                reached: 0,
                restored,
            });
            return Ok(());
        }
        Ok(volume.restore(nr, &restored)?)
    }

    /// Another name has changed the inode's time.
    fn take_back_time(&self, nr: InodeNr) -> Result<()> {
        let found = self.volume.attributes(nr)?;
        let restored = Restored {
            permissions: found.permissions,
            uid: found.uid,
            gid: found.gid,
            mtime: found.mtime,
            other_times: InodeTime::new(self.times.seconds, 0),
            generation: found.generation,
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
            bail!("data without a file");
        };
        open.reached = offset + bytes.len() as u64;
        let written = self.volume.write_all(open.file, offset, bytes);
        written.with_context(|| open.text.clone())
    }

    fn finish_file(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        if open.reached < open.size {
            let change = ext::volume::SetAttributes {
                size: Some(open.size),
                ..Default::default()
            };
            self.volume.set_attributes(open.nr, &change)?;
        }
        self.volume.release(open.file)?;
        let restored = self.volume.restore(open.nr, &open.restored);
        restored.with_context(|| open.text)
    }
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
        for (nr, restored) in std::mem::take(&mut self.unfinished) {
            self.volume.restore(nr, &restored)?;
        }
        Ok(())
    }
}
