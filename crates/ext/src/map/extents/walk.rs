//! Visiting a whole extent tree.
//!
//! A damaged tree may name a block twice. The walk follows each node once, and visits no more
//! blocks than the volume has, so that it ends and its memory stays small.

use std::collections::BTreeSet;

use layout::extent::Extent;
use layout::{BlockNr, FileBlock};

use super::{Below, Tree};
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::extents::Node;
use crate::disk::inode::InodeState;
use crate::disk::run::Run;
use crate::error::{Corrupt, Error, Result};
use crate::map::{Visited, check_extent};

/// Visits all blocks of the file's block map in file order: extents, and blocks of the tree.
///
/// # Errors
/// - [`Corrupt::Extents`], [`Corrupt::Mapping`], [`Corrupt::MapCycle`] for an invalid block map.
pub(in crate::map) fn walk(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    visit: &mut dyn FnMut(Visited, Run) -> Result<()>,
) -> Result<()> {
    if !state.has_map(core) {
        return Ok(());
    }
    let tree = Tree { core, inode, state };
    let mut walk = Walk {
        visit,
        nodes: BTreeSet::new(),
        data_blocks_left: core.geometry().block_count,
    };
    walk.node(&tree, tree.root(&state.words.to_bytes())?)
}

/// A visit of a whole tree.
struct Walk<'v> {
    /// Callback for every extent and every node.
    visit: &'v mut dyn FnMut(Visited, Run) -> Result<()>,
    /// The blocks of nodes visited so far.
    nodes: BTreeSet<BlockNr>,
    /// Number of data blocks that may still follow.
    data_blocks_left: u64,
}

impl Walk<'_> {
    fn node(&mut self, tree: &Tree<'_>, node: Node<'_>) -> Result<()> {
        for at in 0..node.count() {
            if node.depth() == 0 {
                self.extent(tree, node.extent(at))?;
                continue;
            }
            let index = node.index(at);
            let image = tree.read(Below::new(index, node.depth() - 1))?.image();
            let run = Run {
                first: BlockNr::new(index.node()),
                count: 1,
            };
            if !self.nodes.insert(run.first) {
                return Err(cycle(tree, run.first));
            }
            (self.visit)(Visited::Map, run)?;
            self.node(tree, Node::of_checked(&image))?;
        }
        Ok(())
    }

    fn extent(&mut self, tree: &Tree<'_>, extent: &Extent) -> Result<()> {
        let file_block = FileBlock::new(extent.file_block.get().into());
        let run = Run {
            first: BlockNr::new(extent.start()),
            count: extent.block_count().into(),
        };
        check_extent(tree.core, tree.inode, file_block, run)?;
        let left = self.data_blocks_left.checked_sub(u64::from(run.count));
        self.data_blocks_left = left.ok_or_else(|| cycle(tree, run.first))?;
        match extent.is_unwritten() {
            true => (self.visit)(Visited::Unwritten(file_block), run),
            false => (self.visit)(Visited::Data(file_block), run),
        }
    }
}

fn cycle(tree: &Tree<'_>, block: BlockNr) -> Error {
    let inode = tree.inode.nr;
    tree.core.damaged(Corrupt::MapCycle { inode, block })
}
