//! Taking one run out of a map: a hole is left.

use layout::FileBlock;

use super::path::Path;
use super::{Leaf, MapCache, find_leaf};
use crate::core::Core;
use crate::error::Result;
use crate::inode::{Inode, InodeState};
use crate::space::Run;
use crate::transaction::Transaction;

/// Frees a run that [`find`](super::find) has just found, and zeroes its pointers. Changes `state` (words, sectors), which the
/// caller stores. When it fails, the map is as it was.
pub(crate) fn unmap(
    core: &Core,
    transaction: &mut Transaction<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
    run: Run,
) -> Result<()> {
    let Some(path) = Path::of(from, core.geometry.pointers_per_block()) else {
        return Ok(());
    };
    let leaf = match path.depth {
        0 => None,
        _ => match find_leaf(core, inode, state, &path, from)? {
            Leaf::At(leaf) => Some(core.buffers.get(leaf)?),
            Leaf::Missing { .. } => return Ok(()),
        },
    };
    if state.has_buffered_blocks(core) {
        for step in 0..run.count {
            transaction.forget(run.first + u64::from(step))?;
        }
    }
    core.free_blocks(transaction, run)?;
    match leaf {
        None => state.words[path.root..path.root + run.count as usize].fill(0),
        Some(leaf) => {
            let start = path.offsets[path.depth - 1] as usize * 4;
            let end = start + run.count as usize * 4;
            transaction.write(&leaf)?[start..end].fill(0);
        }
    }
    let sectors = u64::from(run.count) * core.sectors_per_block();
    state.sectors = state.sectors.saturating_sub(sectors);
    *inode.map.lock() = MapCache::default();
    Ok(())
}
