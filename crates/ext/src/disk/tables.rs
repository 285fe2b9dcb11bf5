//! The inode tables on a device, for code that reads all inodes of a volume that is not open.

use core::ops::ControlFlow;
use std::sync::Arc;

use block::BlockDevice;
use layout::group::{GroupDescriptor64, GroupFlags};
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
    /// True if the block bitmap was never written: then the group has only its metadata.
    pub(crate) lacks_block_bitmap: bool,
    /// Number of inodes from the start of the table among which those in use are.
    pub(crate) inodes: u32,
}

/// A volume's inode tables.
pub(crate) struct Tables<'d> {
    device: &'d Arc<dyn BlockDevice>,
    pub(crate) geometry: &'d Geometry,
    pub(crate) groups: Vec<GroupPlaces>,
    /// True if block numbers have 64 bits.
    pub(crate) is_64bit: bool,
    /// True if sectors of an inode may be those of values of its attributes.
    pub(crate) has_ea_inode: bool,
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
    /// - [`Corrupt::Group`] for a bitmap or table that is not within the volume, and
    ///   [`Corrupt::Checksum`].
    pub(crate) fn open(
        device: &'d Arc<dyn BlockDevice>,
        superblock: &'d Superblock,
    ) -> Result<Self> {
        let geometry = &superblock.geometry;
        let blocks = descriptor_blocks(&**device, geometry)?;
        let groups = geometry.groups().map(|group| {
            let (index, offset) = geometry.descriptor_place(group);
            let bytes =
                &blocks[index as usize][offset..offset + usize::from(geometry.descriptor_bytes)];
            superblock.checksums.check_descriptor(group, bytes)?;
            places(superblock, group, bytes)
        });
        Ok(Self {
            device,
            geometry,
            groups: groups.collect::<Result<_>>()?,
            is_64bit: superblock.is_64bit(),
            has_ea_inode: superblock.has_ea_inode(),
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
        if places.inodes == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let bitmap = self.block(places.inode_bitmap)?;
        let first_inode = places.group.get() * geometry.inodes_per_group + 1;
        let (size, table) = (
            usize::from(geometry.inode_bytes),
            geometry.inode_table_blocks(),
        );
        let end = places.inodes.min(geometry.inodes_per_group);
        let per_block = geometry.block_bytes / u32::from(geometry.inode_bytes);
        let mut next = 0;
        while next < table {
            let count = BATCH_BLOCKS.min(table - next);
            let indices = next * per_block..((next + count) * per_block).min(end);
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

/// Reads the blocks of the descriptors. Those that follow the superblock are read at once.
pub(crate) fn descriptor_blocks(
    device: &dyn BlockDevice,
    geometry: &Geometry,
) -> Result<Vec<Arc<layout::Block>>> {
    let joint = geometry.descriptor_blocks_in(GroupNr::new(0)).end;
    let mut blocks = match joint {
        0 => Vec::new(),
        _ => {
            let first = geometry.byte_offset(geometry.descriptor_block(0));
            device.read_blocks(first, joint, geometry.block_bytes)?
        }
    };
    for index in joint..geometry.descriptor_blocks() {
        let offset = geometry.byte_offset(geometry.descriptor_block(index));
        blocks.push(device.read_block(offset, geometry.block_bytes)?);
    }
    Ok(blocks)
}

fn places(superblock: &Superblock, group: GroupNr, bytes: &[u8]) -> Result<GroupPlaces> {
    let geometry = &superblock.geometry;
    let raw = GroupDescriptor::decode(bytes);
    let per_group = geometry.inodes_per_group;
    let (lacks_block_bitmap, inodes) = match superblock.checksums.has_group_flags() {
        false => (false, per_group),
        true => lazy(bytes, per_group),
    };
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
        lacks_block_bitmap,
        inodes,
    })
}

/// Returns what a descriptor's flags leave uninitialised: true if the block bitmap is, and the
/// number of inodes from the start of the table that are not.
fn lazy(descriptor: &[u8], inodes_per_group: u32) -> (bool, u32) {
    let raw = GroupDescriptor64::read(descriptor);
    let flags = raw.flags();
    let inodes = match flags.contains(GroupFlags::INODE_UNINIT) {
        true => 0,
        false => inodes_per_group.saturating_sub(raw.unused_inodes_count()),
    };
    (flags.contains(GroupFlags::BLOCK_UNINIT), inodes)
}
