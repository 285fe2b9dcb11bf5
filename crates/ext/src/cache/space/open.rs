//! Reading and checking the group descriptors when a volume is opened.

use core::ops::Range;
use std::sync::Arc;

use jbd2::{Buffer, LogExtent};
use layout::inode::Inode;
use layout::{BlockNr, GroupNr, InodeNr};
use rt::atomic::{AtomicU32, AtomicU64, Ordering};
use rt::{Condvar, Mutex};
use zerocopy::FromBytes;

use super::Space;
use super::freed::FreedSets;
use super::group::{Group, Maps};
use crate::cache::buffers::{BufferCache, Refused};
use crate::disk::geometry::Geometry;
use crate::disk::group::GroupDescriptor;
use crate::disk::metadata::{Kind, Label};
use crate::disk::run::Run;
use crate::disk::superblock::Superblock;
use crate::error::{Corrupt, Result};

impl Space {
    /// Reads and checks the group descriptors. The superblock's counts are not trusted; the counts
    /// are summed from the groups. [`Space::store_counts`] corrects the superblock, which after an
    /// unclean shutdown has to happen before anything else.
    pub(crate) fn open(superblock: &Superblock, buffers: &BufferCache) -> Result<Self> {
        let geometry = &superblock.geometry;
        let first = geometry.first_data_block + 1;
        let descriptors_per_block = geometry.block_bytes / u32::from(geometry.descriptor_bytes);
        let blocks: Vec<(BlockNr, Label)> = (0..geometry.descriptor_blocks())
            .map(|index| {
                let group = GroupNr::new(index * descriptors_per_block);
                let label = Kind::Descriptors.of_group(group);
                (first + u64::from(index), label)
            })
            .collect();
        buffers.prefetch(&blocks).map_err(Refused::of_volume)?;
        let descriptors: Vec<Arc<Buffer>> = blocks
            .iter()
            .map(|(block, label)| buffers.get(*block, *label).map_err(Refused::of_volume))
            .collect::<Result<_>>()?;
        let groups: Vec<Group> = geometry
            .groups()
            .map(|nr| {
                let (_, offset) = geometry.descriptor_place(nr);
                let bytes = descriptors[(nr.get() / descriptors_per_block) as usize].read();
                let end = offset + usize::from(geometry.descriptor_bytes);
                group(geometry, nr, &bytes, offset..end)
            })
            .collect::<Result<_>>()?;
        let sum = |count: fn(&Group) -> &AtomicU32| -> u64 {
            groups
                .iter()
                .map(|group| u64::from(count(group).load(Ordering::Relaxed)))
                .sum()
        };
        let free_blocks = sum(|group| &group.free_blocks);
        let mut space = Self {
            descriptors,
            descriptors_per_block,
            free_blocks: AtomicU64::new(free_blocks),
            usable_blocks: AtomicU64::new(free_blocks),
            free_inodes: AtomicU64::new(sum(|group| &group.free_inodes)),
            directories: AtomicU64::new(sum(|group| &group.directories)),
            reserved_blocks: superblock.reserved_blocks,
            overhead_blocks: 0,
            freed: Mutex::new(FreedSets::default()),
            released: Condvar::new(),
            groups,
        };
        space.overhead_blocks = space.overhead(superblock, buffers)?;
        Ok(space)
    }

    /// Notes the blocks of the log, so that no file claims them.
    pub(crate) fn protect_log(&mut self, geometry: &Geometry, log: &[LogExtent]) {
        for extent in log {
            let mut next = extent.first;
            let end = extent.first + u64::from(extent.count);
            while next < end {
                let (group, start) = geometry.group_of_block(next);
                let room = u64::from(geometry.blocks_in(group) - start);
                let count = room.min(end.get() - next.get());
                self.groups[group.index()].log.push((start, count as u32));
                next = next + count;
            }
        }
        for group in &mut self.groups {
            group.log.sort_unstable();
        }
    }

    /// Returns the blocks that transactions change in place: the first superblock and the
    /// descriptors, and of every group the bitmaps and the used part of the inode table.
    pub(crate) fn metadata(&self, geometry: &Geometry) -> impl Iterator<Item = Run> {
        let head = Run {
            first: geometry.first_data_block,
            count: 1 + geometry.descriptor_blocks(),
        };
        let per_block = geometry.block_bytes / u32::from(geometry.inode_bytes);
        let of_group = move |group: &Group| {
            let one = |first| Run { first, count: 1 };
            let used = group.inode_count - group.free_inodes.load(Ordering::Relaxed);
            let table = Run {
                first: group.inode_table,
                count: used.div_ceil(per_block),
            };
            [one(group.block_bitmap), one(group.inode_bitmap), table]
        };
        core::iter::once(head).chain(self.groups.iter().flat_map(of_group))
    }

    /// Returns the number of blocks with the volume's own metadata, as Linux counts them:
    /// superblocks, descriptors and reserved GDT blocks, bitmaps, inode tables, the boot block and
    /// the internal journal.
    fn overhead(&self, superblock: &Superblock, buffers: &BufferCache) -> Result<u64> {
        let geometry = &superblock.geometry;
        let in_group =
            |nr| u64::from(geometry.super_blocks(nr) + 2 + geometry.inode_table_blocks());
        let groups: u64 = geometry.groups().map(in_group).sum();
        let journal = match superblock.journal_inode {
            Some(inode) => self.journal_blocks(geometry, inode, buffers)?,
            None => 0,
        };
        let overhead = geometry.first_data_block.get() + groups + journal;
        Ok(overhead.min(geometry.block_count))
    }

    fn journal_blocks(
        &self,
        geometry: &Geometry,
        inode: InodeNr,
        buffers: &BufferCache,
    ) -> Result<u64> {
        let (group, index) = geometry.group_of_inode(inode);
        let per_block = geometry.block_bytes / u32::from(geometry.inode_bytes);
        let block = self.group(group).inode_table + u64::from(index / per_block);
        let label = Kind::InodeTable.of_group(group);
        let buffer = buffers.get(block, label).map_err(Refused::of_volume)?;
        let offset = (index % per_block) as usize * usize::from(geometry.inode_bytes);
        let bytes = buffer.read();
        let (inode, _) =
            Inode::read_from_prefix(&bytes[offset..]).expect("a block has room for its inodes");
        Ok(inode.size(false) / u64::from(geometry.block_bytes))
    }
}

/// Creates a group from its descriptor, whose block was verified.
fn group(
    geometry: &Geometry,
    nr: GroupNr,
    block: &[u8],
    descriptor: Range<usize>,
) -> Result<Group> {
    let raw = GroupDescriptor::decode(&block[descriptor.clone()]);
    let first = geometry.first_block_of(nr);
    let within = |place: BlockNr| (place.get() - first.get()) as u32;
    let system = [
        (0, geometry.super_blocks(nr)),
        (within(raw.block_bitmap), 1),
        (within(raw.inode_bitmap), 1),
        (within(raw.inode_table), geometry.inode_table_blocks()),
    ];
    if let Some(shared) = overlap(&system) {
        return Err(Corrupt::Group {
            group: nr,
            field: "where bitmaps and inode table overlap",
            value: first.get() + u64::from(shared),
        }
        .into());
    }
    let counts = raw.counts;
    Ok(Group {
        nr,
        first,
        block_count: geometry.blocks_in(nr),
        inode_count: geometry.inodes_per_group,
        block_bitmap: raw.block_bitmap,
        inode_bitmap: raw.inode_bitmap,
        inode_table: raw.inode_table,
        system,
        log: Vec::new(),
        descriptor,
        free_blocks: AtomicU32::new(counts.free_blocks),
        usable_blocks: AtomicU32::new(counts.free_blocks),
        free_inodes: AtomicU32::new(counts.free_inodes),
        directories: AtomicU32::new(counts.directories),
        next_goal: AtomicU32::new(0),
        maps: Mutex::new(Maps::default()),
    })
}

/// Returns a block that belongs to two parts of a group's metadata.
fn overlap(parts: &[(u32, u32)]) -> Option<u32> {
    let mut sorted = parts.to_vec();
    sorted.sort_unstable();
    let mut pairs = sorted.windows(2);
    let found = pairs.find(|pair| pair[0].0 + pair[0].1 > pair[1].0)?;
    Some(found[1].0)
}
