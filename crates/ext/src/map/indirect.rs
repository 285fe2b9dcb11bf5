//! Block maps of ext2 and ext3: trees of indirect blocks.
//!
//! There are 12 direct pointers, then one single, one double and one triple indirect tree.
//!
//! ```text
//! words 0..12   data
//! word 12       indirect block -> data
//! word 13       indirect block -> indirect blocks -> data
//! word 14       indirect block -> indirect blocks -> indirect blocks -> data
//! ```
//! A pointer of 0 is a hole. With `p` pointers in a block, the trees start at file blocks 12, 12 +
//! p and 12 + p + p^2.
//!
//! # Rules
//!
//! - A pointer outside the volume's data area is neither followed nor returned. An indirect block
//!   with such a pointer can be read, and is not changed.
//! - With larger clusters (`bigalloc`) a file's blocks can be read, and not changed.
//! - Each inode caches the last leaf block looked up, so that sequential and repeated access reads
//!   one indirect block and not three.

mod allocate;
mod block;
mod build;
mod path;
mod prune;
mod unmap;
mod walk;

use layout::inode::MAP_WORDS;
use layout::{BlockNr, FileBlock};

pub(super) use allocate::{allocate_each, find_or_allocate};
pub(super) use build::build;
pub(super) use prune::{CREDITS_FREE, free_from};
pub(super) use unmap::{credits_to_unmap, free_empty_maps, free_first, hold_for_unmap, unmap};
pub(super) use walk::walk;

use super::{Mapped, check_data};
use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::inode::{Found, Inode};
use crate::core::Core;
use crate::disk::inode::{Claims, InodeState};
use crate::disk::metadata::Label;
use crate::disk::run::Run;
use crate::error::{Corrupt, Result};
use block::label;
use path::Path;

/// Number of direct pointers.
const DIRECT: u64 = 12;
/// Number of indirect blocks on the path to a block, at most.
const DEPTH_MAX: u32 = 3;
/// Number of blocks that mapping one new extent may dirty besides the allocator's: the indirect
/// blocks and the inode.
const CREDITS_PATH: u32 = DEPTH_MAX + 1;
/// Number of blocks that mapping one new extent may dirty: data and indirect blocks in a group
/// each, and the path to them.
pub(super) const CREDITS_MAP: u32 = (1 + DEPTH_MAX) * CREDITS_PER_GROUP + CREDITS_PATH;
/// Number of blocks that mapping the new blocks of one entry of a directory may dirty.
pub(super) const CREDITS_ENTRY: u32 = 3 * CREDITS_PER_GROUP + CREDITS_PATH;

/// Fails if a file's blocks may not be mapped or freed one by one: with larger clusters, only files
/// with extents have blocks, and Linux and e2fsck take others for damaged.
fn check_clusters(core: &Core, inode: &Inode, state: &InodeState) -> Result<()> {
    if core.geometry().cluster_log == 0 {
        return Ok(());
    }
    Err(core.damaged(Corrupt::Inode {
        inode: inode.nr,
        field: "i_flags",
        value: state.flags.bits().into(),
    }))
}

/// Returns the direct pointers and the roots of the indirect trees.
fn roots(state: &InodeState) -> &[u32; MAP_WORDS] {
    state.words.pointers()
}

/// Returns true if nothing is mapped.
pub(super) fn is_empty(state: &InodeState) -> bool {
    roots(state).iter().all(|root| *root == 0)
}

/// Returns the direct pointers and the roots of the indirect trees for changes.
fn roots_mut(claims: &mut Claims) -> &mut [u32; MAP_WORDS] {
    claims.words.pointers_mut()
}

/// Looks up at most `count_max` blocks from `from` on: one extent or one hole.
pub(super) fn find(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    from: FileBlock,
    count_max: u32,
) -> Result<Mapped> {
    let per_block = core.geometry().pointers_per_block();
    let Some(path) = Path::of(from, per_block) else {
        return Ok(Mapped::Hole(u64::from(count_max)));
    };
    if path.depth == 0 {
        let words = &roots(state)[path.root..DIRECT as usize];
        return scan(core, inode, from, count_max, words.iter().copied());
    }
    let leaf = match find_leaf(core, inode, state, &path, from)? {
        Leaf::At(leaf) => leaf,
        Leaf::Missing { hole } => return Ok(Mapped::Hole(hole)),
    };
    let found = block::read(core, leaf, label(inode, state))?;
    let bytes = found.buffer.read();
    let start = path.offsets[path.depth - 1] as usize * 4;
    scan(core, inode, from, count_max, pointers(&bytes[start..]))
}

/// The indirect block with the pointer to a block of the file.
enum Leaf {
    At(BlockNr),
    /// There is none; a hole of this number of blocks starts here.
    Missing {
        hole: u64,
    },
}

fn find_leaf(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    path: &Path,
    from: FileBlock,
) -> Result<Leaf> {
    let first = path.leaf_first(from);
    if let Some((cached_first, leaf)) = inode.map.lock().leaf()
        && cached_first == first
    {
        return Ok(Leaf::At(leaf));
    }
    let mut pointer = roots(state)[path.root];
    for level in 0..path.depth {
        if pointer == 0 {
            return Ok(Leaf::Missing {
                hole: path.hole_below(level),
            });
        }
        let block = check_map_block(core, inode, from, pointer)?;
        if level + 1 == path.depth {
            inode.map.lock().found = Found::Leaf(first, block);
            return Ok(Leaf::At(block));
        }
        pointer = read_pointer(core, block, label(inode, state), path.offsets[level])?;
    }
    unreachable!("a tree has at least one level")
}

/// Returns one extent or one hole at the start of a list of pointers.
fn scan(
    core: &Core,
    inode: &Inode,
    from: FileBlock,
    count_max: u32,
    mut pointers: impl Iterator<Item = u32>,
) -> Result<Mapped> {
    let Some(first) = pointers.next() else {
        return Ok(Mapped::Hole(1));
    };
    let more = (count_max.max(1) - 1) as usize;
    if first == 0 {
        let zeroes = pointers
            .take(more)
            .take_while(|pointer| *pointer == 0)
            .count();
        return Ok(Mapped::Hole(1 + zeroes as u64));
    }
    let follows = pointers
        .take(more)
        .zip(1..)
        .take_while(|(pointer, step)| first.checked_add(*step) == Some(*pointer));
    let run = Run {
        first: BlockNr::new(u64::from(first)),
        count: 1 + follows.count() as u32,
    };
    check_data(core, inode, from, run)?;
    Ok(Mapped::Run(run))
}

/// Returns the pointers in a part of an indirect block.
fn pointers(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes
        .chunks_exact(4)
        .map(|raw| u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]))
}

/// Returns the pointer at an index of an indirect block.
fn pointer_at(bytes: &[u8], index: usize) -> u32 {
    let raw = bytes[index * 4..]
        .first_chunk()
        .expect("an index within the block");
    u32::from_le_bytes(*raw)
}

fn read_pointer(core: &Core, block: BlockNr, label: Label, index: u32) -> Result<u32> {
    let found = block::read(core, block, label)?;
    Ok(pointer_at(&found.buffer.read(), index as usize))
}

fn check_map_block(core: &Core, inode: &Inode, from: FileBlock, pointer: u32) -> Result<BlockNr> {
    let block = BlockNr::new(u64::from(pointer));
    check_data(
        core,
        inode,
        from,
        Run {
            first: block,
            count: 1,
        },
    )?;
    Ok(block)
}
