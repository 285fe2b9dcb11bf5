//! A tree that an image can be made from, whatever holds it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::decompressed;
use super::from_archive::ArchiveSource;
use super::from_container::{self, Choice, ContainerSource, Platform};
use super::from_directory::DirectorySource;
use super::from_dump::DumpSource;
use super::section::{STANDARD_INPUT, Section};
use super::{Item, Node, Recognise, Scope, Source, Stop, Visitor};

/// A tree that an image can be made from.
pub enum Origin {
    /// A directory of the host.
    Directory(Box<DirectorySource>),
    /// A tar archive.
    Archive(ArchiveSource),
    /// A container image.
    Container(ContainerSource),
    /// A dump file of composefs.
    Dump(DumpSource),
}

/// A tree that others are put on top of. A container image consists of several.
pub(crate) enum Layer<'o> {
    Directory(&'o DirectorySource),
    Archive(&'o ArchiveSource),
    /// A layer of a container image, which removes files of the layers below.
    Container(&'o from_container::Layer),
    Dump(&'o DumpSource),
}

impl Origin {
    /// Opens a directory, a tar archive or a container image; `-` is an archive from standard
    /// input. Behind the path of a container image a colon and a name may choose one of several,
    /// and `platform` chooses one for several platforms. `recognise` names a file that is none of
    /// these. `stop` ends the scan of a directory, and
    /// all reads of an archive.
    ///
    /// # Errors
    /// Fails if the path is none of them, or cannot be read.
    pub fn open(
        path: &Path,
        platform: Option<&Platform>,
        recognise: Recognise<'_>,
        stop: &Stop,
    ) -> Result<Self> {
        let (path, tag) = split_tag(path);
        let tag = tag.as_deref();
        let choice = Choice { tag, platform };
        let name = path.display().to_string();
        let is_input = path == Path::new(STANDARD_INPUT);
        let container = if !is_input && path.is_dir() {
            match ContainerSource::of_directory(&path, choice)? {
                None if tag.is_none() => {
                    let directory = DirectorySource::open_until(&path, Scope::WHOLE, stop)?;
                    return Ok(Self::Directory(Box::new(directory)));
                }
                other => other,
            }
        } else {
            let contents = Section::open(&path)?.until(stop);
            match ContainerSource::of_archive(&name, &contents, choice)? {
                None if tag.is_none() => {
                    let archive = ArchiveSource::open(name, contents, recognise);
                    return archive.map(Self::Archive);
                }
                other => other,
            }
        };
        match container {
            Some(container) => Ok(Self::Container(container)),
            None => bail!("{name}: is no container image, of which a name could choose one"),
        }
    }

    /// Opens a dump file of composefs. Contents that are not in it are files below `base`.
    ///
    /// # Errors
    /// Fails if the file is no dump file, or cannot be read.
    pub fn open_dump(path: &Path, base: Option<&Path>) -> Result<Self> {
        DumpSource::open(path, base).map(Self::Dump)
    }

    /// Returns true if the tree can be copied as it is told. All others must be merged.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Self::Directory(_) | Self::Archive(_))
    }

    /// Returns the trees of which this one consists, the lowest first.
    pub(crate) fn layers(&self) -> Vec<Layer<'_>> {
        match self {
            Self::Directory(directory) => vec![Layer::Directory(directory)],
            Self::Archive(archive) => vec![Layer::Archive(archive)],
            Self::Container(container) => container.layers().iter().map(Layer::Container).collect(),
            Self::Dump(dump) => vec![Layer::Dump(dump)],
        }
    }

    /// Calls `see` with each node of a plain tree.
    pub(crate) fn survey(&self, see: &mut dyn FnMut(&Node) -> Result<()>) -> Result<()> {
        let mut surveyor = Surveyor { see };
        let mut layers = self.layers().into_iter();
        layers.try_for_each(|layer| layer.visit(&mut surveyor))
    }

    /// Calls `see` with each node of a plain tree and its data.
    pub(crate) fn read(&self, see: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        match self {
            Self::Directory(directory) => directory.read(see),
            Self::Archive(archive) => archive.tell(true, see),
            Self::Container(_) | Self::Dump(_) => bail!("the tree has to be merged"),
        }
    }
}

impl Layer<'_> {
    /// Returns true if the layer removes files of the layers below.
    pub(crate) fn is_container(&self) -> bool {
        matches!(self, Self::Container(_))
    }

    /// Returns the approximate memory of the decompressor of the layer, in bytes.
    pub(crate) fn decoder_bytes(&self) -> u64 {
        match self {
            Self::Directory(_) | Self::Dump(_) => 0,
            Self::Archive(archive) => decompressed::decoder_bytes(archive.contents()),
            Self::Container(layer) => decompressed::decoder_bytes(layer.archive.contents()),
        }
    }

    /// Returns the path of the layer, for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Directory(directory) => directory.root().display().to_string(),
            Self::Archive(archive) => archive.name().to_owned(),
            Self::Container(layer) => layer.archive.name().to_owned(),
            Self::Dump(dump) => dump.name().to_owned(),
        }
    }

    /// Verifies what is known of the layer before it is read.
    pub(crate) fn verify(&self, stop: &Stop) -> Result<()> {
        match self {
            Self::Container(layer) => layer.verify(stop),
            _ => Ok(()),
        }
    }

    /// Shows all nodes, and the data that is wanted.
    pub(crate) fn visit(&self, visitor: &mut dyn Visitor) -> Result<()> {
        match self {
            Self::Directory(directory) => directory.visit(visitor),
            Self::Archive(archive) => archive.visit(visitor),
            Self::Container(layer) => layer.archive.visit(visitor),
            Self::Dump(dump) => dump.visit(visitor),
        }
    }
}

/// Shows nodes without data.
struct Surveyor<'s> {
    see: &'s mut dyn FnMut(&Node) -> Result<()>,
}

impl Visitor for Surveyor<'_> {
    fn node(&mut self, node: Node) -> Result<bool> {
        (self.see)(&node)?;
        Ok(false)
    }

    fn data(&mut self, _offset: u64, _bytes: Vec<u8>) -> Result<()> {
        Ok(())
    }
}

/// Splits a path that does not exist from a name behind a colon: the longest start that exists is
/// the path.
fn split_tag(path: &Path) -> (PathBuf, Option<String>) {
    let whole = (path.to_owned(), None);
    let Some(text) = path.to_str().filter(|_| !path.exists()) else {
        return whole;
    };
    let mut colons = text.rmatch_indices(':').map(|(at, _)| at);
    let found = colons.find(|at| {
        let start = &text[..*at];
        start == STANDARD_INPUT || Path::new(start).exists()
    });
    match found {
        Some(at) => (text[..at].into(), Some(text[at + 1..].to_owned())),
        None => whole,
    }
}
