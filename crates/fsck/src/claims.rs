//! Blocks that belong to more than one file, twice to one, or to a file and the metadata: all inodes are walked again, and
//! whoever has such a block is named.

use crate::error::Error;
use crate::inodes::{self, RESIZE};
use crate::kind::ProblemKind;
use crate::map::{self, Next};
use crate::problem::Place;
use crate::state::State;

/// Reports every claim of a block that was claimed more than once.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    if state.claimed_twice.is_empty() {
        return Ok(());
    }
    let mut blocks = std::mem::take(&mut state.claimed_twice);
    blocks.sort_unstable();
    blocks.dedup();
    state.map_visits = 0;
    for number in 1..=state.geometry.inode_count {
        if !state.inodes[number as usize].has_map {
            continue;
        }
        let Some(inode) = inodes::read(state, number)? else {
            continue;
        };
        map::walk(state, &inode.map(), &mut |state, visit| {
            if state.is_exhausted() {
                return Next::Stop;
            }
            if !state.geometry.contains(visit.block) {
                return Next::Skip;
            }
            let is_metadata = state.metadata.contains(state.geometry.bit_of(visit.block));
            let is_twice = blocks.binary_search(&visit.block).is_ok();
            if is_twice && map::is_claimed(state, number, visit) {
                let kind = if is_metadata {
                    ProblemKind::BlockInMetadata
                } else {
                    ProblemKind::BlockClaimedTwice
                };
                let place = Place::inode(number).at_file_block(visit.file_block);
                state.report.add_found(kind, place, visit.block);
            }
            if visit.level > 0 && is_metadata && number != RESIZE {
                Next::Skip
            } else {
                Next::Below
            }
        })?;
    }
    Ok(())
}
