//! Locations and formats of group descriptors in ext2, ext3 and ext4.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use layout::feature::{Compatible, Incompatible, ReadOnlyCompatible};
use layout::group::{self, GroupDescriptor64};
use layout::superblock::{Backups, Superblock};
use zerocopy::{FromZeros, IntoBytes};

/// A range of blocks or inodes, both ends included.
pub(super) type ClosedRange = (u64, u64);

/// A group descriptor of any size.
pub(super) struct Descriptor(pub(super) GroupDescriptor64);

/// Sizes that all groups share.
pub(super) struct Sizes<'s> {
    pub(super) raw: &'s Superblock,
    block_bytes: u32,
    first: u64,
    blocks: u64,
    per_group: u32,
    /// Blocks per cluster: 1 without `bigalloc`.
    pub(super) ratio: u32,
    descriptor_bytes: u32,
    pub(super) group_count: u32,
    pub(super) table_blocks: u64,
}

impl<'s> Sizes<'s> {
    pub(super) fn of(raw: &'s Superblock) -> Result<Self> {
        let block_bytes = raw.block_size().context("the size of blocks is unknown")?;
        let features = raw.features();
        let is_64bit = features.incompatible.contains(Incompatible::IS_64BIT);
        let descriptor_bytes = if is_64bit {
            u32::from(raw.descriptor_size.get())
        } else {
            group::SIZE as u32
        };
        let is_clustered = features
            .read_only_compatible
            .contains(ReadOnlyCompatible::BIGALLOC);
        let shift = raw
            .log_cluster_size
            .get()
            .checked_sub(raw.log_block_size.get());
        let ratio = if is_clustered {
            shift
                .and_then(|shift| 1_u32.checked_shl(shift))
                .unwrap_or(0)
        } else {
            1
        };
        let (first, blocks) = (u64::from(raw.first_data_block.get()), raw.blocks_count());
        let (per_group, inodes) = (raw.blocks_per_group.get(), raw.inodes_per_group.get());
        let bits_max = u64::from(block_bytes) * 8;
        let can_be = (group::SIZE as u32..=block_bytes).contains(&descriptor_bytes)
            && blocks > first
            && per_group > 0
            && ratio > 0
            && u64::from(per_group) <= bits_max * u64::from(ratio)
            && u64::from(inodes) <= bits_max
            && inodes > 0;
        if !can_be {
            bail!("the sizes of groups cannot be");
        }
        let table = u64::from(inodes) * u64::from(raw.inode_size());
        Ok(Self {
            raw,
            block_bytes,
            first,
            blocks,
            per_group,
            ratio,
            descriptor_bytes,
            group_count: u32::try_from((blocks - first).div_ceil(u64::from(per_group)))?,
            table_blocks: table.div_ceil(u64::from(block_bytes)),
        })
    }

    pub(super) fn first_of(&self, group: u32) -> u64 {
        self.first + u64::from(group) * u64::from(self.per_group)
    }

    /// Returns the block of a group's superblock, if the group has one. It is the first block of
    /// the group, except in group 0 of a volume with blocks of 1 KiB and clusters.
    pub(super) fn superblock_in(&self, group: u32) -> Option<u64> {
        let first = self.first_of(group);
        let behind_boot = first == 0 && self.block_bytes == 1024;
        self.has_super(group)
            .then_some(first + u64::from(behind_boot))
    }

    /// Returns the number of blocks in a group.
    pub(super) fn len_of(&self, group: u32) -> u64 {
        u64::from(self.per_group).min(self.blocks - self.first_of(group))
    }

    fn descriptors_per_block(&self) -> u32 {
        self.block_bytes / self.descriptor_bytes
    }

    fn has_super(&self, group: u32) -> bool {
        Backups::of(self.raw, self.raw.features()).has(group)
    }

    /// Returns the number of descriptor blocks after each superblock; the others belong to meta
    /// block groups.
    fn descriptor_blocks(&self) -> u32 {
        let all = self.group_count.div_ceil(self.descriptors_per_block());
        if self
            .raw
            .features()
            .incompatible
            .contains(Incompatible::META_BG)
        {
            all.min(self.raw.first_meta_group.get())
        } else {
            all
        }
    }

    /// Returns the block that holds a group's descriptor.
    fn descriptor_block(&self, group: u32) -> u64 {
        let nth = group / self.descriptors_per_block();
        if nth < self.descriptor_blocks() {
            let first = self.superblock_in(0).unwrap_or(self.first);
            return first + 1 + u64::from(nth);
        }
        let first = nth * self.descriptors_per_block();
        self.behind_superblock(first)
    }

    /// Returns the first block of a group after its superblock, if it has one.
    fn behind_superblock(&self, group: u32) -> u64 {
        let behind = self.superblock_in(group).map(|block| block + 1);
        behind.unwrap_or(self.first_of(group))
    }

    /// Returns the descriptor blocks in a group.
    pub(super) fn descriptors_in(&self, group: u32) -> Option<ClosedRange> {
        let per_block = self.descriptors_per_block();
        let count = self.descriptor_blocks();
        let block = self.behind_superblock(group);
        if group / per_block < count {
            let is_there = self.has_super(group) && count > 0;
            return is_there.then(|| (block, block + u64::from(count) - 1));
        }
        let is_there = [0, 1, per_block - 1].contains(&(group % per_block));
        is_there.then_some((block, block))
    }

    /// Returns the reserved GDT blocks in a group.
    pub(super) fn reserved_in(&self, group: u32) -> Option<ClosedRange> {
        let count = u64::from(self.raw.reserved_descriptor_blocks.get());
        let has = self
            .raw
            .features()
            .compatible
            .contains(Compatible::RESIZE_INODE);
        let (_, behind) = self.descriptors_in(group)?;
        let is_there = has && count > 0 && self.has_super(group);
        is_there.then(|| (behind + 1, behind + count))
    }

    pub(super) fn read(
        &self,
        device: &Arc<dyn BlockDevice>,
        block: u64,
    ) -> Result<Arc<layout::Block>> {
        let offset = block * u64::from(self.block_bytes);
        Ok(device.read_block(offset, self.block_bytes)?)
    }

    pub(super) fn descriptor(
        &self,
        device: &Arc<dyn BlockDevice>,
        group: u32,
    ) -> Result<Descriptor> {
        let block = self.read(device, self.descriptor_block(group))?;
        let offset = (group % self.descriptors_per_block() * self.descriptor_bytes) as usize;
        let mut descriptor = GroupDescriptor64::new_zeroed();
        let length = (self.descriptor_bytes as usize).min(group::SIZE_64BIT);
        descriptor.as_mut_bytes()[..length].copy_from_slice(&block[offset..offset + length]);
        Ok(Descriptor(descriptor))
    }
}

impl Descriptor {
    pub(super) fn block_bitmap(&self) -> u64 {
        join(
            self.0.base.block_bitmap_low.get(),
            self.0.block_bitmap_high.get(),
        )
    }

    pub(super) fn inode_bitmap(&self) -> u64 {
        join(
            self.0.base.inode_bitmap_low.get(),
            self.0.inode_bitmap_high.get(),
        )
    }

    /// Returns the first block of the inode table.
    pub(super) fn inode_table(&self) -> u64 {
        join(
            self.0.base.inode_table_low.get(),
            self.0.inode_table_high.get(),
        )
    }
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Reads a group's descriptor.
pub(super) fn descriptor(
    device: &Arc<dyn BlockDevice>,
    raw: &Superblock,
    group: u32,
) -> Result<Descriptor> {
    Sizes::of(raw)?.descriptor(device, group)
}
