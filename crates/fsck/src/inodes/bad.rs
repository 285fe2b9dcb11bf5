//! The list of bad blocks, and inodes that lie in them: their contents are unknown, and they count
//! as in use.

use crate::error::Error;
use crate::inode_states::InodeState;
use crate::kind::ProblemKind;
use crate::map::{self, Root};
use crate::problem::Location;
use crate::reserved_inodes::{BAD_BLOCKS, ROOT};
use crate::state::State;
use crate::visit::Next;

/// Reads the list of bad blocks, which is the block map of an inode.
pub(super) fn read_list(state: &mut State<'_>) -> Result<(), Error> {
    let Some(inode) = super::read(state, BAD_BLOCKS)? else {
        return Ok(());
    };
    let root = Root::of(state, &inode);
    map::walk(state, BAD_BLOCKS, &root, &mut |state, visit| {
        if state.is_exhausted() {
            return Next::Stop;
        }
        if !state.geometry.contains(visit.block) {
            return Next::Skip;
        }
        if visit.level == 0 {
            state
                .bad_blocks
                .insert(state.geometry.place_of(visit.block));
        }
        Next::Below
    })?;
    state.map_visits = 0;
    Ok(())
}

/// Marks the inodes of a table block as lost.
pub(super) fn lose(state: &mut State<'_>, first: u32, count: u32) {
    let numbers = first..=first + (count - 1);
    for number in numbers.clone() {
        state.inodes[number] = InodeState::LOST;
    }
    state.report.statistics.used_inodes += count;
    if numbers.contains(&BAD_BLOCKS) {
        let kind = ProblemKind::BadBlocksInodeInvalid;
        state.problem(kind, Location::inode(BAD_BLOCKS));
    }
    if numbers.contains(&ROOT) {
        state.problem(ProblemKind::RootMissing, Location::inode(ROOT));
    }
}
