//! Reading the path of a tree that will be changed.

use std::sync::Arc;

use jbd2::Buffer;
use layout::extent::capacity;
use layout::{BlockNr, FileBlock};

use super::tree::{Entry, Level, Node, Path, Piece, Place};
use super::{Below, Tree};
use crate::core::Core;
use crate::disk::extents::{self, FILE_BLOCKS};
use crate::disk::kind::FileKind;
use crate::disk::run::Run;
use crate::error::{Corrupt, Result};
use crate::map::check_extent;

/// A path that was read, with its nodes in memory: reading them after an allocation could fail.
pub(super) struct Site {
    pub(super) path: Path,
    /// The first file block that the entries behind the path map.
    pub(super) behind: u64,
    /// The buffers of the nodes below the root.
    pub(super) buffers: Vec<Arc<Buffer>>,
}

/// The entry of a tree for a file block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// An extent that has the block.
    Piece(Piece),
    /// A hole of this number of blocks from the block on.
    Hole(u64),
}

impl Tree<'_> {
    /// Returns the path to the leaf that has a file block, or would have it.
    pub(super) fn locate(&self, from: u64) -> Result<Site> {
        let root = self.state.words.to_bytes();
        let mut levels = Vec::new();
        let mut buffers: Vec<Arc<Buffer>> = Vec::new();
        let mut behind = FILE_BLOCKS;
        let mut node = node_of(self.root(&root)?, capacity_of(&root));
        let mut place = Place::Root;
        loop {
            let count = node.count_to(from);
            if let Some(next) = node.entries.get(count) {
                behind = behind.min(next.file_block());
            }
            let at = match node.depth {
                0 => 0,
                _ => count.max(1) - 1,
            };
            let child = (node.depth > 0).then(|| node.entries[at]);
            let depth = node.depth;
            levels.push(Level::new(place, node, at));
            let Some(Entry::Child {
                file_block,
                place: Place::Block(block),
            }) = child
            else {
                break;
            };
            let buffer = self.hold(Below {
                block,
                first: file_block as u32,
                depth: depth - 1,
            })?;
            let image = buffer.image();
            node = node_of(extents::Node::of_checked(&image), capacity_of(&image));
            place = Place::Block(block);
            buffers.push(buffer);
        }
        let capacity = capacity(self.core.block_bytes()).into();
        Ok(Site {
            path: Path::new(levels, capacity),
            behind,
            buffers,
        })
    }

    /// Checks an extent that will be freed: it lies in the data area, and has no node of its path.
    pub(super) fn check_piece(&self, site: &Site, piece: Piece) -> Result<Run> {
        let run = piece.run();
        check_extent(self.core, self.inode, FileBlock::new(piece.file_block), run)?;
        let mut way = site.path.blocks();
        match way.find(|block| *block >= run.first && *block < run.end()) {
            None => Ok(run),
            Some(block) => Err(self.core.damaged(Corrupt::MapCycle {
                inode: self.inode.nr,
                block,
            })),
        }
    }
}

impl Site {
    /// Returns what the tree has at a file block on the path.
    pub(super) fn look(&self, from: u64) -> Found {
        let leaf = self.path.leaf();
        let count = leaf.count_to(from);
        let before = leaf.pieces().take(count).last();
        match before.filter(|piece| piece.end() > from) {
            Some(piece) => Found::Piece(piece),
            None => Found::Hole(self.behind - from),
        }
    }

    /// Returns the goal for the blocks of a hole: behind the extent before it, else behind the
    /// leaf, else in the inode's group.
    pub(super) fn goal(&self, core: &Core, tree: &Tree<'_>, from: u64) -> BlockNr {
        if let Some((block, goal)) = tree.inode.map.lock().next
            && block == from
            && core.geometry().contains(goal)
        {
            return goal;
        }
        let leaf = self.path.leaf();
        let count = leaf.count_to(from);
        let before = leaf.pieces().take(count).last();
        let goal = match (before, self.path.leaf_place()) {
            (Some(piece), _) => Some(piece.run().end()),
            (None, Place::Block(block)) => Some(block + 1),
            (None, _) => None,
        };
        let goal = goal.filter(|goal| core.geometry().contains(*goal));
        let is_file = tree.state.kind == FileKind::Regular;
        goal.unwrap_or_else(|| core.block_goal(tree.inode.nr, is_file))
    }
}

impl Piece {
    /// Returns its blocks on the device.
    pub(super) fn run(self) -> Run {
        Run {
            first: self.first,
            count: self.count,
        }
    }
}

/// Returns the capacity that the header of a checked node names.
fn capacity_of(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[4], bytes[5]]))
}

fn node_of(node: extents::Node<'_>, capacity: usize) -> Node {
    let entries = (0..node.count()).map(|at| match node.depth() {
        0 => {
            let extent = node.extent(at);
            Entry::Extent(Piece {
                file_block: extent.file_block.get().into(),
                first: BlockNr::new(extent.start()),
                count: extent.block_count().into(),
                is_unwritten: extent.is_unwritten(),
            })
        }
        _ => {
            let index = node.index(at);
            Entry::Child {
                file_block: index.file_block.get().into(),
                place: Place::Block(BlockNr::new(index.node())),
            }
        }
    });
    Node {
        depth: node.depth(),
        capacity,
        entries: entries.collect(),
    }
}
