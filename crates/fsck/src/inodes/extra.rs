//! The parts of an inode beyond its base: the extra part, attributes within the inode, and the
//! attribute block.

use layout::attribute::{self, BlockHeader};
use layout::checksum::metadata;
use layout::encryption;
use layout::feature::Compatible;
use layout::inode::EXTRA_SIZE;
use zerocopy::FromBytes;
use zerocopy::little_endian::U16;

use super::Slot;
use super::values::{self, Area};
use crate::attributes;
use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::ROOT;
use crate::state::{AttributeBlock, State};

/// Offset of the first attribute of a block in bytes.
const HEADER_SIZE: usize = size_of::<BlockHeader>();

/// Checks the size of the extra part and the attributes after it. Returns the number of blocks that
/// the inode counts for their values.
pub(super) fn check(state: &mut State<'_>, slot: &Slot<'_>) -> Result<u64, Error> {
    let Ok((size, _)) = U16::ref_from_prefix(slot.rest) else {
        return Ok(0);
    };
    let size = usize::from(size.get());
    if size == 0 {
        return Ok(0);
    }
    let place = || Location::inode(slot.number);
    if size < 4 || size > slot.rest.len() || !size.is_multiple_of(4) {
        let kind = ProblemKind::ExtraSizeInvalid;
        let expected = EXTRA_SIZE as u64;
        state
            .report
            .add_differing(kind, place(), size as u64, expected);
        return Ok(0);
    }
    let rest = &slot.rest[size..];
    let Some((head, entries)) = rest.split_at_checked(4) else {
        return Ok(0);
    };
    if head != attribute::MAGIC.to_le_bytes() {
        return Ok(0);
    }
    match attributes::read(entries, 0, state.has_ea_inode()) {
        Some(named) => values::check(state, slot, (Area::Inode, &named)),
        None => {
            state.problem(ProblemKind::InodeAttributesInvalid, place());
            Ok(0)
        }
    }
}

/// Returns the value of the attribute with contents of the inode, if the attributes are valid.
pub(super) fn contents<'s>(state: &State<'_>, slot: &Slot<'s>) -> Option<&'s [u8]> {
    value_within(state, slot, (attribute::index::SYSTEM, b"data"))
}

/// Returns the value of an attribute within the inode, if the attributes are valid.
fn value_within<'s>(
    state: &State<'_>,
    slot: &Slot<'s>,
    (index, name): (u8, &[u8]),
) -> Option<&'s [u8]> {
    let (size, _) = U16::ref_from_prefix(slot.rest).ok()?;
    let size = usize::from(size.get());
    if size < 4 {
        return None;
    }
    let (head, entries) = slot.rest.get(size..)?.split_at_checked(4)?;
    if head != attribute::MAGIC.to_le_bytes() {
        return None;
    }
    attributes::read(entries, 0, state.has_ea_inode())?;
    attributes::value_of((entries, 0), index, name)
}

/// Returns the context of an encrypted inode: the value of an attribute within the inode or in its
/// block.
pub(super) fn context(state: &mut State<'_>, slot: &Slot<'_>) -> Result<Option<Vec<u8>>, Error> {
    let name = (attribute::index::ENCRYPTION, encryption::ATTRIBUTE_SUFFIX);
    if let Some(value) = value_within(state, slot, name) {
        return Ok(Some(value.to_vec()));
    }
    let block = slot.raw.attribute_block(state.is_64bit());
    if block == 0 || !state.geometry.contains(block) {
        return Ok(None);
    }
    let bytes = state.block(block)?;
    let header = BlockHeader::read_from_prefix(&bytes).ok();
    if header.is_none_or(|(header, _)| header.magic.get() != attribute::MAGIC) {
        return Ok(None);
    }
    let entries = &bytes[HEADER_SIZE..];
    if attributes::read(entries, HEADER_SIZE, state.has_ea_inode()).is_none() {
        return Ok(None);
    }
    let value = attributes::value_of((entries, HEADER_SIZE), name.0, name.1);
    Ok(value.map(<[u8]>::to_vec))
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
    if let Some(known) = state.attribute_blocks.get_mut(&block) {
        known.references += 1;
        return Ok(known.blocks);
    }
    let bytes = state.block(block)?;
    let header = BlockHeader::read_from_prefix(&bytes)
        .map_or_else(|_| BlockHeader::default(), |(header, _)| header);
    let mut blocks = 1;
    if header.magic.get() != attribute::MAGIC || header.block_count.get() != 1 {
        state.problem(ProblemKind::AttributeBlockInvalid, place());
    } else {
        let entries = &bytes[HEADER_SIZE..];
        match attributes::read(entries, HEADER_SIZE, state.has_ea_inode()) {
            Some(named) => blocks += values::check(state, slot, (Area::Block, &named))?,
            None => state.problem(ProblemKind::AttributesInvalid, place()),
        }
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
    let known = AttributeBlock {
        references: 1,
        said,
        blocks,
    };
    state.attribute_blocks.insert(block, known);
    Ok(blocks)
}
