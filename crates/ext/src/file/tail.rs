//! The bytes beyond a file's size in its last block.

use std::sync::Arc;

use jbd2::Credits;
use layout::{Block, FileBlock};

use super::read::load;
use crate::cache::file_pages::Dirt;
use crate::cache::folio::Backing;
use crate::cache::inode::Inode;
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::metadata::Kind;
use crate::error::Result;
use crate::map::{FileMap, Mapped};

/// Zeroes the bytes beyond the old size on the device, before the size grows past the end of the
/// last block.
pub(super) fn clear_tail(core: &Core, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
    let block_bytes = u64::from(core.geometry().block_bytes);
    let block = FileBlock::new(state.size / block_bytes);
    if state.size.is_multiple_of(block_bytes) {
        return Ok(());
    }
    let Some(image) = load(core, inode, state, block)? else {
        return Ok(());
    };
    let slot = inode
        .pages
        .lock()
        .slot(block)
        .filter(|slot| slot.image.is_some())
        .map(|slot| (slot.has_masked_tail, slot.backing()));
    let nr = match slot {
        Some((true, Some(Backing::Mapped(nr)))) => nr,
        Some(_) => return Ok(()),
        // The page was evicted meanwhile, and with it the mark of a masked tail.
        None if rt::mutant!("truncate/evicted-tail-not-zeroed") => return Ok(()),
        None => match FileMap::of(state).find(core, inode, state, block, 1)? {
            Mapped::Run(run) => run.first,
            Mapped::Unwritten(_) | Mapped::Hole(_) => return Ok(()),
        },
    };
    let mut handle = core.begin(Credits {
        blocks: 1,
        revokes: 0,
    })?;
    let backing = Backing::Mapped(nr);
    zero_from(core, &mut handle, inode, state, backing, block, Some(image))?;
    handle.finish()?;
    Ok(())
}

/// Zeroes a page beyond the file's size and makes it dirty, ordered or journaled (one credit).
/// `base` is its old image, in case the page has left the cache.
pub(super) fn zero_from(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Arc<Inode>,
    state: &InodeState,
    backing: Backing,
    block: FileBlock,
    base: Option<Arc<Block>>,
) -> Result<()> {
    let within = match (state.size % u64::from(core.geometry().block_bytes)) as usize {
        _ if rt::mutant!("truncate/tail-not-zeroed") => core.block_bytes(),
        within => within,
    };
    let ordered = match backing {
        Backing::Mapped(_) => handle.ordering(),
        Backing::Delayed => None,
    };
    let dirt = Dirt {
        ordered,
        since: rt::monotonic(),
    };
    let is_journaled = state.is_journaled(core);
    let mut inner = inode.pages.lock();
    let image = inner.change(
        &core.pages.counts,
        block,
        backing,
        (!is_journaled).then_some(dirt),
        |old| {
            let zeroes = || Block::zeroed(core.block_bytes()).into_arc();
            let mut image = match old {
                Some(old) => old,
                None => base.unwrap_or_else(zeroes),
            };
            Arc::make_mut(&mut image)[within..].fill(0);
            image
        },
    );
    if is_journaled && let Backing::Mapped(nr) = backing {
        drop(inner);
        return handle.replace(&core.buffers.get_new(nr, Kind::Contents.of_volume()), image);
    }
    core.pages.announce(&mut inner, inode, dirt);
    Ok(())
}
