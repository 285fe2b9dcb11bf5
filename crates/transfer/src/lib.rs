//! Whole trees on their way from one place to another: from a directory, an archive or an image into an image, an archive or a
//! directory.
//!
//! A *source* tells a tree as a stream of [`Item`]s, a *sink* makes what they say; they run on threads of their own, so that the
//! one reads while the other writes. A directory of the host, which becomes an image, is more than a stream: its tree is known
//! before it is built, and the data of its files goes to the image past the sink.
//!
//! | | source | sink |
//! |---|---|---|
//! | a directory of the host | `from_directory` | `to_directory` |
//! | a tar archive, plain, gzip or zstd | `from_archive` | `to_archive` |
//! | an image | `from_image` | `to_image` |
//!
//! # Rules
//!
//! - A directory comes before what is in it; a name of an inode that has come already is a hard link to the first.
//! - The data of a file follows its node, in ascending order; what is left out is a hole.
//! - A source tells the same tree in the same order each time.

#![warn(clippy::missing_errors_doc)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "trees of the host: its files and threads"
)]

mod acl_text;
pub mod entered;
mod error;
mod file_data;
mod from_archive;
mod from_directory;
mod from_image;
pub mod host;
mod packed;
mod pax;
mod scan;
mod tally;
mod tar_entries;
mod to_archive;
mod to_directory;
mod to_image;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::{Result, anyhow};
use block::BlockDevice;
use ext::Volume;
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;

pub use error::Error;
pub use from_archive::ArchiveSource;
pub use from_directory::{DirectorySource, host_data_parts};
pub use from_image::{ImageSource, data_parts};
pub use packed::{Compression, write_archive};
pub use tally::Tally;
pub use to_archive::ArchiveSink;
pub use to_directory::DirectorySink;
pub use to_image::{Filling, ImageSink, Times};

/// Items go in batches, so that the two threads do not wake each other for each: at most so many, or so many bytes of data.
const BATCH_ITEMS: usize = 128;
const BATCH_BYTES: usize = 1 << 20;
/// How many batches may be on their way.
const BATCHES_ON_THE_WAY: usize = 8;
/// More threads than this only wait for the device.
const WORKERS_MAX: usize = 8;
/// Bytes of data in one item.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Counts bytes of data, for a progress bar.
pub type Counter<'c> = &'c (dyn Fn(u64) + Sync);
/// Gets warnings, each one line.
pub type Warn<'w> = &'w dyn Fn(&str);
/// Names a file that is neither a directory nor an archive, if it knows it.
pub type Recognise<'r> = &'r dyn Fn(&File) -> Option<String>;

/// A file, directory, link or node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where it is, without slashes at either end; empty for the root.
    pub path: Vec<u8>,
    /// File, directory, link or node.
    pub kind: FileKind,
    /// The 12 permission bits.
    pub permissions: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The time of the last change of its contents.
    pub mtime: InodeTime,
    /// Its length in bytes.
    pub size: u64,
    /// Bytes of it that are data and not holes, as far as that is known.
    pub held: u64,
    /// Where its data lie, as offset and length, if the source knows that it has holes.
    pub parts: Option<Vec<(u64, u64)>>,
    /// The device that a device node stands for.
    pub device: DeviceNumber,
    /// Of a symbolic link.
    pub target: Vec<u8>,
    /// The path of which this is another name; then nothing else counts.
    pub link_to: Option<Vec<u8>>,
    /// Extended attributes, access control lists among them.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A part of a tree.
#[derive(Debug)]
pub enum Item {
    /// A node; data may follow.
    Node(Box<Node>),
    /// Data of the last node.
    Data {
        /// Its place in the file, in bytes.
        offset: u64,
        /// The data.
        bytes: Vec<u8>,
    },
}

/// Where a tree comes from.
pub trait Source: Send {
    /// Tells the tree; without data if only its nodes are wanted.
    ///
    /// # Errors
    /// Those of reading it, and those of `send`.
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()>;
}

/// Where a tree goes.
pub trait Sink {
    /// Makes what an item says.
    ///
    /// # Errors
    /// Those of making it.
    fn take(&mut self, item: Item) -> Result<()>;

    /// Ends what is open: the tree is whole.
    ///
    /// # Errors
    /// Those of making it.
    fn end(&mut self) -> Result<()>;
}

impl Node {
    /// A directory that nobody has described.
    fn plain_directory(path: Vec<u8>) -> Self {
        Self {
            path,
            kind: FileKind::Directory,
            permissions: 0o755,
            uid: 0,
            gid: 0,
            mtime: InodeTime::default(),
            size: 0,
            held: 0,
            parts: None,
            device: DeviceNumber::default(),
            target: Vec::new(),
            link_to: None,
            attributes: Vec::new(),
        }
    }

    /// Returns the path as text, for messages.
    pub fn text(&self) -> String {
        format!("/{}", String::from_utf8_lossy(&self.path))
    }
}

/// Directory and last name of a path.
fn split_path(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// Brings a tree from its source into a sink.
///
/// # Errors
/// The first error of either.
pub fn run(source: &(dyn Source + Sync), sink: &mut dyn Sink) -> Result<()> {
    let (sender, receiver) = sync_channel(BATCHES_ON_THE_WAY);
    std::thread::scope(|scope| {
        let told = scope.spawn(move || tell_in_batches(source, &sender));
        let taken = receiver
            .into_iter()
            .flatten()
            .try_for_each(|item| sink.take(item));
        let told = told.join().map_err(|_| anyhow!("reading has panicked"))?;
        taken?;
        told
    })?;
    sink.end()
}

fn tell_in_batches(source: &dyn Source, sender: &SyncSender<Vec<Item>>) -> Result<()> {
    // Whoever does not listen any more has an error of its own to tell.
    let send = |batch| {
        sender
            .send(batch)
            .map_err(|_| anyhow!("the copy has ended"))
    };
    let (mut batch, mut bytes) = (Vec::with_capacity(BATCH_ITEMS), 0);
    source.tell(true, &mut |item| {
        if let Item::Data { bytes: data, .. } = &item {
            bytes += data.len();
        }
        batch.push(item);
        if batch.len() < BATCH_ITEMS && bytes < BATCH_BYTES {
            return Ok(());
        }
        bytes = 0;
        send(std::mem::replace(
            &mut batch,
            Vec::with_capacity(BATCH_ITEMS),
        ))
    })?;
    send(batch)
}

/// A tree that an image can be made of.
pub enum Origin {
    /// A directory of the host.
    Directory(DirectorySource),
    /// A tar archive.
    Archive(ArchiveSource),
}

impl Origin {
    /// Opens what a path names: a directory, or an archive; `-` is one from standard input. `recognise` names what is neither.
    ///
    /// # Errors
    /// If it is neither, or cannot be read.
    pub fn open(path: &Path, recognise: Recognise<'_>) -> Result<Self> {
        if path != Path::new(from_archive::STANDARD_INPUT) && path.is_dir() {
            return DirectorySource::open(path).map(Self::Directory);
        }
        ArchiveSource::open(path, recognise).map(Self::Archive)
    }

    /// Shows each node.
    ///
    /// # Errors
    /// Those of reading the tree.
    pub fn survey(&self, see: &mut dyn FnMut(&Node)) -> Result<()> {
        match self {
            Self::Directory(directory) => {
                directory.nodes().iter().for_each(see);
                Ok(())
            }
            Self::Archive(archive) => archive.tell(false, &mut |item| {
                if let Item::Node(node) = item {
                    see(&node);
                }
                Ok(())
            }),
        }
    }

    /// Shows each node and its data.
    ///
    /// # Errors
    /// Those of reading the tree, and those of `see`.
    pub fn read(&self, see: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        match self {
            Self::Directory(directory) => directory.read(see),
            Self::Archive(archive) => archive.tell(true, see),
        }
    }

    /// Brings the tree into a volume that is being made on a device, and closes it.
    ///
    /// # Errors
    /// The first error of reading the tree or of the volume.
    pub fn fill(
        &self,
        device: &Arc<dyn BlockDevice>,
        volume: Volume,
        filling: &Filling<'_>,
    ) -> Result<()> {
        match self {
            Self::Directory(directory) => directory.fill(device, volume, filling),
            Self::Archive(archive) => {
                let filled = run(archive, &mut ImageSink::new(&volume, filling));
                let closed = volume.close();
                filled?;
                Ok(closed?)
            }
        }
    }
}

/// How many threads share what can be done at once.
fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(WORKERS_MAX))
}
