//! The model file system: a tree whose states share their common parts.
//!
//! A [`Tree`] is a map of shared nodes; an operation copies the path to the change and shares the
//! rest. It has everything visible of a file system after the operation: names, kinds, links,
//! sizes, times, and for each sector the number of its write.

mod apply;
mod ranges;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::marks::Marks;
use crate::op::{Op, Path, Special};

pub use apply::Change;

/// The id of a node; the root has 0.
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
    /// Number of names (for a directory, including `.` and the `..` of its subdirectories).
    pub links: u32,
    /// Permission bits.
    pub permissions: u16,
    /// Owner and group.
    pub owner: (u32, u32),
    /// True if all changes of a directory's names are durable when they return.
    pub is_dirsync: bool,
    /// Extended attributes and the access control list.
    pub marks: Arc<Marks>,
    /// Time of the last change of contents, in seconds since 1970.
    pub modified: i64,
    /// Time of the last change of the inode.
    pub changed: i64,
    /// Time at which a range without blocks was last punched, if the file is small enough for its
    /// inode: there its bytes are zeroed, and both times change.
    pub punched_within: Option<i64>,
    /// Number of the state created by the last change of the inode or its names.
    pub changed_in: usize,
    /// Number of the state created by the last change of the contents.
    pub data_in: usize,
    /// Number of the state created by the last change of metadata needed to read the contents back:
    /// blocks and size.
    pub map_in: usize,
}

/// The kind of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A file: size in bytes, and the sectors of all blocks up to the size.
    File {
        /// Size in bytes.
        size: u64,
        /// Sectors of whole blocks.
        sectors: Arc<Vec<Sector>>,
    },
    /// A directory: its names.
    Directory(Arc<BTreeMap<Path, NodeId>>),
    /// A symbolic link: its target.
    Symlink(Path),
    /// A fifo, socket or device.
    Special(Special),
}

/// The contents of a sector of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sector {
    /// Number of its write; 0 for none: zeroes.
    pub write: u32,
    /// Number of its bytes that were not truncated since; zeroes follow.
    pub cut: u16,
    /// The state in which its block was allocated; 0 for a hole.
    pub allocated_in: u32,
    /// The sector of the file in which it was when it was written.
    pub written_at: u32,
    /// The last state whose data of the block is ordered under every mount option: it allocated the
    /// block, extended the file within it, or cleared the bytes after a new end.
    pub ordered_in: u32,
    /// True if the sector is a hole that was in the first block when blocks moved: contents may
    /// have left the inode for it.
    pub may_have_left_inode: bool,
}

impl Sector {
    /// Allocates the block of the sector.
    pub(crate) fn allocate(&mut self, state: usize) {
        self.allocated_in = state as u32;
        self.ordered_in = state as u32;
    }
}

impl Tree {
    /// Creates an empty file system with a creation time.
    pub fn new(seconds: i64) -> Self {
        let root = Node {
            kind: Kind::Directory(Arc::default()),
            links: 2,
            permissions: 0o755,
            owner: (0, 0),
            is_dirsync: false,
            marks: Arc::default(),
            modified: seconds,
            changed: seconds,
            punched_within: None,
            changed_in: 0,
            data_in: 0,
            map_in: 0,
        };
        Self {
            nodes: Arc::new(BTreeMap::from([(ROOT, Arc::new(root))])),
        }
    }

    /// Returns a node.
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    /// Returns a node, if it exists.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id).map(|node| &**node)
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, &**node))
    }

    /// Returns true if one of the directories whose names an operation changes is `dirsync`.
    pub(crate) fn changes_dirsync(&self, op: &Op) -> bool {
        let is_dirsync = |path: &Path| {
            let (parent, _) = path.rsplit_once('/').unwrap_or(("", path));
            self.find(parent).is_some_and(|id| self.node(id).is_dirsync)
        };
        op.names().into_iter().any(is_dirsync)
    }

    /// Returns the node at a path.
    pub fn find(&self, path: &str) -> Option<NodeId> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(ROOT, |directory, name| {
            self.names(directory)?.get(name).copied()
        })
    }

    /// Returns the names of a directory; none if the node is not a directory.
    pub fn names(&self, id: NodeId) -> Option<&BTreeMap<Path, NodeId>> {
        match &self.get(id)?.kind {
            Kind::Directory(names) => Some(names),
            _ => None,
        }
    }

    /// Returns the file that contains a write.
    pub(crate) fn holder(&self, write: u32) -> Option<NodeId> {
        let has = |id| {
            let mut sectors = self.sectors(id).into_iter().flatten();
            sectors.any(|sector| sector.write == write)
        };
        self.nodes().map(|(id, _)| id).find(|id| has(*id))
    }

    /// Returns the contents of a file in this state; none if it does not exist or is not a file.
    pub fn sectors(&self, id: NodeId) -> Option<&[Sector]> {
        match &self.get(id)?.kind {
            Kind::File { sectors, .. } => Some(sectors),
            _ => None,
        }
    }
}

/// Returns the number of sectors of all blocks up to a size.
fn sector_count(size: u64) -> usize {
    let block_bytes = (BLOCK_SECTORS * SECTOR_BYTES) as u64;
    size.div_ceil(block_bytes) as usize * BLOCK_SECTORS
}
