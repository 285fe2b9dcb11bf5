//! Reading and checking the group descriptors when a volume is opened.

use core::ops::Range;
use std::sync::Arc;

use jbd2::{Buffer, LogExtent};
use layout::inode::Inode;
use layout::{BlockNr, GroupNr, InodeNr};
use rt::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use rt::{Condvar, Mutex};
use zerocopy::FromBytes;

use super::Space;
use super::areas::Areas;
use super::freed::FreedSets;
use super::group::{Group, Maps};
use super::table::GroupTable;
use super::withheld::Withheld;
use super::zones::{Holder, SystemZones};
use crate::cache::buffers::{BufferCache, Refused};
use crate::disk::checksums::Checksums;
use crate::disk::geometry::Geometry;
use crate::disk::group::{GroupCounts, GroupDescriptor, Uninit};
use crate::disk::metadata::{Kind, Label};
use crate::disk::run::Run;
use crate::disk::superblock::Superblock;
use crate::error::{Corrupt, Error, Result};

impl Space {
    /// Reads and checks the group descriptors. The superblock's counts are not trusted: they are
    /// computed as sums over the groups. [`Space::store_counts`] corrects the superblock; after an
    /// unclean shutdown this happens before anything else. `stripe` replaces the superblock's
    /// stripe.
    pub(crate) fn open(
        superblock: &Superblock,
        buffers: &BufferCache,
        stripe: Option<u32>,
    ) -> Result<Self> {
        let geometry = &superblock.geometry;
        let descriptors_per_block = geometry.descriptors_per_block();
        let blocks: Vec<(BlockNr, Label)> = (0..geometry.descriptor_blocks())
            .map(|index| {
                let group = GroupNr::new(index * descriptors_per_block);
                let label = Kind::Descriptors.of_group(group);
                (geometry.descriptor_block(index), label)
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
                let (index, offset) = geometry.descriptor_place(nr);
                let bytes = descriptors[index as usize].read();
                let end = offset + usize::from(geometry.descriptor_bytes);
                group(geometry, superblock.checksums, nr, &bytes, offset..end)
            })
            .collect();
        let zones = zones(geometry, &groups)?;
        let sum = |count: fn(&Group) -> &AtomicU32| -> u64 {
            groups
                .iter()
                .map(|group| u64::from(count(group).load(Ordering::Relaxed)))
                .sum()
        };
        let free_clusters = sum(|group| &group.free_clusters);
        let free_inodes = sum(|group| &group.free_inodes);
        let directories = sum(|group| &group.directories);
        let table = GroupTable {
            geometry: geometry.clone(),
            groups,
            descriptors,
            descriptors_per_block,
            zones,
            areas: Areas::of(superblock, stripe),
            overhead_blocks: 0,
        };
        let mut space = Self {
            table,
            free_clusters: AtomicU64::new(free_clusters),
            usable_clusters: AtomicU64::new(free_clusters),
            delayed_clusters: AtomicU64::new(0),
            free_inodes: AtomicU64::new(free_inodes),
            directories: AtomicU64::new(directories),
            reserved_clusters: superblock.reserved_blocks >> geometry.cluster_log,
            freed: Mutex::new(FreedSets::default()),
            released: Condvar::new(),
            withheld: Withheld::default(),
        };
        space.table.overhead_blocks = space.overhead(superblock, buffers)?;
        Ok(space)
    }

    /// Marks the blocks of a holder as system zones, so that no file claims them.
    ///
    /// # Errors
    /// - [`Corrupt::Group`] names a block that is also in another zone.
    pub(crate) fn protect(&mut self, holder: Holder, extents: &[LogExtent]) -> Result<()> {
        let GroupTable {
            geometry, zones, ..
        } = &mut self.table;
        let runs = extents.iter().map(|extent| Run {
            first: extent.first,
            count: extent.count,
        });
        let added = zones.add(geometry, holder, runs);
        let why = match holder {
            Holder::OrphanFile => "where the orphan file and other metadata overlap",
            Holder::MultiMount => "where multiple mount protection and other metadata overlap",
            _ => "where the journal and metadata overlap",
        };
        added.map_err(|block| shared(geometry, block, why))
    }

    /// Returns the blocks that transactions change in place: the first superblock and the
    /// descriptors, and of every group the bitmaps and the used part of the inode table.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = Run> {
        let geometry = &self.table().geometry;
        let one = |first| Run { first, count: 1 };
        let head = one(geometry.superblock_place().0);
        let indices = 0..geometry.descriptor_blocks();
        let descriptors = indices.map(move |index| one(geometry.descriptor_block(index)));
        let per_block = geometry.block_bytes / u32::from(geometry.inode_bytes);
        let of_group = move |group: &Group| {
            let used = group.inode_count - group.free_inodes.load(Ordering::Relaxed);
            let table = Run {
                first: group.inode_table,
                count: used.div_ceil(per_block),
            };
            [one(group.block_bitmap), one(group.inode_bitmap), table]
        };
        core::iter::once(head)
            .chain(descriptors)
            .chain(self.groups().iter().flat_map(of_group))
    }

    /// Returns the number of blocks with the volume's own metadata, as Linux counts them:
    /// superblocks, descriptors and reserved GDT blocks, bitmaps, inode tables, the boot block and
    /// the internal journal; with larger clusters, the blocks of all clusters that have some.
    fn overhead(&self, superblock: &Superblock, buffers: &BufferCache) -> Result<u64> {
        let geometry = &self.table().geometry;
        let in_group =
            |nr| u64::from(geometry.super_blocks(nr) + 2 + geometry.inode_table_blocks());
        let groups: u64 = geometry.groups().map(in_group).sum();
        let journal = match superblock.journal_inode {
            Some(inode) => self.journal_blocks(inode, buffers)?,
            None => 0,
        };
        let overhead = match geometry.cluster_log {
            0 => geometry.first_data_block.get() + groups + journal,
            log => {
                let whole = |blocks: u64| blocks.next_multiple_of(1 << log);
                (self.zones().clusters(geometry) << log) + whole(journal)
            }
        };
        Ok(overhead.min(geometry.block_count))
    }

    fn journal_blocks(&self, inode: InodeNr, buffers: &BufferCache) -> Result<u64> {
        let geometry = &self.table().geometry;
        let (group, index) = geometry.group_of_inode(inode);
        if self.group(group).damage.is_some() {
            return Ok(0);
        }
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
    checksums: Checksums,
    nr: GroupNr,
    block: &[u8],
    descriptor: Range<usize>,
) -> Group {
    let bytes = &block[descriptor.clone()];
    let raw = GroupDescriptor::decode(bytes);
    let damage = checksums.check_descriptor(nr, bytes).err();
    let counts = match &damage {
        None => raw.counts,
        Some(damage) => {
            tracing::warn!(%damage, "the group is not used");
            GroupCounts::default()
        }
    };
    let uninit = match checksums.has_group_flags() {
        true => raw.uninit,
        false => Uninit::default(),
    };
    Group {
        nr,
        first: geometry.first_block_of(nr),
        block_count: geometry.blocks_in(nr),
        first_cluster: geometry.cluster_of(geometry.first_block_of(nr)),
        cluster_count: geometry.clusters_in(nr),
        cluster_log: geometry.cluster_log,
        inode_count: geometry.inodes_per_group,
        block_bitmap: raw.block_bitmap,
        inode_bitmap: raw.inode_bitmap,
        inode_table: raw.inode_table,
        damage,
        descriptor,
        free_clusters: AtomicU32::new(counts.free_clusters),
        usable_clusters: AtomicU32::new(
            match uninit.block_bitmap && rt::mutant!("groups/uninitialised-taken-as-full") {
                true => 0,
                false => counts.free_clusters,
            },
        ),
        free_inodes: AtomicU32::new(counts.free_inodes),
        directories: AtomicU32::new(counts.directories),
        lacks_block_bitmap: AtomicBool::new(uninit.block_bitmap),
        lacks_inode_bitmap: AtomicBool::new(uninit.inode_bitmap),
        unused_inodes: AtomicU32::new(uninit.inodes),
        lacks_zeroes: AtomicBool::new(uninit.table),
        checksums,
        sums: raw.sums,
        clusters_per_group: geometry.clusters_per_group(),
        next_goal: AtomicU32::new(0),
        longest: AtomicU32::new(counts.free_clusters),
        maps: Mutex::new(Maps::default()),
    }
}

/// Returns the zones of the groups' metadata.
///
/// # Errors
/// - [`Corrupt::Group`] names a block that belongs to two of them.
fn zones(geometry: &Geometry, groups: &[Group]) -> Result<SystemZones> {
    let of_group = |group: &Group| {
        let start = Run {
            first: group.first,
            count: geometry.super_blocks(group.nr),
        };
        // The places of a damaged group may be those of others.
        let run = |first, count| Run {
            first,
            count: if group.damage.is_none() { count } else { 0 },
        };
        [
            start,
            run(group.block_bitmap, 1),
            run(group.inode_bitmap, 1),
            run(group.inode_table, geometry.inode_table_blocks()),
        ]
    };
    let mut zones = SystemZones::default();
    let added = zones.add(geometry, Holder::Metadata, groups.iter().flat_map(of_group));
    let place = "where bitmaps and inode table overlap";
    added.map_err(|block| shared(geometry, block, place))?;
    Ok(zones)
}

/// Returns the error of a block that belongs to two zones.
fn shared(geometry: &Geometry, block: BlockNr, field: &'static str) -> Error {
    Corrupt::Group {
        group: geometry.group_of_block(block).0,
        field,
        value: block.get(),
    }
    .into()
}
