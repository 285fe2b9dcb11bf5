//! Writes a directory of the host as a sink. Without root it leaves out owners, devices and system
//! attributes, and warns once.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ext::volume::FileKind;

use super::host::{self, Target};
use super::{Error, Item, Node, Sink, Warn};

/// Permissions of a file while it is written, and of a directory while it is filled.
const MODE_WHILE_OPEN: u16 = 0o600;
const MODE_WHILE_FILLED: u32 = 0o700;

/// A directory that is being filled.
pub struct DirectorySink<'w> {
    root: PathBuf,
    open: Option<(File, Box<Node>)>,
    directories: Vec<Node>,
    /// Attributes that were not copied because they need root.
    left_out: host::LeftOut,
    warn: Warn<'w>,
}

impl<'w> DirectorySink<'w> {
    /// Creates the directory to fill, which must not exist. Only its owner may enter it until it is
    /// complete.
    ///
    /// # Errors
    /// Fails with the host's error.
    pub fn create(root: &Path, warn: Warn<'w>) -> io::Result<Self> {
        make_directory(root)?;
        Ok(Self::of(root, warn))
    }

    /// Fills an existing directory. It must be empty, so that no symbolic link in it leads
    /// elsewhere.
    ///
    /// # Errors
    /// Fails with [`Error::NotEmpty`], or with the host's error.
    pub fn fill(root: &Path, warn: Warn<'w>) -> Result<Self> {
        let mut entries = fs::read_dir(root).with_context(|| root.display().to_string())?;
        if entries.next().is_some() {
            return Err(Error::NotEmpty(root.to_owned()).into());
        }
        Ok(Self::of(root, warn))
    }

    fn of(root: &Path, warn: Warn<'w>) -> Self {
        Self {
            root: root.to_owned(),
            open: None,
            directories: Vec::new(),
            left_out: host::LeftOut::default(),
            warn,
        }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    fn make(&mut self, node: Box<Node>) -> Result<()> {
        let at = self.at(&node.path);
        if let Some(first) = &node.link_to {
            let is_contents = matches!(
                node.kind,
                FileKind::Regular | FileKind::Directory | FileKind::Symlink
            );
            // Its first name was left out.
            if !is_contents && fs::symlink_metadata(self.at(first)).is_err() {
                return Ok(());
            }
            return Ok(fs::hard_link(self.at(first), at)?);
        }
        match node.kind {
            FileKind::Directory => {
                if !node.path.is_empty() {
                    make_directory(&at)?;
                }
                self.directories.push(*node);
                return Ok(());
            }
            FileKind::Regular => {
                let mut options = File::options();
                let options = options
                    .write(true)
                    .create_new(true)
                    .mode(MODE_WHILE_OPEN.into());
                let file = options.open(&at)?;
                file.set_len(node.size)?;
                self.open = Some((file, node));
                return Ok(());
            }
            FileKind::Symlink => {
                std::os::unix::fs::symlink(OsStr::from_bytes(&node.target), &at)?;
            }
            _ => {
                let made = host::make_node(&at, &node, MODE_WHILE_OPEN);
                self.left_out.note("devices", made)?;
                if fs::symlink_metadata(&at).is_err() {
                    return Ok(());
                }
            }
        }
        self.adopt(Target::Path(&at), &node)
    }

    /// Sets a file's owner, mode, attributes and times, in an order in which no step undoes
    /// another.
    fn adopt(&mut self, at: Target<'_>, node: &Node) -> Result<()> {
        let owner = host::set_owner(at, node);
        let permissions = self.left_out.note_owner(owner, node.permissions)?;
        host::remove_inherited(at, node)?;
        host::set_mode(at, node.kind, permissions)?;
        for (name, value) in &node.attributes {
            let set = host::set_attribute(at, name, value);
            self.left_out.note("some extended attributes", set)?;
        }
        host::set_times(at, node.mtime, node.mtime)
    }

    fn finish_file(&mut self) -> Result<()> {
        let Some((file, node)) = self.open.take() else {
            return Ok(());
        };
        let adopted = self.adopt(Target::File(&file), &node);
        adopted.with_context(|| node.text())
    }
}

fn make_directory(at: &Path) -> io::Result<()> {
    DirBuilder::new().mode(MODE_WHILE_FILLED).create(at)
}

impl Sink for DirectorySink<'_> {
    fn take(&mut self, item: Item) -> Result<()> {
        match item {
            Item::Node(node) => {
                self.finish_file()?;
                let text = node.text();
                self.make(node).context(text)
            }
            Item::Data { offset, bytes } => match &self.open {
                Some((file, node)) => file
                    .write_all_at(&bytes, offset)
                    .with_context(|| node.text()),
                None => bail!("data without a file"),
            },
        }
    }

    fn end(&mut self) -> Result<()> {
        self.finish_file()?;
        while let Some(node) = self.directories.pop() {
            let at = self.at(&node.path);
            let adopted = self.adopt(Target::Path(&at), &node);
            adopted.with_context(|| node.text())?;
        }
        if let Some(text) = self.left_out.text() {
            (self.warn)(&text);
        }
        Ok(())
    }
}
