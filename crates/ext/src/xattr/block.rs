//! Attribute blocks, which inodes with equal attributes share.
//!
//! # Rules
//!
//! - The contents of a block change only while its reference count is 1, under that inode's lock. A
//!   shared block never changes except for its count: an inode that gets other attributes gets
//!   another block.
//! - Counts change, and blocks are found by their contents, under the lock of [`SharedBlocks`],
//!   within a transaction.
//! - [`SharedBlocks`] contains only blocks that may get one more reference. It forgets a block
//!   before the block is freed or its contents change.
//! - A block with values in inodes of their own gets no more references, so that its count only
//!   falls: [`super::change`] relies on it. Those that Linux shares are counted like others.
//! - A block counts as one reference to each such inode. A new block has counted them before the
//!   old one is released.

use std::sync::Arc;

use jbd2::Buffer;
use layout::attribute::{BLOCK_HEADER_SIZE, BlockHeader, MAGIC, REFCOUNT_MAX};
use layout::{Block, BlockNr, InodeNr};
use zerocopy::{FromBytes, IntoBytes};

use super::set::AttributeSet;
use super::values;
use crate::cache::attribute_blocks::SharedBlocks;
use crate::cache::buffers::{DamagedBlock, Refused};
use crate::core::Core;
use crate::core::handle::Handle;
use crate::disk::inode::InodeState;
use crate::disk::metadata::{Kind, Label};
use crate::disk::run::Run;
use crate::error::{Corrupt, Error, Result};

/// The label of every attribute block.
const LABEL: Label = Kind::Attributes.of_volume();

/// Reads the attributes of an inode's block.
///
/// # Errors
/// - [`Corrupt::Attributes`] describes the damage.
pub(super) fn read(core: &Core, nr: InodeNr, block: BlockNr) -> Result<AttributeSet> {
    let held = core.buffers.hold(block, LABEL);
    let buffer = held.map_err(|refused| refused_attributes(core, nr, refused))?;
    let image = buffer.image();
    let decoded = decode(core, &image);
    let set = decoded.map_err(|why| core.damaged(Corrupt::Attributes { inode: nr, why }))?;
    let header = header(&image);
    drop(image);
    let is_noted = core.attribute_blocks.read().is_noted(block, found_by(&set));
    if !is_noted && header.reference_count.get() < REFCOUNT_MAX {
        note(&mut core.attribute_blocks.write(), block, &set);
    }
    Ok(set)
}

fn decode(core: &Core, image: &[u8]) -> Result<AttributeSet, &'static str> {
    AttributeSet::decode(image, BLOCK_HEADER_SIZE, core.superblock.has_ea_inode())
}

/// Notes a block that may get one more reference.
fn note(shared: &mut SharedBlocks, block: BlockNr, set: &AttributeSet) {
    shared.note(block, found_by(set));
}

/// Returns the hash by which a block with these attributes is found; 0 if it is not to be found.
fn found_by(set: &AttributeSet) -> u32 {
    match set.references().next() {
        Some(_) => 0,
        None => set.hash(),
    }
}

/// Returns the reference count of an inode's block.
pub(super) fn count(core: &Core, nr: InodeNr, block: BlockNr) -> Result<u32> {
    let held = core.buffers.hold(block, LABEL);
    let buffer = held.map_err(|refused| refused_attributes(core, nr, refused))?;
    let count = header(&buffer.read()).reference_count.get();
    Ok(count)
}

/// A change of the references to values: those that were counted at once, and those to drop after
/// everything else.
pub(super) trait Counts {
    /// Counts one more reference of each inode.
    fn raise(&mut self, core: &Core, handle: &mut Handle<'_>, inodes: &[InodeNr]) -> Result<()>;

    /// Notes references that are dropped later in the handle.
    fn drop_later(&mut self, inodes: &mut dyn Iterator<Item = InodeNr>);
}

/// Returns the error of an inode's block that is damaged or cannot be read.
#[track_caller]
fn refused_attributes(core: &Core, nr: InodeNr, refused: Refused) -> Error {
    match refused {
        Refused::Damaged(DamagedBlock { bad, .. }) => {
            let why = bad.why;
            core.damaged(Corrupt::Attributes { inode: nr, why })
        }
        Refused::Failed(error) => core.noted(error),
    }
}

fn header(bytes: &[u8]) -> BlockHeader {
    let (header, _) = BlockHeader::read_from_prefix(bytes).expect("a block holds the header");
    header
}

/// Reads the blocks that a change to an inode's attributes needs. The caller holds the result until
/// then. A damaged block of other inodes is not among them: it is not shared.
pub(super) fn hold(
    core: &Core,
    nr: InodeNr,
    old: BlockNr,
    set: &AttributeSet,
) -> Result<Vec<Arc<Buffer>>> {
    let mut held = Vec::new();
    if old != BlockNr::new(0) {
        let buffer = core.buffers.hold(old, LABEL);
        held.push(buffer.map_err(|refused| refused_attributes(core, nr, refused))?);
        held.push(core.hold_block_bitmap(old)?);
    }
    let has_values = set.references().next().is_some();
    let likely = match has_values {
        true => Vec::new(),
        false => core.attribute_blocks.read().likely(set.hash()),
    };
    for block in likely {
        match core.buffers.hold(block, LABEL) {
            Ok(buffer) => held.push(buffer),
            Err(Refused::Damaged(_)) => {}
            Err(Refused::Failed(error)) => return Err(error),
        }
    }
    Ok(held)
}

/// Changes the attributes in an inode's block; the caller stores the inode afterwards, and holds
/// the result of [`hold`].
///
/// # Errors
/// - [`crate::Error::NoSpace`] if no block is left: nothing has changed then.
pub(super) fn change(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    state: &mut InodeState,
    (set, counts): (&AttributeSet, &mut dyn Counts),
) -> Result<()> {
    if set.is_empty() {
        return release_counted(core, handle, nr, state, counts);
    }
    let old = state.attribute_block;
    let found = match share(core, handle, old, set)? {
        Some(block) => block,
        None if rewrite(core, handle, nr, old, (set, &mut *counts))? => old,
        None => {
            let block = make(core, handle, nr, set)?;
            counts.raise(core, handle, &values::numbers(set).collect::<Vec<_>>())?;
            block
        }
    };
    if found != old {
        release_counted(core, handle, nr, state, counts)?;
        let claims = state.claims(handle);
        claims.attribute_block = found;
        claims.sectors += core.sectors_per_cluster();
    }
    Ok(())
}

/// Finds a block with these attributes that accepts one more reference, and counts it; the inode's
/// own block needs no counting.
fn share(
    core: &Core,
    handle: &mut Handle<'_>,
    old: BlockNr,
    set: &AttributeSet,
) -> Result<Option<BlockNr>> {
    if set.references().next().is_some() {
        return Ok(None);
    }
    let mut shared = core.attribute_blocks.write();
    for block in shared.likely(set.hash()) {
        let Some(buffer) = core.buffers.peek(block) else {
            continue;
        };
        // The buffer is read once only: a thread that holds its read lock must not take it again,
        // because a commit may wait for the write lock in between.
        let image = buffer.image();
        let count = match decode(core, &image) {
            Ok(found) if found == *set => header(&image).reference_count.get(),
            _ => continue,
        };
        if block != old {
            if !rt::mutant!("attributes/user-not-counted") {
                set_count(handle, &buffer, count + 1)?;
            }
            if count + 1 == REFCOUNT_MAX {
                shared.forget(block);
            }
        }
        return Ok(Some(block));
    }
    Ok(None)
}

/// Overwrites a block that no other inode has; returns true if that was possible.
fn rewrite(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    old: BlockNr,
    (set, counts): (&AttributeSet, &mut dyn Counts),
) -> Result<bool> {
    if old == BlockNr::new(0) {
        return Ok(false);
    }
    let buffer = core.buffers.get(old, LABEL);
    let buffer = buffer.map_err(|refused| refused_attributes(core, nr, refused))?;
    let mut shared = core.attribute_blocks.write();
    let before = buffer.image();
    let is_shared = header(&before).reference_count.get() != 1;
    if is_shared && !rt::mutant!("attributes/shared-block-rewritten") {
        return Ok(false);
    }
    let gone = references_of(core, &before);
    drop(before);
    handle.replace(&buffer, image(core, set))?;
    note(&mut shared, old, set);
    drop(shared);
    counts.raise(core, handle, &values::more(set, &gone))?;
    counts.drop_later(&mut values::more(&gone, set).into_iter());
    Ok(true)
}

/// Returns the attributes of a block that was read before; none on a volume without values in
/// inodes of their own.
fn references_of(core: &Core, image: &[u8]) -> AttributeSet {
    if core.superblock.has_ea_inode() {
        decode(core, image).unwrap_or_default()
    } else {
        AttributeSet::default()
    }
}

/// Allocates a new block for the attributes.
fn make(core: &Core, handle: &mut Handle<'_>, nr: InodeNr, set: &AttributeSet) -> Result<BlockNr> {
    let request = crate::alloc::BlockRequest {
        owner: nr,
        goal: core.block_goal(nr, false),
        count_max: 1,
        window: None,
        place: None,
        is_narrow: false,
    };
    let block = core.allocate_blocks(handle, &request)?.first;
    let buffer = core.buffers.get_new(block, LABEL);
    handle.replace(&buffer, image(core, set))?;
    note(&mut core.attribute_blocks.write(), block, set);
    Ok(block)
}

/// Returns the bytes of a block with one reference.
fn image(core: &Core, set: &AttributeSet) -> Arc<Block> {
    let mut block = Block::zeroed(core.block_bytes());
    let mut header = BlockHeader::default();
    header.magic.set(MAGIC);
    header.reference_count.set(1);
    header.block_count.set(1);
    header.hash.set(set.hash());
    block[..BLOCK_HEADER_SIZE].copy_from_slice(header.as_bytes());
    set.encode(&mut block, BLOCK_HEADER_SIZE, true);
    block.into_arc()
}

fn set_count(handle: &mut Handle<'_>, buffer: &Arc<Buffer>, count: u32) -> Result<()> {
    let mut bytes = handle.write(buffer)?;
    let (header, _) = BlockHeader::mut_from_prefix(&mut bytes).expect("a block holds the header");
    header.reference_count.set(count);
    Ok(())
}

/// Releases an inode's block, which has no values in inodes of their own: decrements its reference
/// count, or frees it. The caller stores the inode afterwards, and holds the block and its bitmap.
pub(crate) fn release(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    state: &mut InodeState,
) -> Result<()> {
    release_counted(core, handle, nr, state, &mut Uncounted)
}

/// References to values that are not counted.
struct Uncounted;

impl Counts for Uncounted {
    fn raise(&mut self, _: &Core, _: &mut Handle<'_>, _: &[InodeNr]) -> Result<()> {
        Ok(())
    }

    fn drop_later(&mut self, _: &mut dyn Iterator<Item = InodeNr>) {}
}

/// Decrements the reference count of an inode's block if other inodes have it, too. Returns false,
/// and changes nothing, if none has. The caller stores the inode afterwards.
pub(super) fn release_shared(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    state: &mut InodeState,
) -> Result<bool> {
    let buffer = core.buffers.get(state.attribute_block, LABEL);
    let buffer = buffer.map_err(|refused| refused_attributes(core, nr, refused))?;
    let shared = core.attribute_blocks.write();
    let count = header(&buffer.read()).reference_count.get();
    if count <= 1 {
        return Ok(false);
    }
    set_count(handle, &buffer, count - 1)?;
    drop(shared);
    let claims = state.claims(handle);
    claims.sectors = claims.sectors.saturating_sub(core.sectors_per_cluster());
    claims.attribute_block = BlockNr::new(0);
    Ok(true)
}

/// Releases an inode's block, and with a block that is freed its references to values.
pub(super) fn release_counted(
    core: &Core,
    handle: &mut Handle<'_>,
    nr: InodeNr,
    state: &mut InodeState,
    counts: &mut dyn Counts,
) -> Result<()> {
    let block = state.attribute_block;
    if block == BlockNr::new(0) {
        return Ok(());
    }
    let buffer = core.buffers.get(block, LABEL);
    let buffer = buffer.map_err(|refused| {
        refused.into_error(|_| {
            core.damaged(Corrupt::Inode {
                inode: nr,
                field: "i_file_acl",
                value: block.get(),
            })
        })
    })?;
    let mut shared = core.attribute_blocks.write();
    let before = buffer.image();
    let header = header(&before);
    let gone = references_of(core, &before);
    drop(before);
    let count = header.reference_count.get();
    if count > 1 {
        set_count(handle, &buffer, count - 1)?;
        if count == REFCOUNT_MAX && gone.references().next().is_none() {
            shared.note(block, header.hash.get());
        }
    } else {
        counts.drop_later(&mut values::numbers(&gone));
        shared.forget(block);
        drop(buffer);
        let run = Run {
            first: block,
            count: 1,
        };
        core.free_buffered(handle, run)?;
    }
    let claims = state.claims(handle);
    claims.sectors = claims.sectors.saturating_sub(core.sectors_per_cluster());
    claims.attribute_block = BlockNr::new(0);
    Ok(())
}

/// Reads the blocks that releasing an inode's block needs. The caller holds the result until then.
/// A damaged block is not among them: it is not released.
pub(crate) fn hold_for_release(core: &Core, block: BlockNr) -> Result<Vec<Arc<Buffer>>> {
    if block == BlockNr::new(0) {
        return Ok(Vec::new());
    }
    let mut held = Vec::new();
    match core.buffers.get(block, LABEL) {
        Ok(buffer) => held.push(buffer),
        Err(Refused::Damaged(_)) => {}
        Err(Refused::Failed(error)) => return Err(error),
    }
    held.push(core.hold_block_bitmap(block)?);
    Ok(held)
}
