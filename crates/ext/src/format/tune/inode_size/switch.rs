//! The blocks of the transaction that moves a volume to its new inode tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jbd2::recovery::Changes as Blocks;
use layout::{Block, BlockNr, GroupNr};
use rt::atomic::Ordering;

use super::Move;
use super::places::{Map, bitmap_place};
use crate::core::Core;
use crate::disk::group::{BitmapSums, GroupDescriptor, set_inode_table};
use crate::disk::superblock::Superblock;
use crate::disk::tables::descriptor_blocks;
use crate::error::Result;
use crate::format::mkfs::superblock_block;

/// Bitmaps that change, by group.
type Bitmaps = BTreeMap<GroupNr, Map>;

/// Returns the superblock with the counts that follow from the places of the tables.
pub(super) fn superblock(
    core: &Core,
    mut after: Superblock,
    bitmaps: &Bitmaps,
) -> Result<Superblock> {
    let geometry = core.geometry();
    let free = geometry.groups().map(|nr| match bitmaps.get(&nr) {
        Some(map) => u64::from(map.free),
        None => u64::from(free_blocks(core, nr)),
    });
    let free = free.sum();
    let before = u64::from(geometry.inode_table_blocks());
    let more = u64::from(after.geometry.inode_table_blocks()) - before;
    let more = more * u64::from(geometry.group_count);
    let raw = &mut after.raw;
    raw.set_free_blocks_count(free);
    // Zero is for a count that is not known.
    let overhead = u64::from(raw.overhead_clusters.get());
    if overhead > 0 {
        let overhead = u32::try_from(overhead + more).unwrap_or(0);
        raw.overhead_clusters.set(overhead);
    }
    after.note_write(rt::wall().seconds);
    Ok(after)
}

fn free_blocks(core: &Core, nr: GroupNr) -> u32 {
    let group = core.space.group(nr);
    group.free_clusters.load(Ordering::Relaxed)
}

/// Returns the superblock's block, with the mark that the journal has to be replayed.
pub(super) fn head(core: &Core, after: &Superblock) -> Result<(BlockNr, Arc<Block>)> {
    let geometry = core.geometry();
    let (place, offset) = geometry.superblock_place();
    let start = geometry.byte_offset(place);
    let mut image = core.device.read_block(start, geometry.block_bytes)?;
    let mut marked = after.clone();
    marked.set_needs_recovery(true);
    let encoded = marked.encode();
    let block: &mut Block = Arc::make_mut(&mut image);
    block[offset..offset + encoded.len()].copy_from_slice(&encoded);
    Ok((place, image))
}

/// Returns the bitmaps and the descriptors.
pub(super) fn blocks(core: &Core, tables: &[Move], bitmaps: &Bitmaps) -> Result<Blocks> {
    let geometry = core.geometry();
    let mut blocks: Blocks = Vec::new();
    for (nr, map) in bitmaps {
        blocks.push((bitmap_place(core, *nr), map.image()));
    }
    let mut descriptors = descriptor_blocks(&*core.device, geometry)?;
    for table in tables {
        let (index, offset) = geometry.descriptor_place(table.group);
        let end = offset + usize::from(geometry.descriptor_bytes);
        let block: &mut Block = Arc::make_mut(&mut descriptors[index as usize]);
        let map = bitmaps.get(&table.group);
        change_descriptor(core, table, map, &mut block[offset..end]);
    }
    for (index, image) in (0..).zip(descriptors) {
        blocks.push((geometry.descriptor_block(index), image));
    }
    blocks.sort_by_key(|(block, _)| *block);
    Ok(blocks)
}

fn change_descriptor(core: &Core, table: &Move, map: Option<&Map>, bytes: &mut [u8]) {
    let (checksums, geometry) = (core.superblock.checksums, core.geometry());
    let mut raw = GroupDescriptor::decode(bytes);
    set_inode_table(bytes, table.to.first);
    if let Some(map) = map {
        raw.counts.free_clusters = map.free;
        raw.counts.store(bytes);
        let sums = BitmapSums {
            blocks: checksums.of_bitmap(&map.bytes, geometry.clusters_per_group()),
            inodes: None,
        };
        sums.store(bytes);
    }
    if checksums.has_group_flags() {
        // All of the table was written.
        raw.uninit.table = false;
        raw.uninit.block_bitmap &= map.is_none();
        raw.uninit.store(bytes);
    }
    checksums.seal_descriptor(table.group, bytes);
}

/// Returns the copies of superblock and descriptors, of which the transaction has the originals.
pub(super) fn copies(after: &Superblock, logged: &Blocks) -> Blocks {
    let geometry = &after.geometry;
    let images: BTreeMap<BlockNr, &Arc<Block>> = logged
        .iter()
        .map(|(block, image)| (*block, image))
        .collect();
    let mut seen: BTreeSet<BlockNr> = images.keys().copied().collect();
    let mut copies = Vec::new();
    for group in geometry.groups() {
        let has_super = geometry.has_super(group);
        let first = geometry.first_block_of(group) + u64::from(geometry.boot_blocks(group));
        if has_super && group.get() > 0 && seen.insert(first) {
            copies.push((first, superblock_block(geometry, &after.raw, group)));
        }
        let first = first + u64::from(has_super);
        for (nth, index) in (0..).zip(geometry.descriptor_blocks_in(group)) {
            let place = first + nth;
            if seen.insert(place) {
                let original = geometry.descriptor_block(index);
                let image = images.get(&original).expect("it has all descriptors");
                copies.push((place, Arc::clone(image)));
            }
        }
    }
    copies
}
