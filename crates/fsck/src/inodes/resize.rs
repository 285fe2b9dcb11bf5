//! The resize inode. Its double indirect block lists the reserved GDT blocks of the first group;
//! each of them lists its copies in the other groups that have copies.

use layout::feature::Compatible;
use layout::inode::{DOUBLE_INDIRECT_SLOT, Inode};
use layout::mode::FileType;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::RESIZE;
use crate::state::State;

/// Checks the resize inode, if its feature is set.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    let has_feature = state.features.compatible.contains(Compatible::RESIZE_INODE);
    if !has_feature {
        return Ok(());
    }
    let inode = super::read(state, RESIZE)?;
    let is_good = match inode {
        Some(inode) => is_good(state, &inode)?,
        None => false,
    };
    if !is_good {
        state.problem(ProblemKind::ResizeInodeInvalid, Location::inode(RESIZE));
    }
    Ok(())
}

fn is_good(state: &mut State<'_>, inode: &Inode) -> Result<bool, Error> {
    let words = inode.map();
    let double = u64::from(words[DOUBLE_INDIRECT_SLOT]);
    let others = words.iter().enumerate();
    let are_others_clear = others
        .filter(|(slot, _)| *slot != DOUBLE_INDIRECT_SLOT)
        .all(|(_, word)| *word == 0);
    let is_file = FileType::from_mode(inode.mode.get()) == FileType::Regular;
    let has_map = are_others_clear && state.geometry.contains(double);
    if !is_file || !has_map || inode.links_count.get() == 0 {
        return Ok(false);
    }
    let first =
        state.geometry.primary_superblock() + 1 + u64::from(state.geometry.descriptor_blocks());
    let per_block = state.geometry.pointers_per_block();
    let pointers = state.block(double)?;
    // The first pointers stand for the blocks of the descriptors themselves.
    let skipped = state.geometry.descriptor_blocks() as usize;
    for index in 0..state.geometry.reserved_descriptor_blocks as usize {
        let block = first + index as u64;
        let named = pointer(&pointers, (skipped + index) % per_block);
        if named != block || !are_copies_named(state, block)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if a reserved block of the first group lists its copy in every other group that has copies.
fn are_copies_named(state: &mut State<'_>, block: u64) -> Result<bool, Error> {
    if !state.geometry.contains(block) {
        return Ok(false);
    }
    let pointers = state.block(block)?;
    let groups = (1..state.geometry.group_count).filter(|group| state.geometry.has_super(*group));
    let geometry = &state.geometry;
    let within = block - geometry.primary_superblock();
    let mut copies = groups.take(state.geometry.pointers_per_block()).enumerate();
    Ok(copies
        .all(|(index, group)| pointer(&pointers, index) == geometry.first_block_of(group) + within))
}

fn pointer(bytes: &[u8], index: usize) -> u64 {
    let found = <[U32]>::ref_from_bytes(bytes).ok();
    let found = found.and_then(|pointers| pointers.get(index));
    found.map_or(0, |pointer| pointer.get().into())
}
