//! The two ends of a copy: a path of the host, or one within an image. Both answer the same
//! questions.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use ext::Volume;
use ext::volume::{DeviceNumber, FileKind, NewInode, OpenFlags};
use layout::InodeNr;
use layout::time::InodeTime;

use super::host;
use crate::image::{Access, ImagePath, MountArguments, open_volume};
use crate::output;

/// One end of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Host(PathBuf),
    Image { image: String, path: Vec<u8> },
}

/// The facts about a file that a copy needs.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Its number in an image; none on the host.
    pub(super) inode: Option<InodeNr>,
    /// Device and inode on the host; 0 and the inode in an image.
    pub(super) number: (u64, u64),
    pub(super) links: u64,
    pub(super) kind: FileKind,
    pub(super) permissions: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    pub(super) atime: InodeTime,
    pub(super) mtime: InodeTime,
    pub(super) device: DeviceNumber,
}

/// The identity of a file, independent of its name: the image, if it is in one, and its number.
pub(super) type Identity = (Option<String>, (u64, u64));

/// The images of a copy, opened.
#[derive(Default)]
pub(super) struct Images {
    volumes: BTreeMap<String, Volume>,
}

/// A file that is being read or written.
pub(super) enum Stream<'v> {
    Host(File),
    Image(ext::volume::File<'v>),
}

impl Images {
    /// Opens each image once; for writing only where something is written.
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

    /// Closes all of them; the first error is reported.
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

/// A path without the slashes at its end.
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

    /// Fails if it is of the host and nothing stands there.
    pub(super) fn check_on_host(&self) -> Result<()> {
        match self {
            Self::Host(path) if host::facts(path, false)?.is_none() => {
                bail!("{}: no such file or directory", self.text())
            }
            _ => Ok(()),
        }
    }

    /// The last name.
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

    /// Returns the end of a name below this one.
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

    /// Returns the facts of the file, if there is one.
    pub(super) fn facts(&self, images: &Images, follow: bool) -> Result<Option<Facts>> {
        match self {
            Self::Host(path) => host::facts(path, follow),
            Self::Image { image, path } => match images.volume(image).metadata(path, follow) {
                Ok(a) => Ok(Some(Facts {
                    inode: Some(a.inode),
                    number: (0, u64::from(a.inode.get())),
                    links: u64::from(a.links),
                    kind: a.kind,
                    permissions: a.permissions,
                    uid: a.uid,
                    gid: a.gid,
                    size: a.size,
                    atime: a.atime,
                    mtime: a.mtime,
                    device: a.device.unwrap_or_default(),
                })),
                Err(ext::Error::NotFound) => Ok(None),
                Err(error) => Err(anyhow::Error::from(error).context(self.text())),
            },
        }
    }

    /// The names of a directory, sorted, so that copies are made in the same order each time.
    pub(super) fn names(&self, images: &Images) -> Result<Vec<Vec<u8>>> {
        let mut names: Vec<Vec<u8>> = match self {
            Self::Host(path) => fs::read_dir(path)
                .with_context(|| self.text())?
                .map(|entry| Ok(entry?.file_name().as_bytes().to_vec()))
                .collect::<Result<_>>()?,
            Self::Image { image, path } => {
                let entries = images
                    .volume(image)
                    .list(path)
                    .with_context(|| self.text())?;
                entries.into_iter().map(|entry| entry.name).collect()
            }
        };
        names.sort();
        Ok(names)
    }

    /// Returns the target of a symbolic link.
    pub(super) fn link_target(&self, images: &Images) -> Result<Vec<u8>> {
        match self {
            Self::Host(path) => {
                let target = fs::read_link(path).with_context(|| self.text())?;
                Ok(target.as_os_str().as_bytes().to_vec())
            }
            Self::Image { image, path } => images
                .volume(image)
                .read_link_at(path)
                .with_context(|| self.text()),
        }
    }

    /// Opens a file to read.
    pub(super) fn open<'v>(&self, images: &'v Images) -> Result<Stream<'v>> {
        match self {
            Self::Host(path) => Ok(Stream::Host(File::open(path).with_context(|| self.text())?)),
            Self::Image { image, path } => {
                let file = images.volume(image).open_file(path, OpenFlags::READ);
                Ok(Stream::Image(file.with_context(|| self.text())?))
            }
        }
    }

    /// Makes a file, or empties one.
    pub(super) fn create<'v>(&self, images: &'v Images, new: &NewInode) -> Result<Stream<'v>> {
        match self {
            Self::Host(path) => {
                // It gets its permissions when its data is there.
                let mut options = File::options();
                let options = options.write(true).create(true).truncate(true).mode(0o600);
                let file = options.open(path).with_context(|| self.text())?;
                Ok(Stream::Host(file))
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

    /// Makes a device, fifo or socket.
    pub(super) fn make_node(&self, images: &Images, facts: &Facts) -> Result<()> {
        match self {
            Self::Host(path) => {
                let kind = rustix::fs::FileType::from_raw_mode(u32::from(facts.kind.mode()));
                let mode = rustix::fs::Mode::from_raw_mode(u32::from(facts.permissions));
                let device = rustix::fs::makedev(facts.device.major, facts.device.minor);
                rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, device)
                    .with_context(|| self.text())
            }
            Self::Image { image, path } => {
                let volume = images.volume(image);
                let (parent, name) = volume.resolve_parent(path).with_context(|| self.text())?;
                let new = NewInode {
                    permissions: facts.permissions,
                    ..NewInode::default()
                };
                let made = volume.make_node(parent, name, facts.kind, facts.device, &new);
                made.map(drop).with_context(|| self.text())
            }
        }
    }

    /// Removes what is not a directory.
    pub(super) fn remove(&self, images: &Images) -> Result<()> {
        match self {
            Self::Host(path) => fs::remove_file(path).with_context(|| self.text()),
            Self::Image { image, path } => images
                .volume(image)
                .remove_file(path)
                .with_context(|| self.text()),
        }
    }

    /// Gives the first copy of a file another name.
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

    /// Returns the identity of the file.
    pub(super) fn identity(&self, facts: &Facts) -> Identity {
        let image = match self {
            Self::Host(_) => None,
            Self::Image { image, .. } => Some(image.clone()),
        };
        (image, facts.number)
    }

    /// Returns which file stands there; none if there is none.
    pub(super) fn identity_of(&self, images: &Images, follow: bool) -> Result<Option<Identity>> {
        let facts = self.facts(images, follow)?;
        Ok(facts.map(|facts| self.identity(&facts)))
    }

    /// Returns the data of an open file as offsets and lengths; the rest is holes.
    pub(super) fn data_parts(
        &self,
        images: &Images,
        open: &Stream<'_>,
        size: u64,
    ) -> Result<Vec<(u64, u64)>> {
        match (self, open) {
            (Self::Image { image, path }, _) => {
                let volume = images.volume(image);
                let nr = volume.resolve(path, true).with_context(|| self.text())?;
                transfer::data_parts(volume, nr, size).with_context(|| self.text())
            }
            (Self::Host(_), Stream::Host(file)) => {
                transfer::host_data_parts(file, size).with_context(|| self.text())
            }
            (Self::Host(_), Stream::Image(_)) => Ok(vec![(0, size)]),
        }
    }
}

impl Stream<'_> {
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match self {
            Self::Host(file) => Ok(file.read(into)?),
            Self::Image(file) => Ok(file.read(into)?),
        }
    }

    pub(super) fn write_all(&mut self, from: &[u8]) -> Result<()> {
        match self {
            Self::Host(file) => Ok(file.write_all(from)?),
            Self::Image(file) => Ok(file.write_all(from)?),
        }
    }

    /// Goes to an offset, so that a hole is left.
    pub(super) fn seek(&mut self, offset: u64) -> Result<()> {
        match self {
            Self::Host(file) => {
                use std::io::{Seek, SeekFrom};
                file.seek(SeekFrom::Start(offset))?;
            }
            Self::Image(file) => file.set_position(offset),
        }
        Ok(())
    }

    pub(super) fn set_size(&mut self, size: u64) -> Result<()> {
        match self {
            Self::Host(file) => Ok(file.set_len(size)?),
            Self::Image(file) => Ok(file.set_len(size)?),
        }
    }

    pub(super) fn close(self) -> Result<()> {
        match self {
            Self::Host(_) => Ok(()),
            Self::Image(file) => Ok(file.close()?),
        }
    }
}
