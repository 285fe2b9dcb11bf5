//! Block maps of ext4: extent trees.
//!
//! The root lies in the inode's words; the nodes below it take a block each. A path from the root
//! to a leaf loses one level with each node, so that it ends even in a damaged tree.
//!
//! | module | contents |
//! |---|---|
//! | `tree` | changes as functions over the nodes of a path |
//! | `path`, `apply` | reading a path for a change, and writing the changed nodes |
//! | `allocate` | blocks for holes; conversion of unwritten extents |
//! | `clusters` | the clusters that blocks of a file share |
//! | `unmap`, `prune` | freeing one extent, and everything behind a block |
//! | `shift` | moving everything behind a block within the file |
//! | `swap` | exchanging extents with another file |
//! | `walk` | visiting the whole tree |
//! | `nodes` | the nodes of a whole tree |
//! | `build` | a whole tree from its extents |
//!
//! # Rules
//!
//! - A node that is damaged, or does not continue the tree above it, fails the look-up: none of its
//!   entries is followed. Other nodes stay readable.
//! - An extent or a node outside the volume's data area is neither followed nor returned.
//! - A change reads its path and allocates its new nodes before it writes the first node. After
//!   [`Error::NoSpace`] the tree is as it was.
//! - Every change leaves a complete tree, so that a handle may be restarted between two of them.

mod allocate;
mod apply;
mod build;
mod clusters;
mod nodes;
mod path;
mod prune;
mod shift;
mod swap;
mod tree;
mod unmap;
mod walk;

use std::sync::Arc;

use jbd2::Buffer;
use layout::extent::{DEPTH_MAX, Index};
use layout::{BlockNr, FileBlock};

pub(super) use allocate::{
    allocate_each, allocate_unwritten, find_or_allocate, free_first, mark_unwritten,
};
pub(super) use apply::allocate_nodes;
pub(super) use build::build;
pub(super) use nodes::{node_count_to, nodes};
pub(super) use prune::{credits_to_free, free_from, has_blocks_from};
pub(super) use shift::{credits_to_shift, cut, shift_leaf};
pub(super) use swap::{credits_to_swap, swap};
pub(super) use unmap::{credits_to_unmap, free_spare, hold_for_unmap, prepare_unmap, unmap};
pub(super) use walk::walk;

use super::{Mapped, check_data, check_extent};
use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::buffers::Refused;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::extents::{FILE_BLOCKS, Node, blocks_of};
use crate::disk::inode::InodeState;
use crate::disk::kind::FileKind;
use crate::disk::metadata::{Kind, Label};
use crate::disk::run::Run;
use crate::error::{Corrupt, Error, Result};

/// Returns the largest number of nodes that one change adds to a tree: one for each level below the
/// root, and one for a level more.
const fn new_nodes_max(depth: u16) -> u32 {
    if depth < DEPTH_MAX {
        depth as u32 + 1
    } else {
        depth as u32
    }
}

/// Returns the number of blocks that a change of a tree may dirty besides the allocator's: the
/// nodes of the path, the new ones, and the inode.
const fn credits_to_change(depth: u16) -> u32 {
    depth as u32 + new_nodes_max(depth) + 1
}

/// Returns the number of blocks that mapping one new extent may dirty: data and new nodes in a
/// group each, and the change of the tree.
pub(super) const fn credits_to_map(depth: u16) -> u32 {
    (1 + new_nodes_max(depth)) * CREDITS_PER_GROUP + credits_to_change(depth)
}

/// Returns the number of blocks that mapping the new blocks of one entry of a directory may dirty.
/// Two extents need no more nodes than one: a node that was just split has room.
pub(super) const fn credits_to_map_entry(depth: u16) -> u32 {
    credits_to_map(depth) + CREDITS_PER_GROUP
}

/// Returns the depth of an inode's tree, for credits; that of a damaged root does not matter.
pub(super) fn depth_of(state: &InodeState) -> u16 {
    let root = state.words.to_bytes();
    Node::decode(&root).map_or(0, Node::depth)
}

/// The step that a look-up takes from a node. Its numbers are native: entries are unaligned, and a
/// copy of one stalls the processor until its bytes are in the cache.
enum Step {
    /// To a node below.
    Down(Below),
    /// The extent that maps the block, from that block on.
    Extent {
        first: u64,
        count: u64,
        is_unwritten: bool,
    },
    /// No entry maps the block.
    Hole,
}

/// A node, as the index entry above it names it.
#[derive(Clone, Copy)]
struct Below {
    block: BlockNr,
    /// The first file block that it maps.
    first: u32,
    depth: u16,
}

impl Below {
    fn new(index: &Index, depth: u16) -> Self {
        Self {
            block: BlockNr::new(index.node()),
            first: index.file_block.get(),
            depth,
        }
    }
}

/// Looks up at most `count_max` blocks from `from` on: one extent or one hole. An unwritten extent
/// is [`Mapped::Unwritten`].
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
    let mut next = step(tree.root(&root)?, from.get(), &mut behind);
    loop {
        match next {
            Step::Hole => return Ok(Mapped::Hole(behind - from.get())),
            Step::Extent {
                first,
                count,
                is_unwritten,
            } => {
                let run = Run {
                    first: BlockNr::new(first),
                    count: count.min(u64::from(most)) as u32,
                };
                check_extent(core, inode, from, run)?;
                let is_unwritten = is_unwritten && !rt::mutant!("unwritten/read-as-data");
                return Ok(match is_unwritten {
                    true => Mapped::Unwritten(run),
                    false => Mapped::Run(run),
                });
            }
            Step::Down(below) => next = tree.step_below(below, from.get(), &mut behind)?,
        }
    }
}

/// Returns true if the tree is sound and maps nothing.
pub(super) fn is_empty(state: &InodeState) -> bool {
    Node::decode(&state.words.to_bytes()).is_ok_and(|root| root.count() == 0)
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
        return Step::Down(Below::new(node.index(at), node.depth() - 1));
    }
    let extent = node.extent(at);
    let blocks = blocks_of(extent);
    if file_block >= blocks.end {
        return Step::Hole;
    }
    Step::Extent {
        first: extent.start() + (file_block - blocks.start),
        count: blocks.end - file_block,
        is_unwritten: extent.is_unwritten(),
    }
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

    /// Returns the label of the tree's nodes.
    fn label(&self) -> Label {
        let generation = match rt::mutant!("checksums/extents-without-generation") {
            true => 0,
            false => self.state.generation,
        };
        Kind::Extents.of_inode(self.inode.nr, generation)
    }

    /// Returns the step from the node below an index entry.
    ///
    /// A directory keeps the nodes that it has read: if several directories grow at the same time,
    /// each is in many extents, and a look-up of a name takes the node once for each level.
    fn step_below(&self, below: Below, file_block: u64, behind: &mut u64) -> Result<Step> {
        let Self { core, inode, .. } = *self;
        if inode.kind != FileKind::Directory {
            let image = self.read(below)?.image();
            return Ok(step(Node::of_checked(&image), file_block, behind));
        }
        let block = below.block;
        let removals = core.buffers.removals();
        let map = inode.map.lock();
        if let Some(image) = map.node(block, removals) {
            let next = step(Node::of_checked(image), file_block, behind);
            drop(map);
            rt::charge(rt::Cost::Lookup);
            return Ok(next);
        }
        drop(map);
        let image = self.read(below)?.image();
        let next = step(Node::of_checked(&image), file_block, behind);
        if let Some(node) = core.buffers.kept_nodes.keep(block, image, removals) {
            inode.map.lock().keep(node);
        }
        Ok(next)
    }

    /// Returns the node below an index entry.
    fn read(&self, below: Below) -> Result<Arc<Buffer>> {
        let get = || self.core.buffers.get(below.block, self.label());
        self.check(below, get)
    }

    /// Returns the same as [`read`](Self::read), for a caller that reads the node before anything
    /// changes.
    fn hold(&self, below: Below) -> Result<Arc<Buffer>> {
        let hold = || self.core.buffers.hold(below.block, self.label());
        self.check(below, hold)
    }

    /// Checks that a node continues the tree above it.
    fn check(
        &self,
        below: Below,
        read: impl FnOnce() -> Result<Arc<Buffer>, Refused>,
    ) -> Result<Arc<Buffer>> {
        let Self { core, inode, .. } = *self;
        let Below {
            block,
            first,
            depth,
        } = below;
        let run = Run {
            first: block,
            count: 1,
        };
        check_data(core, inode, FileBlock::new(first.into()), run)?;
        let buffer = match read() {
            Ok(buffer) => buffer,
            Err(Refused::Damaged(damaged)) => {
                return Err(self.damaged(Some(block), damaged.bad.why));
            }
            Err(Refused::Failed(error)) => return Err(core.noted(error)),
        };
        let image = buffer.read();
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
        drop(image);
        Ok(buffer)
    }

    fn damaged(&self, block: Option<BlockNr>, why: &'static str) -> Error {
        let inode = self.inode.nr;
        self.core.damaged(Corrupt::Extents { inode, block, why })
    }
}
