//! Blocks at places that follow from the superblock and the group descriptors.

use std::collections::BTreeMap;

use layout::{BlockNr, GroupNr, InodeNr};

use super::BlockUse;
use crate::disk::geometry::Geometry;
use crate::disk::multi_mount::Place;
use crate::disk::superblock::Superblock;
use crate::disk::tables::Tables;

/// The fixed places of a volume.
pub(super) struct Fixed<'g> {
    geometry: &'g Geometry,
    bitmaps: BTreeMap<BlockNr, BlockUse>,
    /// The first block of each inode table.
    tables: BTreeMap<BlockNr, GroupNr>,
    /// The block of multiple mount protection.
    multi_mount: Option<BlockNr>,
}

impl<'g> Fixed<'g> {
    pub(super) fn of(tables: &Tables<'g>, superblock: &Superblock) -> Self {
        let bitmaps = tables.groups.iter().flat_map(|places| {
            let group = places.group;
            [
                (places.block_bitmap, BlockUse::BlockBitmap { group }),
                (places.inode_bitmap, BlockUse::InodeBitmap { group }),
            ]
        });
        let first = |places: &crate::disk::tables::GroupPlaces| (places.inode_table, places.group);
        Self {
            geometry: tables.geometry,
            bitmaps: bitmaps.collect(),
            tables: tables.groups.iter().map(first).collect(),
            multi_mount: Place::of(superblock)
                .ok()
                .flatten()
                .map(|place| place.block),
        }
    }

    /// Returns the use of a block, if it lies at a fixed place.
    pub(super) fn find(&self, block: BlockNr) -> Option<BlockUse> {
        if self.multi_mount == Some(block) {
            return Some(BlockUse::MultiMount);
        }
        let bitmap = self.bitmaps.get(&block).copied();
        bitmap
            .or_else(|| self.in_table(block))
            .or_else(|| self.at_start(block))
    }

    fn in_table(&self, block: BlockNr) -> Option<BlockUse> {
        let (start, group) = self.tables.range(..=block).next_back()?;
        let index = u32::try_from(block.get() - start.get()).ok()?;
        if index >= self.geometry.inode_table_blocks() {
            return None;
        }
        let per_block = self.geometry.block_bytes / u32::from(self.geometry.inode_bytes);
        let per_group = self.geometry.inodes_per_group;
        let of = |index: u32| InodeNr::new(group.get() * per_group + index.min(per_group - 1) + 1);
        Some(BlockUse::InodeTable {
            group: *group,
            first: of(index * per_block),
            last: of(index * per_block + per_block - 1),
        })
    }

    /// Returns the use of a superblock or descriptor block at the start of a group. The boot block
    /// has none.
    fn at_start(&self, block: BlockNr) -> Option<BlockUse> {
        let geometry = self.geometry;
        if !geometry.contains(block) {
            return None;
        }
        let (group, index) = geometry.group_of_block(block);
        if index >= geometry.super_blocks(group) {
            return None;
        }
        let index = index.checked_sub(geometry.boot_blocks(group))?;
        let Some(nth) = index.checked_sub(geometry.has_super(group).into()) else {
            return Some(BlockUse::Superblock { group });
        };
        let Some(descriptors) = geometry.descriptor_blocks_in(group).nth(nth as usize) else {
            return Some(BlockUse::DescriptorRoom { group });
        };
        let per_block = geometry.descriptors_per_block();
        let first = descriptors * per_block;
        let last = (first + per_block).min(geometry.group_count) - 1;
        Some(BlockUse::Descriptors {
            first: GroupNr::new(first),
            last: GroupNr::new(last),
            group,
        })
    }
}
