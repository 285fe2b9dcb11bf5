//! The model file system: a tree whose states share what they have in common.
//!
//! A [`Tree`] is a map of shared nodes; an operation copies the path to what it changes and leaves
//! the rest. It knows what a file system would say of itself after the operation: names, kinds,
//! links, sizes, times, and of each sector which write it is from.

mod apply;
mod ranges;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::marks::Marks;
use crate::op::{Path, Special};

pub use apply::Change;

/// The id of a node. The root is 0.
pub type NodeId = u32;

/// The root directory.
pub const ROOT: NodeId = 0;

/// One state of the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    nodes: Arc<BTreeMap<NodeId, Arc<Node>>>,
}

/// A file, directory or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its kind.
    pub kind: Kind,
    /// Number of names (of a directory: with `.` and the `..` below it).
    pub links: u32,
    /// Permission bits.
    pub permissions: u16,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Extended attributes and the access control list.
    pub marks: Arc<Marks>,
    /// Last change of contents, in seconds since 1970.
    pub modified: i64,
    /// Last change of the inode.
    pub changed: i64,
    /// The state that the last change of the inode, or of its names, made.
    pub changed_in: usize,
    /// The state that the last change of the contents made.
    pub data_in: usize,
    /// The state that the last change of what is needed to read the contents back made: blocks and
    /// size.
    pub map_in: usize,
}

/// The kind of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A file: size in bytes, and the sectors of all blocks that the size reaches into.
    File {
        /// In bytes.
        size: u64,
        /// Whole blocks of sectors.
        sectors: Arc<Vec<Sector>>,
    },
    /// A directory: its names.
    Directory(Arc<BTreeMap<Path, NodeId>>),
    /// A symbolic link: what it says.
    Symlink(Path),
    /// A fifo, socket or device.
    Special(Special),
}

/// The contents of a sector of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sector {
    /// The write that it is from; 0 is none: zeroes.
    pub write: u32,
    /// Number of its bytes that were not cut off since; zeroes follow.
    pub cut: u16,
    /// The state in which its block was allocated; 0 for a hole.
    pub allocated_in: u32,
    /// The last state whose data of the block is ordered whatever the mount option says: it
    /// allocated the block, reached beyond the file's end in it, or cleared what lies behind a new
    /// end.
    pub ordered_in: u32,
}

impl Tree {
    /// An empty file system, made at a time.
    pub fn new(seconds: i64) -> Self {
        let root = Node {
            kind: Kind::Directory(Arc::default()),
            links: 2,
            permissions: 0o755,
            owner: (0, 0),
            marks: Arc::default(),
            modified: seconds,
            changed: seconds,
            changed_in: 0,
            data_in: 0,
            map_in: 0,
        };
        Self {
            nodes: Arc::new(BTreeMap::from([(ROOT, Arc::new(root))])),
        }
    }

    /// A node.
    ///
    /// # Panics
    /// If there is none with this number.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    /// A node, if it is there.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id).map(|node| &**node)
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, &**node))
    }

    /// Returns the node at a path.
    pub fn find(&self, path: &str) -> Option<NodeId> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(ROOT, |directory, name| {
            self.names(directory)?.get(name).copied()
        })
    }

    /// The names of a directory; none if the node is something else.
    pub fn names(&self, id: NodeId) -> Option<&BTreeMap<Path, NodeId>> {
        match &self.get(id)?.kind {
            Kind::Directory(names) => Some(names),
            _ => None,
        }
    }

    /// The file that a write is in.
    pub(crate) fn holder(&self, write: u32) -> Option<NodeId> {
        let has = |id| {
            let mut sectors = self.sectors(id).into_iter().flatten();
            sectors.any(|sector| sector.write == write)
        };
        self.nodes().map(|(id, _)| id).find(|id| has(*id))
    }

    /// The contents of a file in this state, if it is there and is one.
    pub fn sectors(&self, id: NodeId) -> Option<&[Sector]> {
        match &self.get(id)?.kind {
            Kind::File { sectors, .. } => Some(sectors),
            _ => None,
        }
    }
}

/// Sectors of all blocks that a size reaches into.
fn sector_count(size: u64) -> usize {
    let block_bytes = (BLOCK_SECTORS * SECTOR_BYTES) as u64;
    size.div_ceil(block_bytes) as usize * BLOCK_SECTORS
}
