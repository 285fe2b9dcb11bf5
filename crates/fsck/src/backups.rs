//! Backups of the superblock and of the group descriptors at the start of other groups. Only
//! constant fields are compared. A difference is a note, because backups are not read while the
//! primary copies are valid.

use layout::feature::{Compatible, Incompatible};
use layout::group::GroupDescriptor64;
use layout::superblock::Superblock;
use zerocopy::FromBytes;

use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::state::State;

/// Compares all backups with the primary copies.
pub(crate) fn check(state: &mut State<'_>) -> Result<(), Error> {
    for group in 1..state.geometry.group_count {
        if state.geometry.has_super(group) {
            check_superblock(state, group)?;
        }
        check_descriptors(state, group)?;
    }
    Ok(())
}

fn check_superblock(state: &mut State<'_>, group: u32) -> Result<(), Error> {
    let block = state.geometry.first_block_of(group);
    let bytes = state.block(block)?;
    let copy = Superblock::ref_from_prefix(&bytes);
    let is_same = copy.is_ok_and(|(copy, _)| facts(copy) == facts(&state.raw));
    if !is_same {
        let place = Location::group(group).at_block(block);
        state.problem(ProblemKind::BackupSuperblockDiffers, place);
    }
    Ok(())
}

/// Returns the fields of a superblock that its backups must share.
fn facts(raw: &Superblock) -> ([u32; 13], [u8; 16]) {
    let features = raw.features();
    // These change at a mount or with the first file that needs them.
    let incompatible = features.incompatible - Incompatible::NEEDS_RECOVERY;
    let compatible = features.compatible - Compatible::EXT_ATTR;
    let words = [
        raw.magic.get().into(),
        raw.inodes_count.get(),
        raw.blocks_count_low.get(),
        (raw.blocks_count() >> 32) as u32,
        raw.descriptor_bytes().into(),
        raw.first_data_block.get(),
        raw.log_block_size.get(),
        raw.blocks_per_group.get(),
        raw.inodes_per_group.get(),
        raw.revision.get(),
        raw.dynamic_inode_size.get().into(),
        compatible.bits(),
        incompatible.bits(),
    ];
    (words, raw.uuid)
}

fn check_descriptors(state: &mut State<'_>, group: u32) -> Result<(), Error> {
    let first = state.geometry.first_descriptor_in(group);
    let per_block = state.geometry.descriptors_per_block() as usize;
    let size = state.geometry.descriptor_bytes;
    let indices = state.geometry.descriptor_blocks_in(group);
    for (block, index) in (first..).zip(indices) {
        let original = state.geometry.descriptor_block(index, state.copy);
        if block == original || block >= state.geometry.block_count {
            continue;
        }
        let (bytes, original) = (state.block(block)?, state.block(original)?);
        let count = state.geometry.group_count as usize - index as usize * per_block;
        let copies = bytes.chunks_exact(size).take(count);
        let mut pairs = copies.zip(original.chunks_exact(size));
        if pairs.any(|(copy, original)| places(copy) != places(original)) {
            let place = Location::group(group).at_block(block);
            state.problem(ProblemKind::BackupDescriptorsDiffer, place);
        }
    }
    Ok(())
}

fn places(bytes: &[u8]) -> [u64; 3] {
    let raw = GroupDescriptor64::read(bytes);
    [raw.block_bitmap(), raw.inode_bitmap(), raw.inode_table()]
}
