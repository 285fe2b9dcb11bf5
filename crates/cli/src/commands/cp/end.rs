//! The two ends of a copy: a path of the host, or one within an image. Both have the same
//! operations.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ext::Volume;
use ext::volume::NewInode;
use transfer::{Node, host};

use crate::image::{Access, ImagePath, MountArguments, open_volume};
use crate::output;

/// One end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Host(PathBuf),
    Image { image: String, path: Vec<u8> },
}

/// The identity of a file, independent of its name: the image, if it is in one, and its number.
pub(super) type Identity = (Option<String>, (u64, u64));

/// The open images of a copy.
#[derive(Default)]
pub(super) struct Images {
    volumes: BTreeMap<String, Volume>,
}

/// A file that is being written.
pub(super) enum Stream<'v> {
    Host(File),
    /// A device or a pipe, and the number of bytes written to it: it gets all bytes in their order,
    /// because what is left out would not be zero, or nowhere.
    Special(File, u64),
    Image(ext::volume::File<'v>),
}

/// A file that was written and closed, or is still open on the host.
pub(super) enum Written {
    Host(File),
    Special,
    Image,
}

impl Images {
    /// Opens each image once; for writing only if a copy goes to it.
    pub(super) fn open_all(
        &mut self,
        sources: &[End],
        target: &End,
        mount: &MountArguments,
    ) -> Result<()> {
        for (end, access) in std::iter::once((target, Access::Write))
            .chain(sources.iter().map(|source| (source, Access::Read)))
        {
            if let End::Image { image, .. } = end
                && !self.volumes.contains_key(image)
            {
                self.volumes
                    .insert(image.clone(), open_volume(image, access, mount)?);
            }
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<()> {
        for (image, volume) in &self.volumes {
            volume.sync().with_context(|| format!("{image}: sync"))?;
        }
        Ok(())
    }

    /// Closes all images. Returns the first error.
    pub(super) fn close(self) -> Result<()> {
        let mut result = Ok(());
        for (image, volume) in self.volumes {
            let closed = volume.close().with_context(|| format!("{image}: closing"));
            result = result.and(closed);
        }
        result
    }

    pub(super) fn volume(&self, image: &str) -> &Volume {
        self.volumes
            .get(image)
            .expect("every image of the command was opened")
    }
}

/// Returns a path without its trailing slashes.
pub(super) fn without_slashes(path: &[u8]) -> &[u8] {
    let last = path.iter().rposition(|byte| *byte != b'/');
    &path[..last.map_or(0, |last| last + 1)]
}

impl End {
    pub(super) fn parse(text: &OsStr) -> Result<Self> {
        Ok(match ImagePath::split(text)? {
            Some(ImagePath { image, path }) => Self::Image { image, path },
            None => Self::Host(PathBuf::from(text)),
        })
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Host(path) => path.display().to_string(),
            Self::Image { image, path } => format!("{image}:{}", output::name_text(path)),
        }
    }

    /// Fails if the path is one of the host and does not exist.
    pub(super) fn check_on_host(&self) -> Result<()> {
        match self {
            Self::Host(path) if host::look(path, false)?.is_none() => {
                bail!("{}: no such file or directory", self.text())
            }
            _ => Ok(()),
        }
    }

    /// Returns the last name of the path.
    pub(super) fn name(&self) -> Result<Vec<u8>> {
        let name = match self {
            Self::Host(path) => path
                .canonicalize()
                .with_context(|| self.text())?
                .file_name()
                .map(|name| name.as_bytes().to_vec()),
            Self::Image { path, .. } => path
                .rsplit(|byte| *byte == b'/')
                .find(|name| !name.is_empty())
                .map(<[u8]>::to_vec),
        };
        name.with_context(|| format!("{}: has no name of its own; name the copy", self.text()))
    }

    /// Returns the end for a name below this one.
    pub(super) fn join(&self, name: &[u8]) -> Self {
        match self {
            Self::Host(path) => Self::Host(path.join(OsStr::from_bytes(name))),
            Self::Image { image, path } => {
                let base = without_slashes(path);
                Self::Image {
                    image: image.clone(),
                    path: [base, b"/", name].concat(),
                }
            }
        }
    }

    /// Returns the end for a path below this one; this one if the path is empty.
    pub(super) fn below(&self, path: &[u8]) -> Self {
        match path {
            [] => self.clone(),
            path => self.join(path),
        }
    }

    /// Returns the facts of the file, if there is one.
    pub(super) fn facts(&self, images: &Images, follow: bool) -> Result<Option<Node>> {
        match self {
            Self::Host(path) => host::look(path, follow),
            Self::Image { image, path } => match images.volume(image).metadata(path, follow) {
                Ok(found) => Ok(Some(transfer::node_of(&found, Vec::new()))),
                Err(ext::Error::NotFound) => Ok(None),
                Err(error) => Err(anyhow::Error::from(error).context(self.text())),
            },
        }
    }

    /// Creates a file, or truncates an existing one.
    pub(super) fn create<'v>(&self, images: &'v Images, new: &NewInode) -> Result<Stream<'v>> {
        match self {
            Self::Host(path) => {
                // The file gets its permissions when its data is complete.
                let mut options = File::options();
                let options = options.write(true).create(true).truncate(true).mode(0o600);
                let file = options.open(path).with_context(|| self.text())?;
                let is_regular = file.metadata().with_context(|| self.text())?.is_file();
                Ok(match is_regular {
                    true => Stream::Host(file),
                    false => Stream::Special(file, 0),
                })
            }
            Self::Image { image, path } => {
                let file = images.volume(image).create_file(path, new);
                Ok(Stream::Image(file.with_context(|| self.text())?))
            }
        }
    }

    pub(super) fn make_directory(&self, images: &Images) -> Result<()> {
        match self {
            Self::Host(path) => {
                let mut builder = DirBuilder::new();
                let made = builder.mode(0o700).create(path);
                made.with_context(|| self.text())
            }
            Self::Image { image, path } => {
                let made = images.volume(image).create_directory(path);
                made.map(drop).with_context(|| self.text())
            }
        }
    }

    pub(super) fn make_link(&self, images: &Images, target: &[u8]) -> Result<()> {
        match self {
            Self::Host(path) => std::os::unix::fs::symlink(OsStr::from_bytes(target), path)
                .with_context(|| self.text()),
            Self::Image { image, path } => {
                let made = images.volume(image).create_symlink(path, target);
                made.map(drop).with_context(|| self.text())
            }
        }
    }

    /// Creates a device node, fifo or socket.
    pub(super) fn make_node(&self, images: &Images, node: &Node) -> Result<()> {
        match self {
            Self::Host(path) => {
                host::make_node(path, node, node.permissions).with_context(|| self.text())
            }
            Self::Image { image, path } => {
                let volume = images.volume(image);
                let (parent, name) = volume.resolve_parent(path).with_context(|| self.text())?;
                let new = NewInode {
                    permissions: node.permissions,
                    ..NewInode::default()
                };
                let made = volume.make_node(parent, name, node.kind, node.device, &new);
                made.map(drop).with_context(|| self.text())
            }
        }
    }

    /// Removes a file that is not a directory.
    pub(super) fn remove(&self, images: &Images) -> Result<()> {
        match self {
            Self::Host(path) => fs::remove_file(path).with_context(|| self.text()),
            Self::Image { image, path } => images
                .volume(image)
                .remove_file(path)
                .with_context(|| self.text()),
        }
    }

    /// Adds a hard link to the first copy of a file.
    pub(super) fn make_hard_link(&self, images: &Images, first: &Self) -> Result<()> {
        match (self, first) {
            (Self::Host(path), Self::Host(first)) => {
                fs::hard_link(first, path).with_context(|| self.text())
            }
            (Self::Image { image, path }, Self::Image { path: first, .. }) => images
                .volume(image)
                .hard_link(first, path)
                .with_context(|| self.text()),
            _ => bail!("{}: a link cannot lead out of an image", self.text()),
        }
    }

    /// Returns the identity of a file, if it is known.
    pub(super) fn identity(&self, node: &Node) -> Option<Identity> {
        let image = match self {
            Self::Host(_) => None,
            Self::Image { image, .. } => Some(image.clone()),
        };
        node.identity.map(|number| (image, number))
    }

    /// Returns the identity of the file; none if there is no file.
    pub(super) fn identity_of(&self, images: &Images, follow: bool) -> Result<Option<Identity>> {
        let found = self.facts(images, follow)?;
        Ok(found.and_then(|node| self.identity(&node)))
    }
}

impl Stream<'_> {
    /// Writes at an offset; the omitted range before it is a hole.
    pub(super) fn write_all_at(&mut self, from: &[u8], offset: u64) -> Result<()> {
        match self {
            Self::Host(file) => Ok(file.write_all_at(from, offset)?),
            Self::Special(file, position) => {
                fill(file, position, offset)?;
                file.write_all(from)?;
                *position += from.len() as u64;
                Ok(())
            }
            Self::Image(file) => Ok(file.write_at(offset, from)?),
        }
    }

    pub(super) fn set_size(&mut self, size: u64) -> Result<()> {
        match self {
            Self::Host(file) => Ok(file.set_len(size)?),
            Self::Special(file, position) => Ok(fill(file, position, size)?),
            Self::Image(file) => Ok(file.set_len(size)?),
        }
    }

    pub(super) fn close(self) -> Result<Written> {
        match self {
            Self::Host(file) => Ok(Written::Host(file)),
            Self::Special(..) => Ok(Written::Special),
            Self::Image(file) => file.close().map(|()| Written::Image).map_err(Into::into),
        }
    }
}

/// Writes zeroes from a position to another.
fn fill(file: &mut File, position: &mut u64, to: u64) -> io::Result<()> {
    let count = to.saturating_sub(*position);
    io::copy(&mut io::repeat(0).take(count), file)?;
    *position += count;
    Ok(())
}
