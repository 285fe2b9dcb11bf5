//! The state of a check; its size is proportional to the used part of the file system.

use std::collections::BTreeMap;

use layout::feature::Features;
use layout::superblock::Superblock;

use crate::Options;
use crate::blocks::BlockSet;
use crate::descriptor::Group;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::image::{Bytes, Image};
use crate::inode_states::InodeStates;
use crate::kind::ProblemKind;
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
}

/// The state shared by all passes.
pub(crate) struct State<'a> {
    pub(crate) image: Image<'a>,
    pub(crate) options: &'a Options,
    pub(crate) raw: Superblock,
    /// Block of the superblock in use, if it is a backup; the descriptors after it are used too.
    pub(crate) copy: Option<u64>,
    pub(crate) features: Features,
    pub(crate) geometry: Geometry,
    pub(crate) groups: Vec<Group>,
    /// Blocks of files.
    pub(crate) claimed: BlockSet,
    /// Blocks claimed while already in use.
    pub(crate) claimed_twice: BlockSet,
    pub(crate) inodes: InodeStates,
    /// Directories, by ascending inode.
    pub(crate) directories: Vec<Directory>,
    /// Blocks of all directories, directory by directory: file block and device block.
    pub(crate) directory_blocks: Vec<(u32, u32)>,
    /// Number of visited blocks of block maps.
    pub(crate) map_visits: u64,
    /// True if a regular file needs the feature `large_file`.
    pub(crate) has_large_file: bool,
    /// Bad blocks in the file system's list.
    pub(crate) bad_blocks: BlockSet,
    /// Attribute blocks: references found and reference count on disk, `None` without a valid
    /// header.
    pub(crate) attribute_blocks: BTreeMap<u64, (u32, Option<u32>)>,
    pub(crate) report: Report,
}

impl<'a> State<'a> {
    pub(crate) fn new(mut image: Image<'a>, options: &'a Options, decoded: Decoded) -> Self {
        let Decoded {
            raw,
            features,
            geometry,
            copy,
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
        Self {
            image,
            options,
            raw,
            copy,
            features,
            groups: Vec::with_capacity(group_count as usize),
            claimed: blocks(),
            claimed_twice: blocks(),
            inodes: InodeStates::new(inode_count),
            directories: Vec::new(),
            directory_blocks: Vec::new(),
            map_visits: 0,
            has_large_file: false,
            bad_blocks: blocks(),
            attribute_blocks: BTreeMap::new(),
            report: Report::default(),
            geometry,
        }
    }

    /// Counts a visit of a block in a block map. Returns true if there were too many.
    #[inline]
    pub(crate) fn is_exhausted(&mut self) -> bool {
        self.map_visits += 1;
        self.map_visits > VISITS_SPARE + self.geometry.block_count * VISITS_PER_BLOCK
    }

    /// Returns the bytes of a block.
    #[inline]
    pub(crate) fn block(&mut self, block: u64) -> Result<Bytes<'a>, Error> {
        let offset = self.geometry.byte_of(block);
        self.image.bytes(offset, self.geometry.block_bytes)
    }

    /// Marks a block as used; the second time, as claimed twice.
    #[inline]
    pub(crate) fn claim(&mut self, block: u64) {
        let place = self.geometry.place_of(block);
        if self.is_metadata(block) || !self.claimed.insert(place) {
            self.claimed_twice.insert(place);
        }
    }

    /// True if a block belongs to a superblock, descriptors, a bitmap or an inode table.
    #[inline]
    pub(crate) fn is_metadata(&self, block: u64) -> bool {
        let (number, place) = self.geometry.place_of(block);
        let group = &self.groups[number as usize];
        let table = group.inode_table;
        let table_blocks = u64::from(self.geometry.inode_table_blocks());
        (table..table + table_blocks).contains(&block)
            || block == group.block_bitmap
            || block == group.inode_bitmap
            || (place < self.geometry.super_blocks() && self.geometry.has_super(number))
    }

    /// True if a block is part of an inode table.
    pub(crate) fn is_in_inode_table(&self, block: u64) -> bool {
        let (group, _) = self.geometry.place_of(block);
        let table = self.groups[group as usize].inode_table;
        let end = table + u64::from(self.geometry.inode_table_blocks());
        table != 0 && (table..end).contains(&block)
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
