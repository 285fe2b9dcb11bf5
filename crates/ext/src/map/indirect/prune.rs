//! Freeing a block map from some block to its end, over as many transactions as needed.
//!
//! # Consistency of a part
//!
//! The walk goes forward through the trees. For each indirect block on the path it notes the
//! indices whose blocks have been freed ("pending") and does not write them at once: an indirect
//! block that is freed as a whole is never written. Before the step is restarted, and at the end,
//! the noted pointers are zeroed and the inode is stored, so that no transaction ends with a
//! pointer to a freed block. The file is on the orphan list meanwhile, and its size determines the
//! blocks that are still to be freed.
//!
//! If a damaged pointer or an unreadable indirect block stops the walk, the freed blocks are
//! unlinked first.

use std::sync::Arc;

use jbd2::{Buffer, Credits};
use layout::FileBlock;

use super::block::{Indirect, label};
use super::path::tree;
use super::walk::runs;
use super::{
    CREDITS_PATH, DIRECT, check_clusters, check_data, check_map_block, pointers, roots, roots_mut,
};
use crate::alloc::CREDITS_PER_GROUP;
use crate::cache::inode::{Inode, MapCache};
use crate::core::Core;
use crate::core::handle::{CREDITS_MAX, Handle};
use crate::disk::inode::InodeState;
use crate::disk::run::Run;
use crate::error::{Corrupt, Result};

/// Credits reserved at every moment, restarts included: for the caller, and for unlinking pending
/// blocks (the indirect blocks on the path and the inode).
const CREDITS_KEPT: Credits = Credits {
    blocks: crate::orphan::CREDITS_FINISH.blocks + CREDITS_PATH,
    revokes: crate::orphan::CREDITS_FINISH.revokes,
};
/// Credits for freeing one extent, which may lie in two groups.
const CREDITS_EXTENT: u32 = 2 * CREDITS_PER_GROUP;
/// Credits of one further request, unless the log is too short for it.
const SEGMENT: Credits = Credits {
    blocks: 48,
    revokes: 64,
};
const _: () = assert!(CREDITS_KEPT.blocks + CREDITS_EXTENT <= CREDITS_MAX);
/// Credits with which a caller starts its transaction for [`free_from`].
pub(in crate::map) const CREDITS_FREE: Credits = Credits {
    blocks: CREDITS_KEPT.blocks + CREDITS_EXTENT,
    revokes: CREDITS_KEPT.revokes,
};

/// Frees the blocks from `from` to the end of the block map, a part for each transaction,
/// restarting as needed. Data blocks that may be in the metadata cache are forgotten, with a
/// revoke. The inode is stored at every restart; the caller stores it at the end, and finishes the
/// transaction also after an error.
pub(in crate::map) fn free_from(
    core: &Core,
    handle: &mut Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    from: FileBlock,
) -> Result<()> {
    if roots(state).iter().any(|root| *root != 0) {
        check_clusters(core, inode, state)?;
    }
    *inode.map.lock() = MapCache::default();
    let has_buffers = state.has_buffered_blocks(core);
    let mut pruner = Pruner {
        core,
        handle,
        inode,
        state,
        from: from.get(),
        has_buffers,
        pending: Vec::new(),
    };
    let result = pruner.prune();
    let unlinked = pruner.unlink_pending();
    *inode.map.lock() = MapCache::default();
    result.and(unlinked)
}

/// Returns [`SEGMENT`], or as much of it as a handle may ask for. If tests force restarts, returns
/// as little as possible, so that every possible restart happens.
fn segment(core: &Core) -> Credits {
    if core.tuning.forces_restarts {
        return CREDITS_FREE.plus(Credits {
            blocks: 0,
            revokes: 1,
        });
    }
    let most = core.max_credits().unwrap_or(u32::MAX);
    Credits {
        blocks: SEGMENT.blocks.min(most),
        revokes: SEGMENT.revokes.min(most),
    }
}

/// The indices of an indirect block whose blocks have been freed.
struct Pending {
    indirect: Indirect,
    start: usize,
    end: usize,
    /// Its buffer: reading it again after its blocks are freed could fail.
    _held: Option<Arc<Buffer>>,
}

struct Pruner<'a, 'c> {
    core: &'a Core,
    handle: &'a mut Handle<'c>,
    inode: &'a Inode,
    state: &'a mut InodeState,
    from: u64,
    /// True if data blocks may be in the metadata cache.
    has_buffers: bool,
    /// The indirect blocks on the path, from the root on.
    pending: Vec<Pending>,
}

impl Pruner<'_, '_> {
    fn prune(&mut self) -> Result<()> {
        self.prune_direct()?;
        for depth in 1..=3 {
            let word = DIRECT as usize + depth as usize - 1;
            let pointer = roots(self.state)[word];
            let (first, reach) = tree(depth, self.core.geometry().pointers_per_block());
            if pointer == 0 || self.from >= first + reach {
                continue;
            }
            if self.prune_tree(pointer, depth, first)? {
                roots_mut(self.state.claims(self.handle))[word] = 0;
            }
        }
        Ok(())
    }

    fn prune_direct(&mut self) -> Result<()> {
        let start = self.from.min(DIRECT) as usize;
        let words: Vec<u32> = roots(self.state)[start..DIRECT as usize].to_vec();
        for (at, run) in runs(&words) {
            let mut at = start + at;
            let mut rest = run;
            while rest.count > 0 {
                let freed = self.free_part(at as u64, rest)?;
                let claims = self.state.claims(self.handle);
                roots_mut(claims)[at..at + freed as usize].fill(0);
                at += freed as usize;
                rest = Run {
                    first: rest.first + u64::from(freed),
                    count: rest.count - freed,
                };
            }
        }
        Ok(())
    }

    /// Frees the blocks below an indirect block from `from` on; returns true if those were all, and
    /// the indirect block is freed too.
    fn prune_tree(&mut self, pointer: u32, depth: u32, first: u64) -> Result<bool> {
        let block = check_map_block(self.core, self.inode, FileBlock::new(first), pointer)?;
        self.check_off_the_way(Run {
            first: block,
            count: 1,
        })?;
        let span = u64::from(self.core.geometry().pointers_per_block()).pow(depth - 1);
        let indirect = Indirect {
            block,
            first: FileBlock::new(first),
            span,
        };
        let held = indirect.get(self.core, self.inode, label(self.inode, self.state))?;
        let children: Vec<u32> = pointers(&held.read()).collect();
        let start = (self.from.saturating_sub(first) / span) as usize;
        self.pending.push(Pending {
            indirect,
            start,
            end: start,
            _held: (!rt::mutant!("truncate/map-block-not-held")).then_some(held),
        });
        if depth == 1 {
            self.prune_leaf(&children, start, first)?;
        } else {
            self.prune_children(&children, start, depth, first, span)?;
        }
        if self.from > first {
            self.unlink_last()?;
            return Ok(false);
        }
        self.make_room(1)?;
        // It stays noted until it is freed: if that fails, its pointers are zeroed like those of
        // the others on the path.
        let run = Run {
            first: block,
            count: 1,
        };
        self.core.free_buffered(self.handle, run)?;
        self.count_freed(1);
        self.pending.pop();
        Ok(true)
    }

    fn prune_leaf(&mut self, children: &[u32], start: usize, first: u64) -> Result<()> {
        for (at, run) in runs(&children[start..]) {
            let mut at = start + at;
            let mut rest = run;
            while rest.count > 0 {
                let freed = self.free_part(first + at as u64, rest)?;
                at += freed as usize;
                rest = Run {
                    first: rest.first + u64::from(freed),
                    count: rest.count - freed,
                };
                self.note(at);
            }
        }
        Ok(())
    }

    fn prune_children(
        &mut self,
        children: &[u32],
        start: usize,
        depth: u32,
        first: u64,
        span: u64,
    ) -> Result<()> {
        for (index, pointer) in children.iter().enumerate().skip(start) {
            if *pointer == 0 {
                continue;
            }
            if self.prune_tree(*pointer, depth - 1, first + index as u64 * span)? {
                self.note(index + 1);
            } else if let Some(pending) = self.pending.last_mut() {
                pending.start = index + 1;
                pending.end = index + 1;
            }
        }
        Ok(())
    }

    /// Notes that all blocks below the last indirect block on the path have been freed up to an
    /// index.
    fn note(&mut self, end: usize) {
        if let Some(pending) = self.pending.last_mut() {
            pending.end = end;
        }
    }

    /// Frees the first blocks of an extent, as many as one transaction can. Returns their number.
    fn free_part(&mut self, file_block: u64, run: Run) -> Result<u32> {
        check_data(self.core, self.inode, FileBlock::new(file_block), run)?;
        self.check_off_the_way(run)?;
        if !self.has_buffers {
            self.make_room(0)?;
            self.core.free_blocks(self.handle, run)?;
            self.count_freed(run.count);
            return Ok(run.count);
        }
        self.make_room(1)?;
        let part = Run {
            first: run.first,
            count: run.count.min(self.revokes()),
        };
        self.core.free_buffered(self.handle, part)?;
        self.count_freed(part.count);
        Ok(part.count)
    }

    /// Checks that no indirect block on the path is freed before the blocks below it.
    fn check_off_the_way(&self, run: Run) -> Result<()> {
        let mut way = self.pending.iter().map(|pending| pending.indirect.block);
        match way.find(|block| *block >= run.first && *block < run.end()) {
            None => Ok(()),
            Some(block) => Err(self.core.damaged(Corrupt::MapCycle {
                inode: self.inode.nr,
                block,
            })),
        }
    }

    /// Subtracts freed blocks from the inode's count.
    fn count_freed(&mut self, blocks: u32) {
        let sectors = u64::from(blocks) * self.core.sectors_per_block();
        let claims = self.state.claims(self.handle);
        claims.sectors = claims.sectors.saturating_sub(sectors);
    }

    /// Ensures credits for freeing in one more group, and for at least `revokes` revokes: at hand,
    /// added, or in a new transaction.
    fn make_room(&mut self, revokes: u32) -> Result<()> {
        let has_blocks = self.handle.credits_left() >= CREDITS_KEPT.blocks + CREDITS_EXTENT;
        let has_revokes = self.revokes() >= revokes;
        if has_blocks && has_revokes {
            return Ok(());
        }
        let segment = segment(self.core);
        let more = Credits {
            blocks: if has_blocks { 0 } else { segment.blocks },
            revokes: if has_revokes { 0 } else { segment.revokes },
        };
        if self.handle.extend(more)? {
            return Ok(());
        }
        self.unlink_pending()?;
        self.state
            .store(self.core, self.handle, self.inode.nr, true)?;
        self.handle.restart(segment)
    }

    /// Returns the number of revokes that may still be added here, without those reserved for the
    /// caller.
    fn revokes(&self) -> u32 {
        let kept = match CREDITS_KEPT.revokes {
            _ if rt::mutant!("truncate/kept-revoke-used") => 0,
            kept => kept,
        };
        self.handle.revokes_left().saturating_sub(kept)
    }

    /// Zeroes the pointers to freed blocks. The blocks on the path stay noted.
    fn unlink_pending(&mut self) -> Result<()> {
        for index in 0..self.pending.len() {
            let Pending {
                indirect,
                start,
                end,
                ..
            } = self.pending[index];
            if end > start {
                let buffer = indirect.get(self.core, self.inode, label(self.inode, self.state))?;
                self.handle.write(&buffer)?[start * 4..end * 4].fill(0);
                self.pending[index].start = end;
            }
        }
        Ok(())
    }

    /// Zeroes the freed pointers of the last indirect block on the path, which stays, and leaves
    /// it.
    fn unlink_last(&mut self) -> Result<()> {
        if let Some(Pending {
            indirect,
            start,
            end,
            _held,
        }) = self.pending.pop()
            && end > start
        {
            let buffer = indirect.get(self.core, self.inode, label(self.inode, self.state))?;
            self.handle.write(&buffer)?[start * 4..end * 4].fill(0);
        }
        Ok(())
    }
}
