//! Files whose blocks are allocated when their data is written back (`delalloc`).
//!
//! The metadata is that of the state, except for the size: it covers no block that was not
//! allocated. So a file may end earlier, where a block starts or where the file ended in a state
//! since its last sync call, and a hole that was filled since may still be a hole. A file that
//! replaced another by rename had its blocks before (O4).

use super::data::File;
use super::{Oracle, View};
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::mode::{DataMode, OrderedScope};
use crate::model::{Kind, NodeId, Tree};
use crate::op::Op;

/// Size of a block in bytes.
const BLOCK_BYTES: u64 = (BLOCK_SECTORS * SECTOR_BYTES) as u64;

impl Oracle<'_> {
    /// Returns the state before which no contents of a file may return. Where a commit does not
    /// wait for overwrites of blocks that are there, a rename over another file promises the
    /// blocks only.
    pub(super) fn contents_bound_of(&self, view: &View<'_>, id: NodeId) -> usize {
        match self.bounds.ordered {
            OrderedScope::All => self.bound_of(view, id),
            OrderedScope::Allocated => synced_in(view, id),
        }
    }

    /// Returns the state whose blocks are all allocated.
    pub(super) fn bound_of(&self, view: &View<'_>, id: NodeId) -> usize {
        let synced = synced_in(view, id);
        // A rename goes on if the blocks of its file cannot be allocated.
        let has_failed = self.bounds.has_faults;
        if !self.bounds.is_delayed || self.data != DataMode::Ordered || has_failed {
            return synced;
        }
        let ops = view.history.ops[..view.state].iter().enumerate();
        let mut later = ops.skip(synced);
        let last = later.rfind(|(number, op)| {
            let (Op::Rename(from, to) | Op::Whiteout(from, to)) = op else {
                return false;
            };
            let (before, after) = (
                &view.history.states[*number],
                &view.history.states[number + 1],
            );
            let replaced = before.find(to).filter(|old| *old != id);
            let replaced = replaced.and_then(|old| size_of(before, old));
            before.find(from) == Some(id) && replaced.is_some() && after.find(to) == Some(id)
        });
        last.map_or(synced, |(number, _)| number)
    }

    /// Returns true if a file may have this size in a state in which it should have `size`.
    pub(super) fn fits_size(&self, view: &View<'_>, id: NodeId, size: u64, found: u64) -> bool {
        if found == size || !self.bounds.is_delayed || found > size {
            return found == size;
        }
        let bound = self.bound_of(view, id).min(view.state);
        let states = &view.history.states[bound..=view.state];
        let sizes = || states.iter().map(|state| size_of(state, id).unwrap_or(0));
        let is_end = found.is_multiple_of(BLOCK_BYTES) || sizes().any(|size| size == found);
        is_end && sizes().min().is_none_or(|least| found >= least)
    }

    /// Returns true if the block of a sector was a hole of the file since its last sync call.
    pub(super) fn may_be_hole(&self, view: &View<'_>, file: &File, index: usize) -> bool {
        let bound = file.mapped.min(view.state);
        let mut states = view.history.states[bound..=view.state].iter();
        self.bounds.is_delayed
            && states.any(|state| {
                let sector = state.sectors(file.id).and_then(|all| all.get(index));
                sector.is_some_and(|sector| sector.allocated_in == 0)
            })
    }
}

/// Returns the last state that sync calls of a file promise.
fn synced_in(view: &View<'_>, id: NodeId) -> usize {
    match view.has_promises {
        true => view.bounds.files.get(&id).copied().unwrap_or(0),
        false => 0,
    }
}

/// Returns the size of a file; none if the node is not there or no file.
fn size_of(tree: &Tree, id: NodeId) -> Option<u64> {
    match tree.get(id)?.kind {
        Kind::File { size, .. } => Some(size),
        _ => None,
    }
}
