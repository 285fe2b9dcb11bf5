//! The inode tables on a device, for code that reads all inodes of a volume that is not open.

use core::ops::ControlFlow;
use std::sync::Arc;

use block::BlockDevice;
use layout::inode::Inode;
use layout::mode::FileType;
use layout::{BlockNr, GroupNr, InodeNr};
use zerocopy::FromBytes;

use crate::disk::geometry::Geometry;
use crate::disk::group::GroupDescriptor;
use crate::disk::superblock::Superblock;
use crate::error::{Corrupt, Result};

/// Number of blocks of a table read at a time.
const BATCH_BLOCKS: u32 = 256;

/// The places of a group's bitmaps and its inode table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupPlaces {
    pub(crate) group: GroupNr,
    pub(crate) block_bitmap: BlockNr,
    pub(crate) inode_bitmap: BlockNr,
    pub(crate) inode_table: BlockNr,
}

/// A volume's inode tables.
pub(crate) struct Tables<'d> {
    device: &'d Arc<dyn BlockDevice>,
    pub(crate) geometry: &'d Geometry,
    pub(crate) groups: Vec<GroupPlaces>,
}

/// An inode that both the bitmap and its mode show as in use.
pub(crate) struct TableInode<'t> {
    pub(crate) nr: InodeNr,
    pub(crate) kind: FileType,
    pub(crate) base: Inode,
    /// All of its bytes.
    pub(crate) bytes: &'t [u8],
    /// Byte offset from the start of the device.
    pub(crate) offset: u64,
}

impl<'d> Tables<'d> {
    /// Reads the group descriptors.
    ///
    /// # Errors
    /// - [`Corrupt::Group`] for a bitmap or table that is not within the volume.
    pub(crate) fn open(
        device: &'d Arc<dyn BlockDevice>,
        superblock: &'d Superblock,
    ) -> Result<Self> {
        let geometry = &superblock.geometry;
        let first = geometry.byte_offset(geometry.first_data_block + 1);
        let blocks =
            device.read_blocks(first, geometry.descriptor_blocks(), geometry.block_bytes)?;
        let per_block = geometry.block_bytes / u32::from(geometry.descriptor_bytes);
        let groups = geometry.groups().map(|group| {
            let (_, offset) = geometry.descriptor_place(group);
            let bytes = &blocks[(group.get() / per_block) as usize]
                [offset..offset + usize::from(geometry.descriptor_bytes)];
            places(geometry, group, bytes)
        });
        Ok(Self {
            device,
            geometry,
            groups: groups.collect::<Result<_>>()?,
        })
    }

    /// Visits all inodes in use, in order, until `visit` breaks.
    pub(crate) fn visit(
        &self,
        visit: &mut dyn FnMut(&TableInode<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        for places in &self.groups {
            if self.visit_group(places, visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn visit_group(
        &self,
        places: &GroupPlaces,
        visit: &mut dyn FnMut(&TableInode<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        let geometry = self.geometry;
        let bitmap = self.block(places.inode_bitmap)?;
        let first_inode = places.group.get() * geometry.inodes_per_group + 1;
        let (size, table) = (
            usize::from(geometry.inode_bytes),
            geometry.inode_table_blocks(),
        );
        let per_block = geometry.block_bytes / u32::from(geometry.inode_bytes);
        let mut next = 0;
        while next < table {
            let count = BATCH_BLOCKS.min(table - next);
            let indices =
                next * per_block..((next + count) * per_block).min(geometry.inodes_per_group);
            let start = geometry.byte_offset(places.inode_table + u64::from(next));
            next += count;
            if !indices.clone().any(|index| is_set(&bitmap, index)) {
                continue;
            }
            let blocks = self
                .device
                .read_blocks(start, count, geometry.block_bytes)?;
            for index in indices.clone().filter(|index| is_set(&bitmap, *index)) {
                let nth = index - indices.start;
                let within = (nth % per_block) as usize * size;
                let bytes = &blocks[(nth / per_block) as usize][within..within + size];
                let (base, _) = Inode::read_from_prefix(bytes).expect("an inode has its base");
                let kind = FileType::from_mode(base.mode.get());
                if kind == FileType::Unknown {
                    continue;
                }
                let block = u64::from(nth / per_block) * u64::from(geometry.block_bytes);
                let inode = TableInode {
                    nr: InodeNr::new(first_inode + index),
                    kind,
                    base,
                    bytes,
                    offset: start + block + within as u64,
                };
                if visit(&inode)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns one block of the volume.
    pub(crate) fn block(&self, block: BlockNr) -> Result<Arc<layout::Block>> {
        let offset = self.geometry.byte_offset(block);
        Ok(self.device.read_block(offset, self.geometry.block_bytes)?)
    }
}

/// Returns true if a bit of a bitmap is set.
pub(crate) fn is_set(bitmap: &[u8], index: u32) -> bool {
    bitmap[index as usize / 8] & (1 << (index % 8)) != 0
}

fn places(geometry: &Geometry, group: GroupNr, bytes: &[u8]) -> Result<GroupPlaces> {
    let raw = GroupDescriptor::decode(bytes);
    let place = |field, block: BlockNr, count: u32| {
        let end = block.get().saturating_add(u64::from(count));
        if geometry.contains(block) && end <= geometry.block_count {
            return Ok(block);
        }
        let value = block.get();
        Err(Corrupt::Group {
            group,
            field,
            value,
        })
    };
    let table = geometry.inode_table_blocks();
    Ok(GroupPlaces {
        group,
        block_bitmap: place("bg_block_bitmap", raw.block_bitmap, 1)?,
        inode_bitmap: place("bg_inode_bitmap", raw.inode_bitmap, 1)?,
        inode_table: place("bg_inode_table", raw.inode_table, table)?,
    })
}
