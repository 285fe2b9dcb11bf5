//! Removing one extent from a block map: a hole is left, and indirect blocks without pointers are
//! freed.

use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::{BlockNr, FileBlock};

use super::block::{self, label};
use super::path::Path;
use super::{
    DEPTH_MAX, Leaf, check_clusters, check_map_block, find_leaf, pointers, read_pointer, roots,
    roots_mut,
};
use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::inode::{Inode, MapCache};
use crate::core::Core;
use crate::core::handle::{CREDITS_MAX, Handle};
use crate::disk::inode::InodeState;
use crate::disk::run::Run;
use crate::error::Result;

/// Number of blocks that unmapping an extent may dirty: the extent may lie in two groups; indirect
/// blocks change or are freed; and the inode.
const CREDITS_UNMAP: u32 = 2 * CREDITS_PER_GROUP + DEPTH_MAX * (1 + CREDITS_PER_GROUP) + 1;
const _: () = assert!(CREDITS_UNMAP <= CREDITS_MAX);

/// Returns the credits for [`unmap`] of an extent and [`free_empty_maps`] after it.
pub(in crate::map) const fn credits_to_unmap(count: u32) -> Credits {
    Credits {
        blocks: CREDITS_UNMAP,
        revokes: count + DEPTH_MAX,
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
    check_clusters(core, inode, state)?;
    let mut held = core.check_parts(run)?;
    let path = Path::of(from, core.geometry().pointers_per_block());
    if let Some(path) = path.filter(|path| path.depth > 0) {
        held.extend(leaf_for_change(core, inode, state, &path, from)?);
    }
    Ok(held)
}

/// Returns the indirect block with the pointer to a block of the file, for a change.
fn leaf_for_change(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    path: &Path,
    from: FileBlock,
) -> Result<Option<Arc<Buffer>>> {
    let Leaf::At(leaf) = find_leaf(core, inode, state, path, from)? else {
        return Ok(None);
    };
    let leaf = path.indirect(from, path.depth - 1, leaf);
    leaf.get(core, inode, label(inode, state)).map(Some)
}

/// Frees an extent that [`find`](super::find) has just found, and zeroes its pointers. Changes the
/// claims, which the caller stores. If it fails because of damage or a read error, the block map is
/// as it was.
pub(in crate::map) fn unmap(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
    run: Run,
) -> Result<()> {
    let Some(path) = Path::of(from, core.geometry().pointers_per_block()) else {
        return Ok(());
    };
    let leaf = match path.depth {
        0 => None,
        _ => match leaf_for_change(core, inode, state, &path, from)? {
            None => return Ok(()),
            leaf => leaf,
        },
    };
    if state.has_buffered_blocks(core) {
        core.free_buffered(handle, run)?;
    } else {
        core.free_blocks(handle, run)?;
    }
    match leaf {
        None => {
            let roots = roots_mut(state.claims(handle));
            roots[path.root..path.root + run.count as usize].fill(0);
        }
        Some(leaf) => {
            let start = path.offsets[path.depth - 1] as usize * 4;
            let end = start + run.count as usize * 4;
            handle.write(&leaf)?[start..end].fill(0);
        }
    }
    let sectors = u64::from(run.count) * core.sectors_per_block();
    let claims = state.claims(handle);
    claims.sectors = claims.sectors.saturating_sub(sectors);
    *inode.map.lock() = MapCache::default();
    Ok(())
}

/// Frees the indirect blocks on the path to a block of the file that have no pointers left, from
/// the leaf up. Changes `state` (words, sectors), which the caller stores. It revokes up to three
/// blocks and changes up to two indirect blocks that stay.
///
/// If it fails, indirect blocks without pointers may be left, which are harmless, and the block map
/// is consistent.
pub(in crate::map) fn free_empty_maps(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
) -> Result<()> {
    let Some(path) = Path::of(from, core.geometry().pointers_per_block()) else {
        return Ok(());
    };
    let way = way(core, inode, state, &path, from)?;
    *inode.map.lock() = MapCache::default();
    for (level, block) in way.iter().enumerate().rev() {
        let label = label(inode, state);
        let found = block::read(core, *block, label)?;
        let is_empty = pointers(&found.buffer.read()).all(|pointer| pointer == 0);
        if !is_empty {
            break;
        }
        let above = match level {
            0 => None,
            _ => {
                let above = path.indirect(from, level - 1, way[level - 1]);
                Some(above.get(core, inode, label)?)
            }
        };
        let run = Run {
            first: *block,
            count: 1,
        };
        core.free_buffered(handle, run)?;
        match above {
            None => roots_mut(state.claims(handle))[path.root] = 0,
            Some(above) => {
                let at = path.offsets[level - 1] as usize * 4;
                handle.write(&above)?[at..at + 4].fill(0);
            }
        }
        let claims = state.claims(handle);
        claims.sectors = claims.sectors.saturating_sub(core.sectors_per_block());
    }
    Ok(())
}

/// Returns the existing indirect blocks on the path to a block of the file, from the root on.
fn way(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    path: &Path,
    from: FileBlock,
) -> Result<Vec<BlockNr>> {
    let mut blocks = Vec::with_capacity(path.depth);
    let mut pointer = roots(state)[path.root];
    while pointer != 0 && blocks.len() < path.depth {
        let block = check_map_block(core, inode, from, pointer)?;
        let index = path.offsets[blocks.len()];
        pointer = read_pointer(core, block, label(inode, state), index)?;
        blocks.push(block);
    }
    Ok(blocks)
}

/// Frees the block of a new inode's first contents, if it has one, in the transaction that
/// allocated it. Unlike freeing a whole block map it never restarts the handle: an inode without
/// links would become durable.
pub(in crate::map) fn free_first(
    core: &Core,
    handle: &mut Handle<'_>,
    state: &mut InodeState,
) -> Result<()> {
    if state.sectors == 0 {
        return Ok(());
    }
    let run = Run {
        first: BlockNr::new(u64::from(roots(state)[0])),
        count: 1,
    };
    if state.has_buffered_blocks(core) {
        core.free_buffered(handle, run)?;
    } else {
        core.free_blocks(handle, run)?;
    }
    let claims = state.claims(handle);
    roots_mut(claims)[0] = 0;
    claims.sectors = 0;
    Ok(())
}
