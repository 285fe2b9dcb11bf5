//! Copies whole trees from a directory, an archive or an image into an image, an archive or a
//! directory.
//!
//! A *source* sends a tree as a stream of [`Item`]s, and a *sink* creates them. Each runs on its
//! own thread, so that reads and writes overlap. A directory of the host that becomes an image is
//! more than a stream: its tree is known before the image is built, and the data of its files
//! bypasses the sink. Several trees that become one image, and the layers of a container image, are
//! merged first (`merge`), so that only what is left of them is made.
//!
//! | | source | sink |
//! |---|---|---|
//! | a directory or file of the host | `from_directory` | `to_directory` |
//! | a tar archive, plain, gzip or zstd | `from_archive` | `to_archive` |
//! | a container image: OCI, `docker save` | `from_container` | |
//! | a dump file of composefs | `from_dump` | |
//! | an image | `from_image` | `to_image` |
//!
//! # Rules
//!
//! - A directory precedes its entries. A further name of an inode that was already sent is a hard
//!   link to the first.
//! - The data of a file follows its node, in ascending order; omitted ranges are holes.
//! - A source sends the same tree in the same order each time.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "trees of the host: its files and threads"
)]

mod acl_text;
mod decompressed;
mod digest;
pub mod edits;
pub mod entered;
mod error;
mod file_data;
mod from_archive;
mod from_container;
mod from_directory;
mod from_dump;
mod from_image;
pub mod host;
mod merge;
pub mod new_image;
mod origin;
mod packed;
mod paged;
mod parts;
mod pax;
mod placed;
pub mod publish;
mod scan;
mod scratch;
mod section;
mod stop;
mod tally;
mod tar_entries;
mod to_archive;
mod to_directory;
mod to_image;

use std::fs::File;
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::{Result, anyhow};
use ext::volume::{DeviceNumber, FileKind};
use layout::time::InodeTime;

pub use error::Error;
pub use from_archive::ArchiveSource;
pub use from_container::{ContainerSource, Platform};
pub use from_directory::DirectorySource;
pub use from_dump::DumpSource;
pub use from_image::{ImageSource, node_of};
pub use origin::Origin;
pub use packed::{Compression, write_archive};
pub use parts::Parts;
pub use stop::Stop;
pub use tally::Tally;
pub use to_archive::ArchiveSink;
pub use to_directory::DirectorySink;
pub use to_image::{Filling, ImageSink, Times};

/// Limits of a batch: items, and their bytes. Batches spare the two threads a wakeup per item.
const BATCH_ITEMS: usize = 128;
const BATCH_BYTES: usize = 1 << 20;
/// Maximum number of batches in the channel.
const BATCHES_ON_THE_WAY: usize = 8;
/// Maximum number of threads; more would only wait for the device.
const WORKERS_MAX: usize = 8;
/// Maximum bytes of data in one item.
pub const CHUNK_BYTES: usize = 1 << 20;

/// The parts of a tree that a source sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// True if later names of a file are links to the first; otherwise each is a separate file.
    pub links: bool,
    /// True to read extended attributes.
    pub attributes: bool,
    /// True to follow a symbolic link that names the root.
    pub follows_root: bool,
    /// True to send the directory `lost+found` even if it is empty.
    pub lost_and_found: bool,
    /// True if the data of a file has the length of its node; an error otherwise. False to read
    /// files of the host to their end: files that the kernel generates report another length. Empty
    /// data at the end then gives the length.
    pub exact: bool,
}

impl Scope {
    /// Everything that archives hold.
    pub const WHOLE: Self = Self {
        links: true,
        attributes: true,
        follows_root: true,
        lost_and_found: false,
        exact: true,
    };
}

/// Counts bytes of data, for a progress bar.
pub type Counter<'c> = &'c (dyn Fn(u64) + Sync);
/// Receives warnings, each a single line.
pub type Warn<'w> = &'w dyn Fn(&str);
/// Returns the name of a file format that is neither a directory nor an archive, if it is known.
pub type Recognise<'r> = &'r dyn Fn(&File) -> Option<String>;

/// A file, directory, link or device node.
#[derive(Debug, Clone)]
pub struct Node {
    /// Path without leading and trailing slash; empty for the root.
    pub path: Vec<u8>,
    /// False for a directory that no source describes, but that is on the way to others.
    pub is_described: bool,
    /// Kind of the file.
    pub kind: FileKind,
    /// The 12 permission bits.
    pub permissions: u16,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Time of the last access.
    pub atime: InodeTime,
    /// Time of the last modification of the contents.
    pub mtime: InodeTime,
    /// Device and inode number, if the node comes from a file system; the device is 0 in an image.
    pub identity: Option<(u64, u64)>,
    /// Number of names.
    pub links: u64,
    /// Length in bytes.
    pub size: u64,
    /// Bytes that are data and not holes, if known.
    pub held: u64,
    /// Parts that are data, if the source knows that the file has holes.
    pub parts: Option<Parts>,
    /// Device number of a device node.
    pub device: DeviceNumber,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Path of the first name of a hard link. If it is set, only `path` is used besides it.
    pub link_to: Option<Vec<u8>>,
    /// Extended attributes, including access control lists.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An item of the stream that describes a tree.
#[derive(Debug)]
pub enum Item {
    /// A node; its data may follow.
    Node(Box<Node>),
    /// Data of the previous node.
    Data {
        /// Offset in the file, in bytes.
        offset: u64,
        /// The data.
        bytes: Vec<u8>,
    },
}

/// A source of a tree.
pub trait Source: Send {
    /// Sends the tree; without data if `with_data` is false.
    ///
    /// # Errors
    /// Fails with the first error of reading the tree or of `send`.
    fn tell(&self, with_data: bool, send: &mut dyn FnMut(Item) -> Result<()>) -> Result<()>;
}

/// Receives the entries of a tree one by one, and decides whose data is read.
pub(crate) trait Visitor {
    /// Takes a node; returns true if its data is wanted.
    fn node(&mut self, node: Node) -> Result<bool>;

    /// Takes data of the previous node.
    fn data(&mut self, offset: u64, bytes: Vec<u8>) -> Result<()>;
}

/// A destination of a tree.
pub trait Sink {
    /// Creates an item.
    ///
    /// # Errors
    /// Fails if the item cannot be created.
    fn take(&mut self, item: Item) -> Result<()>;

    /// Finishes open files and directories after the last item.
    ///
    /// # Errors
    /// Fails if a file or directory cannot be finished.
    fn end(&mut self) -> Result<()>;
}

impl Node {
    /// Returns a directory that no source describes.
    pub(crate) fn undescribed_directory(path: Vec<u8>, made: InodeTime) -> Self {
        Self {
            is_described: false,
            mtime: made,
            ..Self::plain_directory(path)
        }
    }

    /// Returns a directory with default attributes.
    pub(crate) fn plain_directory(path: Vec<u8>) -> Self {
        Self {
            path,
            is_described: true,
            kind: FileKind::Directory,
            permissions: 0o755,
            uid: 0,
            gid: 0,
            atime: InodeTime::default(),
            mtime: InodeTime::default(),
            identity: None,
            links: 1,
            size: 0,
            held: 0,
            parts: None,
            device: DeviceNumber::default(),
            target: Vec::new(),
            link_to: None,
            attributes: Vec::new(),
        }
    }

    /// Returns the approximate memory of what has no fixed size.
    fn bytes(&self) -> usize {
        let attributes = self.attributes.iter();
        let attributes = attributes.map(|(name, value)| name.len() + value.len());
        let link = self.link_to.as_ref().map_or(0, Vec::len);
        let parts = self.parts.as_ref().map_or(0, Parts::count);
        self.path.len()
            + self.target.len()
            + link
            + parts * size_of::<[u64; 2]>()
            + attributes.sum::<usize>()
    }

    /// Returns the path as text, for messages.
    pub fn text(&self) -> String {
        format!("/{}", String::from_utf8_lossy(&self.path))
    }
}

/// Splits a path into its directory and its last name.
fn split_path(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// Copies a tree from its source into a sink.
///
/// # Errors
/// Fails with the first error of either.
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
    // A closed channel means that the sink has failed, and `run` returns that error instead.
    let send = |batch| {
        sender
            .send(batch)
            .map_err(|_| anyhow!("the copy has ended"))
    };
    let (mut batch, mut bytes) = (Vec::with_capacity(BATCH_ITEMS), 0);
    source.tell(true, &mut |item| {
        bytes += match &item {
            Item::Data { bytes, .. } => bytes.len(),
            Item::Node(node) => node.bytes(),
        };
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

/// Returns the number of threads for parallel work.
fn worker_count() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(WORKERS_MAX))
}
