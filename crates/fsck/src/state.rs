//! The state of a check; its size is proportional to the used part of the file system.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;

use layout::checksum::metadata;
use layout::feature::{Features, Incompatible, ReadOnlyCompatible};
use layout::quota::QuotaKind;
use layout::superblock::Superblock;

use crate::Options;
use crate::blocks::BlockSet;
use crate::descriptor::Group;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::image::{Bytes, Image};
use crate::inode_states::InodeStates;
use crate::kind::ProblemKind;
use crate::owners::Owners;
use crate::policies::Policies;
use crate::problem::Location;
use crate::report::Report;
use crate::superblock::Decoded;

/// Maximum number of visits of mapping blocks in one walk over all inodes, per existing block: only
/// cyclic block maps need more.
const VISITS_PER_BLOCK: u64 = 8;
/// Number of visits allowed in addition.
const VISITS_SPARE: u64 = 4096;

/// A directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directory {
    pub(crate) inode: u32,
    /// Directory with the entry that refers to this one; 0 if none was found.
    pub(crate) parent: u32,
    /// Inode of `..`; 0 if there is none.
    pub(crate) dotdot: u32,
    /// First index and number of its blocks in [`State::directory_blocks`].
    pub(crate) first_block: usize,
    pub(crate) block_count: usize,
    /// True if it has the flag of a hash tree.
    pub(crate) is_indexed: bool,
    /// True if it has an extent tree.
    pub(crate) has_extents: bool,
    /// Generation, which the checksums of its blocks cover.
    pub(crate) generation: u32,
    /// True if its names are ciphertext: it has the flag, and a valid context.
    pub(crate) is_encrypted: bool,
    /// True if its names ignore case.
    pub(crate) is_folded: bool,
}

/// The state shared by all passes.
pub(crate) struct State<'a> {
    pub(crate) image: Image<'a>,
    pub(crate) options: &'a Options,
    pub(crate) raw: Superblock,
    /// Block of the superblock in use, if it is a backup; the descriptors after it are used too.
    pub(crate) copy: Option<u64>,
    /// True if the primary superblock has a wrong checksum.
    pub(crate) is_checksum_wrong: bool,
    pub(crate) features: Features,
    pub(crate) geometry: Geometry,
    pub(crate) groups: Vec<Group>,
    /// True if descriptors have checksums, of either kind.
    pub(crate) has_descriptor_checksums: bool,
    /// Seed of the checksums of metadata, if it has them.
    pub(crate) checksum_seed: Option<u32>,
    /// Superblocks, descriptors, bitmaps and inode tables.
    pub(crate) metadata: BlockSet,
    /// Groups with an entry that leads to an inode of their uninitialised table.
    pub(crate) entered_groups: BTreeSet<u32>,
    /// Clusters of files.
    pub(crate) claimed: BlockSet,
    /// Clusters claimed while already in use.
    pub(crate) claimed_twice: BlockSet,
    pub(crate) inodes: InodeStates,
    /// Directories, by ascending inode.
    pub(crate) directories: Vec<Directory>,
    /// Blocks of all directories, directory by directory: file block and device block.
    pub(crate) directory_blocks: Vec<(u32, u64)>,
    /// Contents of the directories that lie within their inodes.
    pub(crate) inline_directories: BTreeMap<u32, Vec<u8>>,
    /// Number of visited blocks of block maps.
    pub(crate) map_visits: u64,
    /// True if a regular file needs the feature `large_file`.
    pub(crate) has_large_file: bool,
    /// Bad blocks in the file system's list.
    pub(crate) bad_blocks: BlockSet,
    /// Attribute blocks.
    pub(crate) attribute_blocks: BTreeMap<u64, AttributeBlock>,
    /// Inodes that hold a value of an attribute, or are named as one.
    pub(crate) values: BTreeMap<u32, Value>,
    /// Space and inodes by owner.
    pub(crate) owners: Owners,
    /// Inodes of AFS, which need no names.
    pub(crate) nameless: BTreeSet<u32>,
    /// Policies of encrypted inodes.
    pub(crate) policies: Policies,
    pub(crate) report: Report,
}

/// An attribute block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttributeBlock {
    /// Number of inodes that have it.
    pub(crate) references: u32,
    /// Its own count of them; `None` without a valid header.
    pub(crate) said: Option<u32>,
    /// Share of an inode with it: the block, and its values.
    pub(crate) counted: Counted,
}

/// The share of attributes in the counts of an inode.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    /// Number of clusters, of which a value of an inode of its own has some.
    pub(crate) clusters: u64,
    /// Number of values in inodes of their own, which quotas count as inodes.
    pub(crate) values: u64,
}

impl Add for Counted {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            clusters: self.clusters + other.clusters,
            values: self.values + other.values,
        }
    }
}

/// An inode that holds a value of an attribute, or is named as one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Value {
    /// Number of entries that name it.
    pub(crate) references: u64,
    /// Its own count of them, if it is in use and has one.
    pub(crate) said: Option<u64>,
    /// True if it is in use and has the flag.
    pub(crate) is_marked: bool,
}

impl<'a> State<'a> {
    pub(crate) fn new(mut image: Image<'a>, options: &'a Options, decoded: Decoded) -> Self {
        let Decoded {
            raw,
            features,
            geometry,
            copy,
            is_checksum_wrong,
        } = decoded;
        image.set_block_bytes(geometry.block_bytes);
        // No state is kept for groups beyond the end of the device.
        let (group_count, inode_count) =
            if geometry.block_count <= image.block_count(geometry.block_bytes) {
                (geometry.group_count, geometry.inode_count)
            } else {
                (0, 0)
            };
        let blocks = || BlockSet::new(group_count, geometry.blocks_per_group);
        let clusters = || BlockSet::new(group_count, geometry.clusters_per_group());
        let read_only = features.read_only_compatible;
        let with_checksum = ReadOnlyCompatible::METADATA_CSUM | ReadOnlyCompatible::UNINIT_BG;
        let has_checksums = read_only.contains(ReadOnlyCompatible::METADATA_CSUM);
        Self {
            has_descriptor_checksums: read_only.intersects(with_checksum),
            checksum_seed: has_checksums.then(|| metadata::seed(&raw)),
            is_checksum_wrong,
            metadata: blocks(),
            entered_groups: BTreeSet::new(),
            image,
            options,
            raw,
            copy,
            features,
            groups: Vec::with_capacity(group_count as usize),
            claimed: clusters(),
            claimed_twice: clusters(),
            inodes: InodeStates::new(inode_count),
            directories: Vec::new(),
            directory_blocks: Vec::new(),
            inline_directories: BTreeMap::new(),
            map_visits: 0,
            has_large_file: false,
            bad_blocks: blocks(),
            attribute_blocks: BTreeMap::new(),
            values: BTreeMap::new(),
            owners: Owners::default(),
            nameless: BTreeSet::new(),
            policies: Policies::default(),
            report: Report::default(),
            geometry,
        }
    }

    /// Counts a visit of a block in a block map. Returns true if there were too many.
    #[inline]
    pub(crate) fn is_exhausted(&mut self) -> bool {
        self.is_exhausted_by(1)
    }

    /// Counts visits of a number of blocks, as [`State::is_exhausted`] does for one.
    #[inline]
    pub(crate) fn is_exhausted_by(&mut self, count: u64) -> bool {
        self.map_visits += count;
        self.map_visits > VISITS_SPARE + self.geometry.block_count * VISITS_PER_BLOCK
    }

    /// Returns the bytes of a block.
    #[inline]
    pub(crate) fn block(&mut self, block: u64) -> Result<Bytes<'a>, Error> {
        let offset = self.geometry.byte_of(block);
        self.image.bytes(offset, self.geometry.block_bytes)
    }

    /// Marks the cluster of a block as used; the second time, as claimed twice.
    #[inline]
    pub(crate) fn claim(&mut self, block: u64) {
        let place = self.geometry.place_of(block);
        let cluster = self.geometry.cluster_at(place);
        let is_metadata = match self.geometry.cluster_log {
            0 => self.metadata.contains(place),
            _ => self.has_metadata(cluster.0, cluster.1, cluster.1 + 1),
        };
        if is_metadata || !self.claimed.insert(cluster) {
            self.claimed_twice.insert(cluster);
        }
    }

    /// True if clusters of a group have metadata.
    fn has_metadata(&self, group: u32, first: u32, end: u32) -> bool {
        let log = self.geometry.cluster_log;
        self.metadata.intersects(group, first << log, end << log)
    }

    /// Marks the clusters of an extent as used, as [`State::claim`] does for one.
    pub(crate) fn claim_run(&mut self, start: u64, count: u64) {
        let pieces = self.geometry.pieces(start, start + count);
        let log = self.geometry.cluster_log;
        for (group, first, end) in pieces {
            let (first, end) = (first >> log, ((end - 1) >> log) + 1);
            let is_free = !self.has_metadata(group, first, end)
                && !self.claimed.intersects(group, first, end);
            if is_free {
                self.claimed.insert_run(group, first, end);
                continue;
            }
            let first_block = self.geometry.first_block_of(group);
            for place in first..end {
                self.claim(first_block + (u64::from(place) << log));
            }
        }
    }

    /// True if a block belongs to a superblock, descriptors, a bitmap or an inode table.
    #[inline]
    pub(crate) fn is_metadata(&self, block: u64) -> bool {
        self.metadata.contains(self.geometry.place_of(block))
    }

    /// True if a block is part of an inode table.
    pub(crate) fn is_in_inode_table(&self, block: u64) -> bool {
        let blocks = u64::from(self.geometry.inode_table_blocks());
        let is_in = |group: &Group| {
            let table = group.inode_table;
            table != 0 && (table..table + blocks).contains(&block)
        };
        if self.geometry.has_flexible_groups {
            return self.groups.iter().any(is_in);
        }
        let (group, _) = self.geometry.place_of(block);
        is_in(&self.groups[group as usize])
    }

    /// True if files may have extents.
    pub(crate) fn has_extents(&self) -> bool {
        self.features.incompatible.contains(Incompatible::EXTENTS)
    }

    /// True if indexes of directories may have one more level, and sizes of directories two halves.
    pub(crate) fn has_large_directories(&self) -> bool {
        self.features.incompatible.contains(Incompatible::LARGE_DIR)
    }

    /// True if values of attributes may lie in inodes of their own.
    pub(crate) fn has_ea_inode(&self) -> bool {
        self.features.incompatible.contains(Incompatible::EA_INODE)
    }

    /// True if inodes may hold their contents themselves.
    pub(crate) fn has_inline_data(&self) -> bool {
        self.features
            .incompatible
            .contains(Incompatible::INLINE_DATA)
    }

    /// True if names of directories may ignore case.
    pub(crate) fn has_folding(&self) -> bool {
        self.features.incompatible.contains(Incompatible::CASEFOLD)
    }

    /// True if the owners of inodes are counted.
    pub(crate) fn has_quota(&self) -> bool {
        let features = self.features.read_only_compatible;
        features.contains(ReadOnlyCompatible::QUOTA)
    }

    /// Returns the inodes of the quota files that the superblock names.
    pub(crate) fn quota_files(&self) -> impl Iterator<Item = (QuotaKind, u32)> + use<> {
        let features = self.features.read_only_compatible;
        let has_project = features.contains(ReadOnlyCompatible::PROJECT);
        let has_quota = self.has_quota();
        let files = [
            (QuotaKind::User, self.raw.user_quota_inode.get()),
            (QuotaKind::Group, self.raw.group_quota_inode.get()),
            (QuotaKind::Project, self.raw.project_quota_inode.get()),
        ];
        let is_there = move |(kind, number): &(QuotaKind, u32)| {
            has_quota && *number != 0 && (*kind != QuotaKind::Project || has_project)
        };
        files.into_iter().filter(is_there)
    }

    /// True if an inode holds a quota file.
    pub(crate) fn is_quota_file(&self, number: u32) -> bool {
        self.quota_files().any(|(_, inode)| inode == number)
    }

    /// True if block numbers have upper halves.
    pub(crate) fn is_64bit(&self) -> bool {
        self.features.incompatible.contains(Incompatible::IS_64BIT)
    }

    /// Returns the seed of the checksums of an inode's structures, if they have any.
    pub(crate) fn owner_seed(&self, inode: u32, generation: u32) -> Option<u32> {
        let seed = self.checksum_seed?;
        Some(metadata::owner(seed, inode, generation))
    }

    /// True if the superblock's times are plausible: then an inode number cannot be a deletion
    /// time.
    pub(crate) fn has_plausible_times(&self) -> bool {
        let count = self.geometry.inode_count;
        let times = [
            self.raw.creation_time,
            self.raw.write_time,
            self.raw.mount_time,
        ];
        times
            .iter()
            .all(|time| time.get() == 0 || time.get() >= count)
    }

    pub(crate) fn problem(&mut self, kind: ProblemKind, place: Location) {
        self.report.add(kind, place);
    }
}
