//! The nodes of a whole tree, by level: for a tree that is built anew and keeps them, and their
//! number.

use super::{Below, Tree};
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
    let mut above = nodes_below(root);
    for _ in 0..root.depth() {
        let (mut level, mut below) = (Vec::new(), Vec::new());
        for node in &above {
            let image = tree.read(*node)?.image();
            below.extend(nodes_below(Node::of_checked(&image)));
            level.push(OldNode {
                file_block: node.first,
                block: node.block,
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
    let mut above = nodes_below(root);
    let mut count = above.len() as u64;
    for _ in 1..root.depth() {
        let mut below = Vec::new();
        for node in &above {
            if count > most {
                return Ok(count);
            }
            let image = tree.read(*node)?.image();
            let found = nodes_below(Node::of_checked(&image));
            count += found.len() as u64;
            below.extend(found);
        }
        above = below;
    }
    Ok(count)
}

/// Returns the nodes below a node, as it names them; none below a leaf.
fn nodes_below(node: Node<'_>) -> Vec<Below> {
    let Some(depth) = node.depth().checked_sub(1) else {
        return Vec::new();
    };
    let entries = 0..node.count();
    entries
        .map(|at| Below::new(node.index(at), depth))
        .collect()
}
