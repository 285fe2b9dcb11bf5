//! Moving the extents behind a block within a file, a leaf at a time.
//!
//! Extents move towards the start of the file from the first leaf to the last, and towards its end
//! from the last to the first. So no extent ever overlaps with another one, and the tree is
//! complete after each leaf: a hole as long as the distance lies between the extents that have
//! moved and the others.
//!
//! No step needs a node: the extent over the first moved block is [`cut`] before.

use jbd2::Credits;
use layout::FileBlock;

use super::apply::{Draft, allocate_nodes};
use super::{Tree, credits_to_change};
use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::inode::{Inode, MapCache};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::run::Run;
use crate::error::{Error, Result};
use crate::map::Shift;

/// Returns the credits for [`shift_leaf`]: the nodes of a path, each of which may be freed.
pub(in crate::map) const fn credits_to_shift(depth: u16) -> Credits {
    Credits {
        blocks: credits_to_change(depth) + depth as u32 * CREDITS_PER_GROUP,
        revokes: depth as u32,
    }
}

/// Cuts the extent over a block into two, unless it starts there.
///
/// # Errors
/// - [`Error::NoSpace`] if the tree has no room for another extent; nothing has changed then.
pub(in crate::map) fn cut(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    block: FileBlock,
) -> Result<()> {
    let at = block.get();
    let site = Tree { core, inode, state }.locate(at)?;
    let change = site.path.shifted(at, at).ok_or(Error::FileTooLarge)?;
    if change.writes.is_empty() {
        return Ok(());
    }
    let pieces = site.path.leaf().pieces();
    let before = pieces.take_while(|piece| piece.file_block < at).last();
    let none = Run {
        first: core.geometry().first_data_block,
        count: 0,
    };
    let goal = site.node_goal(before.map_or(none, |piece| piece.run()));
    let nodes = allocate_nodes(core, handle, inode, state, goal, change.new_count)?;
    Draft::new(core, site, change, nodes)?.write(core, handle, inode, state)
}

/// Moves the extents of the leaf on the path to `at`. Returns the place of the next leaf; none
/// after the last. Changes `state` (words, sectors), which the caller stores.
pub(in crate::map) fn shift_leaf(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    shift: Shift,
    at: FileBlock,
) -> Result<Option<FileBlock>> {
    let (from, to) = (shift.from.get(), shift.to.get());
    let site = Tree { core, inode, state }.locate(at.get())?;
    let change = site.path.shifted(from, to);
    let change = change.expect("a leaf with no more extents fits");
    let next = match to < from {
        true => site.path.next_leaf(),
        false => {
            let pieces = &mut site.path.leaf().pieces();
            let first = pieces.next().map(|piece| piece.file_block);
            let has_more = |first: &u64| *first > from && !site.path.is_first();
            first.filter(has_more).map(|first| first - 1)
        }
    };
    *inode.map.lock() = MapCache::default();
    if !change.writes.is_empty() {
        Draft::new(core, site, change, Vec::new())?.write(core, handle, inode, state)?;
    }
    Ok(next.map(FileBlock::new))
}
