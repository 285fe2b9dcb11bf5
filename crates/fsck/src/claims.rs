//! Blocks claimed more than once: by several files, twice by one, or by a file and the metadata.
//! All inodes are walked again, to name those that have such a block. With the feature
//! `shared_blocks` files may have blocks in common.

use layout::feature::ReadOnlyCompatible;

use crate::error::Error;
use crate::inode_states::Usage;
use crate::inodes;
use crate::kind::ProblemKind;
use crate::map::{self, Root};
use crate::problem::Location;
use crate::reserved_inodes::RESIZE;
use crate::state::State;
use crate::visit::{Next, is_claimed};

/// Reports every claim of a block that was claimed more than once.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    let read_only = state.features.read_only_compatible;
    if state.claimed_twice.is_empty() || read_only.contains(ReadOnlyCompatible::SHARED_BLOCKS) {
        return Ok(());
    }
    state.map_visits = 0;
    let known = state.inodes.known(1..=state.geometry.inode_count);
    let mapped = known.filter(|(_, inode)| inode.usage == Usage::Mapped);
    let mapped: Vec<u32> = mapped.map(|(number, _)| number).collect();
    for number in mapped {
        let Some(inode) = inodes::read(state, number)? else {
            continue;
        };
        let root = Root::of(state, &inode);
        map::walk(state, number, &root, &mut |state, visit| {
            if state.is_exhausted() {
                return Next::Stop;
            }
            if !state.geometry.contains(visit.block) {
                return Next::Skip;
            }
            let is_metadata = state.is_metadata(visit.block);
            let place = state.geometry.place_of(visit.block);
            let place = state.geometry.cluster_at(place);
            let is_twice = state.claimed_twice.contains(place);
            if is_twice && is_claimed(state, number, visit) {
                let kind = if is_metadata {
                    ProblemKind::BlockInMetadata
                } else {
                    ProblemKind::BlockClaimedTwice
                };
                let place = Location::inode(number).at_file_block(visit.file_block);
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
