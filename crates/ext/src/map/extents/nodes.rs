//! The nodes of a whole tree, by level: for a tree that is built anew and keeps them, and their
//! number.

use layout::BlockNr;
use layout::extent::Index;

use super::Tree;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::disk::extents::Node;
use crate::disk::inode::InodeState;
use crate::error::Result;
use crate::map::built::{OldNode, OldNodes};

/// Reads the nodes of a tree that a walk has found sound.
pub(in crate::map) fn nodes(core: &Core, inode: &Inode, state: &InodeState) -> Result<OldNodes> {
    let mut levels = Vec::new();
    if !state.has_map(core) {
        return Ok(levels);
    }
    let tree = Tree { core, inode, state };
    let words = state.words.to_bytes();
    let root = tree.root(&words)?;
    let mut above = indexes(root);
    for depth in (0..root.depth()).rev() {
        let (mut level, mut below) = (Vec::new(), Vec::new());
        for index in &above {
            let image = tree.read(index, depth)?.image();
            below.extend(indexes(Node::of_checked(&image)));
            level.push(OldNode {
                file_block: index.file_block.get(),
                block: BlockNr::new(index.node()),
                image,
            });
        }
        levels.push(level);
        above = below;
    }
    levels.reverse();
    Ok(levels)
}

/// Returns the number of nodes of a tree, or a number above `most` if there are more than that.
/// Reads no leaf.
pub(in crate::map) fn node_count_to(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    most: u64,
) -> Result<u64> {
    let tree = Tree { core, inode, state };
    let words = state.words.to_bytes();
    let root = tree.root(&words)?;
    let mut above = indexes(root);
    let mut count = above.len() as u64;
    for depth in (1..root.depth()).rev() {
        let mut below = Vec::new();
        for index in &above {
            if count > most {
                return Ok(count);
            }
            let image = tree.read(index, depth)?.image();
            let found = indexes(Node::of_checked(&image));
            count += found.len() as u64;
            below.extend(found);
        }
        above = below;
    }
    Ok(count)
}

/// Returns the entries of a node above others; none of a leaf.
fn indexes(node: Node<'_>) -> Vec<Index> {
    match node.depth() {
        0 => Vec::new(),
        _ => (0..node.count()).map(|at| node.index(at)).collect(),
    }
}
