//! Removing one extent from a tree, which leaves a hole.

use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::{Block, BlockNr, FileBlock};

use super::apply::{Draft, allocate_nodes, free_nodes};
use super::path::Found;
use super::tree::Piece;
use super::{Tree, credits_to_change, new_nodes_max};
use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::inode::{Inode, MapCache};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::run::Run;
use crate::error::{Error, Result};

/// Number of bytes of zeroes in one request.
const ZEROES_BYTES: usize = 1 << 20;

/// Returns the credits for [`unmap`] of an extent: it may lie in two groups, and its removal either
/// splits nodes or frees some, which lie in a group each.
pub(in crate::map) const fn credits_to_unmap(depth: u16, count: u32) -> Credits {
    Credits {
        blocks: (2 + new_nodes_max(depth)) * CREDITS_PER_GROUP + credits_to_change(depth),
        revokes: count + depth as u32,
    }
}

/// Reads the blocks that [`unmap`] will change, so that damage and read errors are found before the
/// caller drops the pages of the extent. The caller holds the result until then.
pub(in crate::map) fn hold_for_unmap(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    from: FileBlock,
    run: Run,
) -> Result<Vec<Arc<Buffer>>> {
    let mut held = core.check_parts(run)?;
    let tree = Tree { core, inode, state };
    let site = tree.locate(from.get())?;
    tree.check_piece(&site, hole(from, run))?;
    for block in site.path.blocks() {
        held.push(core.hold_block_bitmap(block)?);
    }
    held.extend(site.buffers);
    Ok(held)
}

/// Returns the extent that is removed.
fn hole(from: FileBlock, run: Run) -> Piece {
    Piece {
        file_block: from.get(),
        first: run.first,
        count: run.count,
        is_unwritten: false,
    }
}

/// Allocates the nodes that [`unmap`] will need because it splits an extent: what it cannot get
/// must be known before the pages of the extent are dropped. Also returns the blocks of the
/// clusters that are free without it.
///
/// # Errors
/// - [`Error::NoSpace`].
pub(in crate::map) fn prepare_unmap(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &InodeState,
    from: FileBlock,
    run: Run,
) -> Result<(Vec<BlockNr>, Run)> {
    let tree = Tree { core, inode, state };
    let site = tree.locate(from.get())?;
    let end = from.get() + u64::from(run.count);
    let change = site.path.rewrite(from.get()..end, None);
    let change = change.ok_or(Error::NoSpace)?;
    let freed = tree.freed(hole(from, run), false)?;
    let nodes = allocate_nodes(
        core,
        handle,
        inode,
        state,
        site.node_goal(run),
        change.new_count,
    )?;
    Ok((nodes, freed))
}

/// Frees the nodes of [`prepare_unmap`] if there is no removal.
pub(in crate::map) fn free_spare(
    core: &Core,
    handle: &mut Handle<'_>,
    spare: &[BlockNr],
) -> Result<()> {
    free_nodes(core, handle, spare)
}

/// Frees an extent that [`find`](super::find) has just found, and the nodes that are empty then.
/// Changes the claims, which the caller stores. If it fails because of damage or a read error, the
/// tree is as it was.
pub(in crate::map) fn unmap(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
    (run, freed): (Run, Run),
    spare: Vec<BlockNr>,
) -> Result<()> {
    let tree = Tree { core, inode, state };
    let site = tree.locate(from.get())?;
    let end = from.get() + u64::from(run.count);
    let Found::Piece(_) = site.look(from.get()) else {
        return free_nodes(core, handle, &spare);
    };
    let change = site.path.rewrite(from.get()..end, None);
    let change = change.expect("the depth was checked when the nodes were allocated");
    let draft = Draft::new(core, site, change, spare)?;
    free_data(core, handle, (run, freed), state.has_buffered_blocks(core))?;
    let sectors = u64::from(freed.count) * core.sectors_per_block();
    let claims = state.claims(handle);
    claims.sectors = claims.sectors.saturating_sub(sectors);
    *inode.map.lock() = MapCache::default();
    draft.write(core, handle, inode, state)
}

/// Frees blocks of a file, with the clusters that are free without them.
pub(super) fn free_data(
    core: &Core,
    handle: &mut Handle<'_>,
    (run, freed): (Run, Run),
    has_buffers: bool,
) -> Result<()> {
    match has_buffers {
        true => core.free_buffered_in(handle, run, freed),
        false if freed.count == 0 => Ok(()),
        false => core.free_blocks(handle, freed),
    }
}

/// Writes zeroes to blocks of the file that no page has, past the cache.
pub(super) fn zero_blocks(core: &Core, inode: &Inode, run: Run) -> Result<()> {
    let zeroes = Block::zeroed(core.block_bytes()).into_arc();
    let most = (ZEROES_BYTES / core.block_bytes()) as u64;
    let mut next = run.first;
    while next < run.end() {
        let count = most.min(run.end().get() - next.get());
        let payload = vec![Arc::clone(&zeroes); count as usize];
        let at = core.geometry().byte_offset(next);
        core.device.write_blocks(at, payload)?;
        next = next + count;
    }
    inode.pages.lock().note_written(&core.pages.flushes);
    Ok(())
}
