//! Group descriptors, with the checksums of bitmaps, and what their flags leave uninitialised.

use std::sync::Arc;

use layout::group::GroupFlags;
use layout::{Block, GroupNr};

use super::Conversion;
use super::writer::Writer;
use crate::core::Core;
use crate::disk::checksums::Checksums;
use crate::disk::group::{BitmapSums, GroupDescriptor, Uninit, set_flags};
use crate::disk::superblock::Superblock;
use crate::disk::tables::descriptor_blocks;
use crate::error::Result;

/// Checks the descriptors and the bitmaps: their checksums, and what they say of each other.
/// Inodes behind those that a descriptor counts as used are zeroed, and what is wrong would get a
/// good checksum.
pub(super) fn check(core: &Core) -> Result<()> {
    for group in core.space.groups() {
        if let Some(damage) = &group.damage {
            return Err(damage.clone().into());
        }
        let (blocks, inodes) = (core.block_bitmap(group)?, core.inode_bitmap(group)?);
        let mut maps = group.maps.lock();
        group.blocks(&mut maps, &blocks, core.space.zones())?;
        group.inodes(&mut maps, &inodes)?;
    }
    Ok(())
}

/// Writes the descriptors and all copies of them, after the bitmaps and tables that they declare as
/// initialised.
pub(super) fn convert(
    core: &Core,
    superblock: &Superblock,
    conversion: &Conversion,
    writer: &mut Writer<'_>,
) -> Result<()> {
    let geometry = &superblock.geometry;
    let mut blocks = descriptor_blocks(&*core.device, geometry)?;
    for group in geometry.groups() {
        let (index, offset) = geometry.descriptor_place(group);
        let end = offset + usize::from(geometry.descriptor_bytes);
        let block: &mut Block = Arc::make_mut(&mut blocks[index as usize]);
        convert_group(core, conversion, group, &mut block[offset..end], writer)?;
    }
    // Descriptors declare structures as initialised, which have to be there first.
    writer.flush()?;
    for group in geometry.groups() {
        let before = geometry.boot_blocks(group) + u32::from(geometry.has_super(group));
        let first = geometry.first_block_of(group) + u64::from(before);
        for (nth, index) in (0..).zip(geometry.descriptor_blocks_in(group)) {
            writer.put(first + nth, Arc::clone(&blocks[index as usize]))?;
        }
    }
    Ok(())
}

fn convert_group(
    core: &Core,
    conversion: &Conversion,
    group: GroupNr,
    bytes: &mut [u8],
    writer: &mut Writer<'_>,
) -> Result<()> {
    let mut raw = GroupDescriptor::decode(bytes);
    let Conversion { from, to, .. } = conversion;
    let had_flags = from.has_group_flags();
    if had_flags {
        // After a crash the checksum of the descriptor may be wrong. A checker then reads the whole
        // table, in which inodes of an earlier volume may lie.
        zero_table(core, group, &raw, writer)?;
        raw.uninit.table = false;
        if !to.has_group_flags() {
            make_bitmaps(core, group, &raw, writer)?;
        }
    }
    if !had_flags || !to.has_group_flags() {
        // Nothing is left uninitialised.
        raw.uninit = Uninit::default();
    }
    raw.uninit.store(bytes);
    if !to.has_group_flags() {
        set_flags(bytes, GroupFlags::empty(), 0);
    } else if !had_flags {
        set_flags(bytes, GroupFlags::INODE_ZEROED, 0);
    }
    let sum = |is_uninit: bool, block, bits| -> Result<Option<u32>> {
        if is_uninit || !to.has_tails() {
            return Ok(Some(0));
        }
        Ok(to.of_bitmap(&writer.read(block)?, bits))
    };
    let geometry = core.geometry();
    let sums = BitmapSums {
        blocks: sum(
            raw.uninit.block_bitmap,
            raw.block_bitmap,
            geometry.clusters_per_group(),
        )?,
        inodes: sum(
            raw.uninit.inode_bitmap,
            raw.inode_bitmap,
            geometry.inodes_per_group,
        )?,
    };
    sums.store(bytes);
    if *to != Checksums::None {
        to.seal_descriptor(group, bytes);
    }
    Ok(())
}

/// Writes the bitmaps that a group's flags leave uninitialised.
fn make_bitmaps(
    core: &Core,
    nr: GroupNr,
    raw: &GroupDescriptor,
    writer: &mut Writer<'_>,
) -> Result<()> {
    let (geometry, group) = (core.geometry(), core.space.group(nr));
    let block_bytes = geometry.block_bytes as usize;
    if raw.uninit.block_bitmap {
        let bitmap = group.first_block_bitmap(core.space.zones(), block_bytes);
        writer.put(raw.block_bitmap, bitmap.into_arc())?;
    }
    if raw.uninit.inode_bitmap {
        let bitmap = group.first_inode_bitmap(block_bytes);
        writer.put(raw.inode_bitmap, bitmap.into_arc())?;
    }
    Ok(())
}

/// Zeroes the part of a group's inode table that was never used, unless it is zeroed.
fn zero_table(
    core: &Core,
    nr: GroupNr,
    raw: &GroupDescriptor,
    writer: &mut Writer<'_>,
) -> Result<()> {
    if !raw.uninit.table {
        return Ok(());
    }
    let (geometry, group) = (core.geometry(), core.space.group(nr));
    let per_block = geometry.block_bytes / u32::from(geometry.inode_bytes);
    let used = group.used_inodes();
    let part = used % per_block * u32::from(geometry.inode_bytes);
    let mut first = used / per_block;
    if part > 0 {
        let block = raw.inode_table + u64::from(first);
        let mut image = writer.read(block)?;
        Arc::make_mut(&mut image)[part as usize..].fill(0);
        writer.put(block, image)?;
        first += 1;
    }
    let zeroes = Block::zeroed(geometry.block_bytes as usize).into_arc();
    for nth in first..geometry.inode_table_blocks() {
        writer.put(raw.inode_table + u64::from(nth), Arc::clone(&zeroes))?;
    }
    Ok(())
}
