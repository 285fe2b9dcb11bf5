//! Block maps of ext4: extent trees.
//!
//! The root lies in the inode's words; the nodes below it take a block each. A path from the root
//! to a leaf loses one level with each node, so that it ends even in a damaged tree.
//!
//! # Rules
//!
//! - A node that is damaged, or does not continue the tree above it, fails the look-up: none of its
//!   entries is followed. Other nodes stay readable.
//! - An extent or a node outside the volume's data area is neither followed nor returned.

use std::collections::BTreeSet;
use std::sync::Arc;

use layout::extent::{Extent, Index};
use layout::{Block, BlockNr, FileBlock};

use super::{Mapped, check_data};
use crate::cache::buffers::Refused;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::extents::{FILE_BLOCKS, Node, blocks_of};
use crate::disk::inode::InodeState;
use crate::disk::metadata::Kind;
use crate::disk::run::Run;
use crate::error::{Corrupt, Error, Result};

/// The step that a look-up takes from a node.
enum Step {
    /// To the node below an index entry.
    Down(Index),
    /// The extent that maps the block.
    Extent(Extent),
    /// No entry maps the block.
    Hole,
}

/// Looks up at most `count_max` blocks from `from` on: one extent or one hole.
pub(super) fn find(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    from: FileBlock,
    count_max: u32,
) -> Result<Mapped> {
    let tree = Tree { core, inode, state };
    let most = count_max.max(1);
    if from.get() >= FILE_BLOCKS {
        return Ok(Mapped::Hole(u64::from(most)));
    }
    // The first file block that the entries behind the path map.
    let mut behind = FILE_BLOCKS;
    let root = state.words.to_bytes();
    let mut node = tree.root(&root)?;
    let mut image: Arc<Block>;
    loop {
        match step(node, from.get(), &mut behind) {
            Step::Hole => return Ok(Mapped::Hole(behind - from.get())),
            Step::Extent(extent) => {
                let within = from.get() - u64::from(extent.file_block.get());
                let left = u64::from(extent.block_count()) - within;
                let run = Run {
                    first: BlockNr::new(extent.start() + within),
                    count: left.min(u64::from(most)) as u32,
                };
                check_data(core, inode, from, run)?;
                return Ok(match extent.is_unwritten() {
                    true => Mapped::Hole(u64::from(run.count)),
                    false => Mapped::Run(run),
                });
            }
            Step::Down(index) => {
                image = tree.read(&index, node.depth() - 1)?;
                node = Node::of_checked(&image);
            }
        }
    }
}

/// Returns the step from a node towards a file block. Lowers `behind` to the first file block of
/// the entry after the step.
fn step(node: Node<'_>, file_block: u64, behind: &mut u64) -> Step {
    let count = node.count_to(file_block);
    if let Some(next) = node.file_block(count) {
        *behind = next.min(*behind);
    }
    let Some(at) = count.checked_sub(1) else {
        return Step::Hole;
    };
    if node.depth() > 0 {
        return Step::Down(node.index(at));
    }
    let extent = node.extent(at);
    match blocks_of(&extent).contains(&file_block) {
        true => Step::Extent(extent),
        false => Step::Hole,
    }
}

/// Visits all blocks of the file's block map in file order: data extents, unwritten ones too
/// (`Some(first file block)`), and blocks of the tree (`None`).
///
/// # Errors
/// - [`Corrupt::Extents`], [`Corrupt::Mapping`], [`Corrupt::MapCycle`] for an invalid block map.
pub(super) fn walk(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    visit: &mut dyn FnMut(Option<FileBlock>, Run) -> Result<()>,
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

/// The tree of a file.
#[derive(Clone, Copy)]
struct Tree<'c> {
    core: &'c Core,
    inode: &'c Inode,
    state: &'c InodeState,
}

impl Tree<'_> {
    fn root<'r>(&self, words: &'r [u8]) -> Result<Node<'r>> {
        Node::decode(words).map_err(|bad| self.damaged(None, bad.why))
    }

    /// Returns the image of the node below an index entry, which has to be of this depth.
    fn read(&self, index: &Index, depth: u16) -> Result<Arc<Block>> {
        let Self { core, inode, state } = *self;
        let (block, first) = (BlockNr::new(index.node()), index.file_block.get());
        let run = Run {
            first: block,
            count: 1,
        };
        check_data(core, inode, FileBlock::new(first.into()), run)?;
        let label = Kind::Extents.of_inode(inode.nr, state.generation);
        let image = match core.buffers.get(block, label) {
            Ok(buffer) => buffer.image(),
            Err(Refused::Damaged(damaged)) => {
                return Err(self.damaged(Some(block), damaged.bad.why));
            }
            Err(Refused::Failed(error)) => return Err(core.noted(error)),
        };
        let node = Node::of_checked(&image);
        if node.depth() != depth {
            return Err(self.damaged(Some(block), "a node is not of the level below its parent"));
        }
        if node
            .file_block(0)
            .is_some_and(|found| found != u64::from(first))
        {
            let why = "a node does not start where its parent says";
            return Err(self.damaged(Some(block), why));
        }
        Ok(image)
    }

    fn damaged(&self, block: Option<BlockNr>, why: &'static str) -> Error {
        let inode = self.inode.nr;
        self.core.damaged(Corrupt::Extents { inode, block, why })
    }
}

/// A visit of a whole tree.
struct Walk<'v> {
    /// Callback for every extent: `Some(first file block)` for data, `None` for a node.
    visit: &'v mut dyn FnMut(Option<FileBlock>, Run) -> Result<()>,
    /// The blocks of nodes visited so far.
    nodes: BTreeSet<BlockNr>,
    /// Number of data blocks that may still follow.
    data_blocks_left: u64,
}

impl Walk<'_> {
    fn node(&mut self, tree: &Tree<'_>, node: Node<'_>) -> Result<()> {
        for at in 0..node.count() {
            if node.depth() == 0 {
                self.extent(tree, &node.extent(at))?;
                continue;
            }
            let index = node.index(at);
            let image = tree.read(&index, node.depth() - 1)?;
            let run = Run {
                first: BlockNr::new(index.node()),
                count: 1,
            };
            if !self.nodes.insert(run.first) {
                return Err(cycle(tree, run.first));
            }
            (self.visit)(None, run)?;
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
        check_data(tree.core, tree.inode, file_block, run)?;
        let left = self.data_blocks_left.checked_sub(u64::from(run.count));
        self.data_blocks_left = left.ok_or_else(|| cycle(tree, run.first))?;
        (self.visit)(Some(file_block), run)
    }
}

fn cycle(tree: &Tree<'_>, block: BlockNr) -> Error {
    let inode = tree.inode.nr;
    tree.core.damaged(Corrupt::MapCycle { inode, block })
}
