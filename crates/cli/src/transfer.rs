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

mod acl_text;
mod file_data;
mod from_archive;
mod from_directory;
mod from_image;
pub(crate) mod host;
mod pax;
mod scan;
mod tally;
mod tar_entries;
mod to_archive;
mod to_directory;
mod to_image;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::{Result, anyhow};
use block::BlockDevice;
use ext::Volume;
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;

pub(crate) use from_archive::ArchiveSource;
pub(crate) use from_directory::{DirectorySource, host_data_parts};
pub(crate) use from_image::{ImageSource, data_parts};
pub(crate) use tally::Tally;
pub(crate) use to_archive::ArchiveSink;
pub(crate) use to_directory::DirectorySink;
pub(crate) use to_image::{Filling, ImageSink, Times};

/// Items go in batches, so that the two threads do not wake each other for each: at most so many, or so many bytes of data.
const BATCH_ITEMS: usize = 128;
const BATCH_BYTES: usize = 1 << 20;
/// How many batches may be on their way.
const BATCHES_ON_THE_WAY: usize = 8;
/// More threads than this only wait for the device.
const WORKERS_MAX: usize = 8;
/// Bytes of data in one item.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// A file, directory, link or node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Where it is, without slashes at either end; empty for the root.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: FileKind,
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: InodeTime,
    pub(crate) size: u64,
    /// Bytes of it that are data and not holes, as far as that is known.
    pub(crate) held: u64,
    /// Where its data lie, as offset and length, if the source knows that it has holes.
    pub(crate) parts: Option<Vec<(u64, u64)>>,
    pub(crate) device: DeviceNumber,
    /// Of a symbolic link.
    pub(crate) target: Vec<u8>,
    /// The path of which this is another name; then nothing else counts.
    pub(crate) link_to: Option<Vec<u8>>,
    /// Extended attributes, access control lists among them.
    pub(crate) attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A part of a tree.
#[derive(Debug)]
pub(crate) enum Item {
    Node(Box<Node>),
    /// Data of the last node.
    Data {
        offset: u64,
        bytes: Vec<u8>,
    },
}

/// Where a tree comes from.
pub(crate) trait Source: Send {
    /// Tells the tree; without data if only its nodes are wanted.
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()>;
}

/// Where a tree goes.
pub(crate) trait Sink {
    /// Makes what an item says.
    fn take(&mut self, item: Item) -> Result<()>;

    /// Ends what is open: the tree is whole.
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

    /// The path as text, for messages.
    pub(crate) fn text(&self) -> String {
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
pub(crate) fn run(source: &(dyn Source + Sync), sink: &mut dyn Sink) -> Result<()> {
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

/// What an image can be made of.
pub(crate) enum Origin {
    Directory(DirectorySource),
    Archive(ArchiveSource),
}

impl Origin {
    /// What a path names: a directory, or an archive; `-` is one from standard input.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path != Path::new(from_archive::STANDARD_INPUT) && path.is_dir() {
            return DirectorySource::open(path).map(Self::Directory);
        }
        ArchiveSource::open(path).map(Self::Archive)
    }

    /// Shows each node.
    pub(crate) fn survey(&self, see: &mut dyn FnMut(&Node)) -> Result<()> {
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
    pub(crate) fn read(&self, see: &mut dyn FnMut(Item) -> Result<()>) -> Result<()> {
        match self {
            Self::Directory(directory) => directory.read(see),
            Self::Archive(archive) => archive.tell(true, see),
        }
    }

    /// Brings the tree into a volume that is being made on a device, and closes it.
    pub(crate) fn fill(
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
