//! Freeing a tree from some block to its end, over as many transactions as needed.
//!
//! The walk goes backwards from the last leaf. It frees the extents of a leaf from the end on, as
//! many as the handle has credits for, and then writes the leaf, or frees it with all nodes that
//! are empty without it. So the tree is complete whenever the handle is restarted. The file is on
//! the orphan list meanwhile, and its size determines the blocks that are still to be freed.
//!
//! If a damaged extent or an unreadable node stops the walk, what was freed is written first.

use jbd2::Credits;
use layout::{BlockNr, FileBlock};

use super::apply::{Draft, hold_bitmaps};
use super::path::Site;
use super::tree::Piece;
use super::unmap::free_data;
use super::{Tree, credits_to_change};
use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::inode::{Inode, MapCache};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::error::Result;
use crate::orphan;

/// Credits of one further request, unless the log is too short for it.
const SEGMENT: Credits = Credits {
    blocks: 48,
    revokes: 64,
};

/// Returns the credits reserved at every moment, restarts included: for the caller, and for writing
/// or freeing the nodes of a path.
const fn kept(depth: u16) -> Credits {
    let nodes = depth as u32;
    Credits {
        blocks: orphan::CREDITS_FINISH.blocks
            + nodes * CREDITS_PER_GROUP
            + credits_to_change(depth),
        revokes: orphan::CREDITS_FINISH.revokes + nodes,
    }
}

/// Returns the credits with which a caller starts its transaction for [`free_from`].
pub(in crate::map) const fn credits_to_free(depth: u16) -> Credits {
    let kept = kept(depth);
    Credits {
        blocks: kept.blocks + CREDITS_PER_GROUP,
        revokes: kept.revokes,
    }
}

/// Returns true if the tree has blocks from a block of the file on.
pub(in crate::map) fn has_blocks_from(
    core: &Core,
    inode: &Inode,
    state: &InodeState,
    from: FileBlock,
) -> Result<bool> {
    let site = Tree { core, inode, state }.locate(u64::MAX)?;
    let last = site.path.leaf().pieces().next_back();
    Ok(last.is_some_and(|piece| piece.end() > from.get()))
}

/// Frees the blocks from `from` to the end of the tree, a part for each transaction, restarting as
/// needed. Data blocks that may be in the metadata cache are forgotten, with a revoke. The inode is
/// stored at every restart; the caller stores it at the end, and finishes the transaction also
/// after an error.
pub(in crate::map) fn free_from(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
) -> Result<()> {
    *inode.map.lock() = MapCache::default();
    let has_buffers = state.has_buffered_blocks(core);
    let mut pruner = Pruner {
        core,
        handle,
        inode,
        state,
        from: from.get(),
        has_buffers,
    };
    let result = pruner.prune();
    *inode.map.lock() = MapCache::default();
    result
}

struct Pruner<'a, 'c> {
    core: &'a Core,
    handle: &'a mut Handle<'c>,
    inode: &'a Inode,
    state: &'a mut InodeState,
    from: u64,
    /// True if data blocks may be in the metadata cache.
    has_buffers: bool,
}

/// The extents of the last leaf that stay.
struct Cut {
    /// Number of extents that stay as they are, and the first part of the next one.
    kept: usize,
    part: Option<Piece>,
    /// True if the handle has no credits for the rest.
    is_out_of_credits: bool,
}

impl Pruner<'_, '_> {
    fn prune(&mut self) -> Result<()> {
        loop {
            let site = self.tree().locate(u64::MAX)?;
            let pieces: Vec<Piece> = site.path.leaf().pieces().collect();
            if pieces.last().is_none_or(|last| last.end() <= self.from) {
                let Some(change) = site.path.shortened() else {
                    return Ok(());
                };
                if self.has_room()? {
                    let draft = Draft::new(self.core, site, change, Vec::new())?;
                    return draft.write(self.core, self.handle, self.inode, self.state);
                }
                self.restart()?;
                continue;
            }
            // Once the extents are free, so must be the nodes above them.
            let _held = match rt::mutant!("extents/node-not-checked-before-data-freed") {
                true => Vec::new(),
                false => hold_bitmaps(self.core, site.path.blocks())?,
            };
            let mut cut = Cut {
                kept: pieces.len(),
                part: None,
                is_out_of_credits: false,
            };
            let freed = self.free_pieces(&site, &pieces, &mut cut);
            if cut.is_out_of_credits && rt::mutant!("extents/cut-in-another-step") {
                self.restart()?;
            }
            if cut.kept < pieces.len() {
                let change = site.path.replace_from(cut.kept, cut.part);
                let change = change.expect("a leaf with fewer extents fits");
                let draft = Draft::new(self.core, site, change, Vec::new())?;
                draft.write(self.core, self.handle, self.inode, self.state)?;
            }
            freed?;
            if cut.is_out_of_credits {
                self.restart()?;
            }
        }
    }

    /// Continues in a new transaction.
    fn restart(&mut self) -> Result<()> {
        self.state
            .store(self.core, self.handle, self.inode.nr, true)?;
        let segment = self.segment();
        self.handle.restart(segment)
    }

    fn tree(&self) -> Tree<'_> {
        Tree {
            core: self.core,
            inode: self.inode,
            state: self.state,
        }
    }

    /// Frees extents of a leaf from the end on, until those before `from` are left or the handle is
    /// out of credits. `cut` is what stays, after an error too.
    fn free_pieces(&mut self, site: &Site, pieces: &[Piece], cut: &mut Cut) -> Result<()> {
        for (index, piece) in pieces.iter().enumerate().rev() {
            let mut end = piece.end();
            let start = piece.file_block.max(self.from);
            if start < end {
                self.tree().check_piece(site, *piece)?;
            }
            while start < end {
                if !self.has_room()? {
                    cut.is_out_of_credits = true;
                    return Ok(());
                }
                let part = piece.part(start..end).expect("it is not empty");
                end -= u64::from(self.free_end(part)?);
                cut.kept = index;
                cut.part = piece.part(0..end);
            }
        }
        Ok(())
    }

    /// Frees the last blocks of an extent: of one group, and as many as there are revokes for. What
    /// the file had behind them is free already. Returns their number.
    fn free_end(&mut self, piece: Piece) -> Result<u32> {
        let run = piece.run();
        let geometry = self.core.geometry();
        let last = BlockNr::new(run.end().get() - 1);
        let (_, index) = geometry.group_of_block(last);
        let in_group = run.count.min(index + 1);
        // The blocks of an unwritten extent never have buffers.
        let has_buffers = self.has_buffers && !piece.is_unwritten;
        let count = match has_buffers {
            true => in_group.min(self.revokes()),
            false => in_group,
        };
        let part = piece.part(piece.end() - u64::from(count)..piece.end());
        let part = part.expect("it is not empty");
        let freed = self.tree().freed(part, true)?;
        let (core, handle) = (self.core, &mut *self.handle);
        free_data(core, handle, (part.run(), freed), has_buffers)?;
        let sectors = u64::from(freed.count) * core.sectors_per_block();
        let claims = self.state.claims(self.handle);
        claims.sectors = claims.sectors.saturating_sub(sectors);
        Ok(count)
    }

    /// Returns true if there are credits for freeing in one more group, at hand or added.
    fn has_room(&mut self) -> Result<bool> {
        let needed = credits_to_free(super::depth_of(self.state));
        let has_blocks = self.handle.credits_left() >= needed.blocks;
        let revokes = needed.revokes + u32::from(self.has_buffers);
        let has_revokes = self.handle.revokes_left() >= revokes;
        if has_blocks && has_revokes {
            return Ok(true);
        }
        let segment = self.segment();
        self.handle.extend(Credits {
            blocks: if has_blocks { 0 } else { segment.blocks },
            revokes: if has_revokes { 0 } else { segment.revokes },
        })
    }

    /// Returns [`SEGMENT`], or as much of it as a handle may ask for, but never less than one step
    /// needs. If tests force restarts, returns as little as possible, so that every possible
    /// restart happens.
    fn segment(&self) -> Credits {
        let least = credits_to_free(super::depth_of(self.state)).plus(Credits {
            blocks: 0,
            revokes: 1,
        });
        if self.core.tuning.forces_restarts {
            return least;
        }
        let most = self.core.max_credits().unwrap_or(u32::MAX);
        Credits {
            blocks: SEGMENT.blocks.min(most).max(least.blocks),
            revokes: SEGMENT.revokes.min(most).max(least.revokes),
        }
    }

    /// Returns the number of revokes that may still be added here, without those reserved for the
    /// caller and for nodes.
    fn revokes(&self) -> u32 {
        let kept = kept(super::depth_of(self.state)).revokes;
        self.handle.revokes_left().saturating_sub(kept)
    }
}
