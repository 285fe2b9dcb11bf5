//! The parts of an inode beyond its base: the extra part, attributes within the inode, and the
//! attribute block.

use layout::attribute::{self, BlockHeader};
use layout::checksum::metadata;
use layout::feature::Compatible;
use layout::inode::EXTRA_SIZE;
use zerocopy::FromBytes;
use zerocopy::little_endian::U16;

use super::Slot;
use crate::attributes;
use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::ROOT;
use crate::state::State;

/// Offset of the first attribute of a block in bytes.
const HEADER_SIZE: usize = size_of::<BlockHeader>();

/// Checks the size of the extra part and the attributes after it.
pub(super) fn check(state: &mut State<'_>, slot: &Slot<'_>) {
    let Ok((size, _)) = U16::ref_from_prefix(slot.rest) else {
        return;
    };
    let size = usize::from(size.get());
    if size == 0 {
        return;
    }
    let place = || Location::inode(slot.number);
    if size < 4 || size > slot.rest.len() || !size.is_multiple_of(4) {
        let kind = ProblemKind::ExtraSizeInvalid;
        let expected = EXTRA_SIZE as u64;
        state
            .report
            .add_differing(kind, place(), size as u64, expected);
        return;
    }
    let rest = &slot.rest[size..];
    let Some((head, entries)) = rest.split_at_checked(4) else {
        return;
    };
    if head == attribute::MAGIC.to_le_bytes() && !attributes::are_good(entries, 0) {
        state.problem(ProblemKind::InodeAttributesInvalid, place());
    }
}

/// Checks the attribute block. Returns the number of blocks that it adds to the inode's.
pub(super) fn check_block(state: &mut State<'_>, slot: &Slot<'_>) -> Result<u64, Error> {
    let block = slot.raw.attribute_block(state.is_64bit());
    if block == 0 {
        return Ok(0);
    }
    let place = || Location::inode(slot.number).at_block(block);
    let has_attributes = state.features.compatible.contains(Compatible::EXT_ATTR);
    if !has_attributes || !state.geometry.contains(block) {
        // As in e2fsck, which leaves reserved inodes unchanged.
        if slot.number < state.geometry.first_inode && slot.number != ROOT {
            return Ok(0);
        }
        state.problem(ProblemKind::AttributeBlockOutOfRange, place());
        return Ok(0);
    }
    if let Some((references, _)) = state.attribute_blocks.get_mut(&block) {
        *references += 1;
        return Ok(1);
    }
    let bytes = state.block(block)?;
    let header = BlockHeader::read_from_prefix(&bytes)
        .map_or_else(|_| BlockHeader::default(), |(header, _)| header);
    if header.magic.get() != attribute::MAGIC || header.block_count.get() != 1 {
        state.problem(ProblemKind::AttributeBlockInvalid, place());
    } else if !attributes::are_good(&bytes[HEADER_SIZE..], HEADER_SIZE) {
        state.problem(ProblemKind::AttributesInvalid, place());
    }
    if let Some(seed) = state.checksum_seed
        && header.magic.get() == attribute::MAGIC
        && header.checksum.get() != metadata::attribute_block(seed, block, &bytes)
    {
        state.problem(ProblemKind::AttributeBlockChecksum, place());
    }
    if state.is_metadata(block) {
        state.problem(ProblemKind::BlockInMetadata, place());
    }
    state.claim(block);
    let is_good = header.magic.get() == attribute::MAGIC;
    let said = is_good.then(|| header.reference_count.get());
    state.attribute_blocks.insert(block, (1, said));
    Ok(1)
}
