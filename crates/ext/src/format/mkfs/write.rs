//! Writing a new volume: group after group, then the journal, and the first superblock last.

use std::ops::Range;
use std::sync::Arc;

use block::BlockDevice;
use jbd2::format::LogOptions;
use layout::superblock::Superblock;
use layout::{Block, BlockNr, GroupNr};
use zerocopy::IntoBytes;

use super::descriptors::{self, taken_inodes};
use super::plan::Plan;
use super::{journal, sums};
use crate::cache::buffers::batch;
use crate::disk::geometry::Geometry;
use crate::error::Result;
use crate::format::mkfs::image::Image;

/// Alignment in bytes of the superblocks of disk arrays.
const ARRAY_BYTES: u64 = 64 << 10;
/// Number of blocks gathered before they are written.
const GATHERED_MAX: usize = 8192;

/// Writes everything.
pub(super) fn write(
    device: &Arc<dyn BlockDevice>,
    plan: &Plan,
    image: &Image,
    raw: &Superblock,
) -> Result<()> {
    let geometry = &plan.geometry;
    let mut writer = Writer {
        device: &**device,
        block_bytes: geometry.block_bytes,
        gathered: Vec::with_capacity(GATHERED_MAX),
        empty: Vec::new(),
    };
    // The old contents are lost from here on.
    let (first, _) = geometry.superblock_place();
    writer.zeroes(BlockNr::new(0), first.get() + 1)?;
    // Disk arrays have their superblock at the end; it would make the device an array member again.
    let end = end_of_arrays(geometry);
    writer.zeroes(BlockNr::new(end), geometry.block_count - end)?;
    writer.finish()?;
    device.flush()?;
    let descriptors = descriptors::make(plan, image, |block, bytes| writer.put(block, bytes))?;
    for group in geometry.groups() {
        write_group(&mut writer, plan, image, group, raw, &descriptors)?;
    }
    writer.finish()?;
    let first_group_end = geometry.first_block_of(GroupNr::new(0))
        + u64::from(geometry.super_blocks(GroupNr::new(0)));
    for (block, bytes) in image
        .blocks
        .iter()
        .filter(|(block, _)| **block >= first_group_end)
    {
        writer.put(*block, Arc::clone(bytes))?;
    }
    writer.finish()?;
    if !image.journal.is_empty() {
        let log = journal::location(device, plan, image);
        let options = LogOptions {
            fast_commit_blocks: image.fast_commit_blocks,
            ..LogOptions::default()
        };
        jbd2::format::create(&log, &options)?;
    }
    device.flush()?;
    writer.put(first, superblock_block(geometry, raw, GroupNr::new(0)))?;
    writer.finish()?;
    device.flush()?;
    Ok(())
}

/// Returns the first block of the area in which a disk array may have its superblock: 64 KiB from
/// the end, at a multiple of that. Returns the end of the volume if it is no larger.
fn end_of_arrays(geometry: &Geometry) -> u64 {
    let unit = ARRAY_BYTES / u64::from(geometry.block_bytes);
    let last = geometry.block_count / unit * unit;
    match last.checked_sub(unit) {
        Some(start) if start > geometry.first_data_block.get() => start,
        _ => geometry.block_count,
    }
}

/// A writer that gathers blocks, writes them in batches in ascending order, and zeroes empty
/// ranges.
struct Writer<'d> {
    device: &'d dyn BlockDevice,
    block_bytes: u32,
    gathered: Vec<(BlockNr, Arc<Block>)>,
    /// Byte ranges to be zeroed, no two of them adjacent.
    empty: Vec<Range<u64>>,
}

impl Writer<'_> {
    fn put(&mut self, block: BlockNr, bytes: Arc<Block>) -> Result<()> {
        self.gathered.push((block, bytes));
        if self.gathered.len() >= GATHERED_MAX {
            self.finish()
        } else {
            Ok(())
        }
    }

    fn zeroes(&mut self, from: BlockNr, count: u64) -> Result<()> {
        let block_bytes = u64::from(self.block_bytes);
        let start = from.get() * block_bytes;
        let end = start + count * block_bytes;
        match self.empty.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ if start == end => {}
            _ => self.empty.push(start..end),
        }
        if self.empty.len() >= GATHERED_MAX {
            self.finish()
        } else {
            Ok(())
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.gathered.sort_unstable_by_key(|(block, _)| *block);
        batch::write_all(self.device, &self.gathered, self.block_bytes)?;
        self.gathered.clear();
        self.device.zero(&self.empty)?;
        self.empty.clear();
        Ok(())
    }
}

fn write_group(
    writer: &mut Writer<'_>,
    plan: &Plan,
    image: &Image,
    group: GroupNr,
    raw: &Superblock,
    descriptors: &[Arc<Block>],
) -> Result<()> {
    let geometry = &plan.geometry;
    let mut next = geometry.first_block_of(group) + u64::from(geometry.boot_blocks(group));
    if geometry.has_super(group) {
        // The first superblock is written after everything else.
        if group.get() > 0 {
            writer.put(next, superblock_block(geometry, raw, group))?;
        }
        next = next + 1;
    }
    for index in geometry.descriptor_blocks_in(group) {
        writer.put(next, Arc::clone(&descriptors[index as usize]))?;
        next = next + 1;
    }
    if geometry.has_super(group) {
        for _ in 0..geometry.reserved_descriptor_blocks {
            match image.blocks.get(&next) {
                Some(bytes) => writer.put(next, Arc::clone(bytes))?,
                None => writer.zeroes(next, 1)?,
            }
            next = next + 1;
        }
    }
    let table = plan.metadata.of(group).inode_table;
    let filled = inode_blocks(plan, image, group);
    let count = filled.len() as u64;
    for (index, bytes) in filled.into_iter().enumerate() {
        writer.put(table + index as u64, bytes)?;
    }
    if image.has_lazy_tables {
        return Ok(());
    }
    writer.zeroes(
        table + count,
        u64::from(geometry.inode_table_blocks()) - count,
    )
}

/// Returns a block with the superblock at its place.
pub(crate) fn superblock_block(
    geometry: &Geometry,
    raw: &Superblock,
    group: GroupNr,
) -> Arc<Block> {
    let mut raw = *raw;
    raw.copy_group.set(group.get() as u16);
    sums::seal_superblock(&mut raw);
    let mut block = Block::zeroed(geometry.block_bytes as usize);
    let offset = if group.get() == 0 {
        geometry.superblock_place().1
    } else {
        0
    };
    block[offset..offset + size_of::<Superblock>()].copy_from_slice(raw.as_bytes());
    block.into_arc()
}

/// Returns the blocks at the start of a group's inode table that hold the first files.
fn inode_blocks(plan: &Plan, image: &Image, group: GroupNr) -> Vec<Arc<Block>> {
    let geometry = &plan.geometry;
    let inode_bytes = usize::from(geometry.inode_bytes);
    let block_bytes = geometry.block_bytes as usize;
    let used = taken_inodes(plan, group) as usize * inode_bytes;
    let mut table = vec![0; used.next_multiple_of(block_bytes)];
    for (nr, bytes) in &image.inodes {
        let (home, index) = geometry.group_of_inode(*nr);
        if home == group {
            let at = index as usize * inode_bytes;
            table[at..at + inode_bytes].copy_from_slice(bytes);
        }
    }
    table
        .chunks_exact(block_bytes)
        .map(|bytes| Block::copy_from(bytes).into_arc())
        .collect()
}
