//! The parts of an inode beyond its base: the extra part, attributes within the inode, and the
//! attribute block.

use layout::attribute::{self, BlockHeader};
use layout::checksum::metadata;
use layout::encryption;
use layout::feature::Compatible;
use layout::inode::{EXTRA_SIZE, InodeExtra};
use zerocopy::FromBytes;
use zerocopy::little_endian::U16;

use super::Slot;
use super::values::{self, Area};
use crate::attributes;
use crate::error::Error;
use crate::kind::ProblemKind;
use crate::problem::Location;
use crate::reserved_inodes::ROOT;
use crate::state::{AttributeBlock, Counted, State};

/// Offset of the first attribute of a block in bytes.
const HEADER_SIZE: usize = size_of::<BlockHeader>();
/// Size of the magic number before the attributes within an inode.
const MAGIC_BYTES: usize = 4;
/// Bits of the epoch in the extra part of a time.
const EPOCH_MASK: u32 = 3;

/// Checks the size of the extra part and the attributes after it. Returns what the inode counts for
/// their values.
pub(super) fn check(state: &mut State<'_>, slot: &Slot<'_>) -> Result<Counted, Error> {
    let Ok((size, _)) = U16::ref_from_prefix(slot.rest) else {
        return Ok(Counted::default());
    };
    let size = usize::from(size.get());
    let place = || Location::inode(slot.number);
    let is_possible = size >= 4 && size <= slot.rest.len() && size.is_multiple_of(4);
    if size != 0 && !is_possible {
        let kind = ProblemKind::ExtraSizeInvalid;
        let expected = EXTRA_SIZE as u64;
        state
            .report
            .add_differing(kind, place(), size as u64, expected);
        return Ok(Counted::default());
    }
    // As in e2fsck, which looks at no times if there is no room for attributes.
    if slot.rest.len() > size + MAGIC_BYTES && has_misencoded_time(slot) {
        state.problem(ProblemKind::TimesBefore1970, place());
    }
    let Some(entries) = entries_within(slot) else {
        return Ok(Counted::default());
    };
    match attributes::read(entries, 0, state.has_ea_inode()) {
        Some(named) => values::check(state, slot, (Area::Inode, &named)),
        None => {
            state.problem(ProblemKind::InodeAttributesInvalid, place());
            Ok(Counted::default())
        }
    }
}

/// True if a time before 1970 is encoded as Linux did before 3.14: in the last epoch.
fn has_misencoded_time(slot: &Slot<'_>) -> bool {
    let Ok((extra, _)) = InodeExtra::ref_from_prefix(slot.rest) else {
        return false;
    };
    let times = [
        (slot.raw.access_time, extra.access_time_extra),
        (slot.raw.change_time, extra.change_time_extra),
        (slot.raw.modification_time, extra.modification_time_extra),
        (extra.creation_time, extra.creation_time_extra),
    ];
    let mut times = times.iter();
    times.any(|(time, extra)| time.get() >> 31 == 1 && extra.get() & EPOCH_MASK == EPOCH_MASK)
}

/// Returns the value of the attribute with contents of the inode, if the attributes are valid. As
/// in e2fsck, which looks for it in another way than it checks attributes, the places of empty
/// values count.
pub(super) fn contents<'s>(state: &State<'_>, slot: &Slot<'s>) -> Option<&'s [u8]> {
    let entries = entries_within(slot)?;
    let value = value_within(state, slot, (attribute::index::SYSTEM, b"data"))?;
    attributes::are_values_within(entries).then_some(value)
}

/// Returns the value of an attribute within the inode, if the attributes are valid.
fn value_within<'s>(
    state: &State<'_>,
    slot: &Slot<'s>,
    (index, name): (u8, &[u8]),
) -> Option<&'s [u8]> {
    let entries = entries_within(slot)?;
    attributes::read(entries, 0, state.has_ea_inode())?;
    attributes::value_of((entries, 0), index, name)
}

/// Returns the area of attributes within the inode from the first entry on, if there is one.
fn entries_within<'s>(slot: &Slot<'s>) -> Option<&'s [u8]> {
    let (size, _) = U16::ref_from_prefix(slot.rest).ok()?;
    let size = usize::from(size.get());
    if size < 4 {
        return None;
    }
    let (head, entries) = slot.rest.get(size..)?.split_at_checked(4)?;
    (head == attribute::MAGIC.to_le_bytes()).then_some(entries)
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

/// Checks the attribute block. Returns what the inode counts for it and its values.
pub(super) fn check_block(state: &mut State<'_>, slot: &Slot<'_>) -> Result<Counted, Error> {
    let block = slot.raw.attribute_block(state.is_64bit());
    if block == 0 {
        return Ok(Counted::default());
    }
    let place = || Location::inode(slot.number).at_block(block);
    let has_attributes = state.features.compatible.contains(Compatible::EXT_ATTR);
    if !has_attributes || !state.geometry.contains(block) {
        // As in e2fsck, which leaves reserved inodes unchanged.
        if slot.number < state.geometry.first_inode && slot.number != ROOT {
            return Ok(Counted::default());
        }
        state.problem(ProblemKind::AttributeBlockOutOfRange, place());
        return Ok(Counted::default());
    }
    if let Some(known) = state.attribute_blocks.get_mut(&block) {
        known.references += 1;
        return Ok(known.counted);
    }
    let bytes = state.block(block)?;
    let header = BlockHeader::read_from_prefix(&bytes)
        .map_or_else(|_| BlockHeader::default(), |(header, _)| header);
    let mut counted = Counted {
        clusters: 1,
        values: 0,
    };
    if header.magic.get() != attribute::MAGIC || header.block_count.get() != 1 {
        state.problem(ProblemKind::AttributeBlockInvalid, place());
    } else {
        let entries = &bytes[HEADER_SIZE..];
        match attributes::read(entries, HEADER_SIZE, state.has_ea_inode()) {
            Some(named) => {
                counted = counted + values::check(state, slot, (Area::Block, &named))?;
            }
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
        counted,
    };
    state.attribute_blocks.insert(block, known);
    Ok(counted)
}
