//! What a check keeps: its size follows what is in use, not how large the file system is.

use std::collections::BTreeMap;

use layout::feature::Features;
use layout::superblock::Superblock;

use crate::Options;
use crate::blocks::BlockSet;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::groups::Group;
use crate::image::{Bytes, Image};
use crate::inode_states::InodeStates;
use crate::kind::ProblemKind;
use crate::problem::Place;
use crate::report::Report;
use crate::superblock::Decoded;

/// How often blocks of maps are visited in one walk over all inodes, for each block that there is: more only happens in
/// maps that run in circles.
const VISITS_PER_BLOCK: u64 = 8;
/// What is allowed besides.
const VISITS_SPARE: u64 = 4096;

/// What is known of an inode after the inode tables were read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InodeState {
    /// Entries found that lead to it.
    pub(crate) references: u32,
    /// Links, as the inode says.
    pub(crate) links: u16,
    /// The type's code in directory entries; 0 if the inode is free, [`InodeState::BAD`] if it is in use but of no type.
    pub(crate) file_type: u8,
    pub(crate) usage: Usage,
}

/// What an inode is to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usage {
    Free,
    /// It counts as in use, and has no map.
    Used,
    /// It counts as in use, and its map was looked at.
    Mapped,
    /// It lies in a bad block: it counts as in use, and nothing else is known of it.
    Lost,
}

/// A directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directory {
    pub(crate) inode: u32,
    /// The directory that has the entry leading here; 0 if none was found.
    pub(crate) parent: u32,
    /// What `..` says; 0 if it says nothing.
    pub(crate) dotdot: u32,
    /// Its blocks in [`State::directory_blocks`]: first and count.
    pub(crate) first_block: usize,
    pub(crate) block_count: usize,
    /// Whether it has the flag of a hash tree.
    pub(crate) is_indexed: bool,
}

/// Everything that the passes share.
pub(crate) struct State<'a> {
    pub(crate) image: Image<'a>,
    pub(crate) options: &'a Options,
    pub(crate) raw: Superblock,
    /// The block of the superblock and before the descriptors, if they are copies.
    pub(crate) copy: Option<u64>,
    pub(crate) features: Features,
    pub(crate) geometry: Geometry,
    pub(crate) groups: Vec<Group>,
    /// Blocks of files.
    pub(crate) claimed: BlockSet,
    /// Blocks that were claimed when they were in use already.
    pub(crate) claimed_twice: BlockSet,
    pub(crate) inodes: InodeStates,
    /// In the order of their inodes.
    pub(crate) directories: Vec<Directory>,
    /// Blocks of all directories, one directory after another: the block of the file, and where it lies.
    pub(crate) directory_blocks: Vec<(u32, u32)>,
    /// Blocks of maps that were visited.
    pub(crate) map_visits: u64,
    /// Whether a regular file needs the feature `large_file`.
    pub(crate) has_large_file: bool,
    /// Bad blocks that the file system's list names.
    pub(crate) bad_blocks: BlockSet,
    /// Attribute blocks: references found, references that it says; what does not begin as an attribute block says none.
    pub(crate) attribute_blocks: BTreeMap<u64, (u32, Option<u32>)>,
    pub(crate) report: Report,
}

impl InodeState {
    /// In use, but its mode is of no type.
    pub(crate) const BAD: u8 = 0xFF;
    /// An inode that lies in a bad block. It counts as in use.
    pub(crate) const LOST: Self = Self {
        references: 0,
        links: 0,
        file_type: Self::BAD,
        usage: Usage::Lost,
    };

    /// True if it counts as in use.
    pub(crate) fn is_used(&self) -> bool {
        self.usage != Usage::Free
    }
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
        // Nothing is kept of what a device does not have.
        let (group_count, inode_count) = if geometry.block_count <= blocks_on(&image, &geometry) {
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

    /// Counts a visit of a block in a map; whether there were too many.
    #[inline]
    pub(crate) fn is_exhausted(&mut self) -> bool {
        self.map_visits += 1;
        self.map_visits > VISITS_SPARE + self.geometry.block_count * VISITS_PER_BLOCK
    }

    /// A block's bytes.
    #[inline]
    pub(crate) fn block(&mut self, block: u64) -> Result<Bytes<'a>, Error> {
        let offset = self.geometry.byte_of(block);
        self.image.bytes(offset, self.geometry.block_bytes)
    }

    /// Notes that a block is in use; a second time makes it one that is claimed twice.
    #[inline]
    pub(crate) fn claim(&mut self, block: u64) {
        let place = self.geometry.place_of(block);
        if self.is_metadata(block) || !self.claimed.insert(place) {
            self.claimed_twice.insert(place);
        }
    }

    /// True if a block belongs to a superblock, to descriptors, to a bitmap or to an inode table.
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

    /// Whether the superblock's times are times: then an inode's number is no time of deletion.
    pub(crate) fn has_plausible_times(&self) -> bool {
        let count = self.geometry.inode_count;
        let times = [self.raw.s_mkfs_time, self.raw.s_wtime, self.raw.s_mtime];
        times
            .iter()
            .all(|time| time.get() == 0 || time.get() >= count)
    }

    pub(crate) fn problem(&mut self, kind: ProblemKind, place: Place) {
        self.report.add(kind, place);
    }
}

/// Whole blocks of a device.
pub(crate) fn blocks_on(image: &Image<'_>, geometry: &Geometry) -> u64 {
    image.size_bytes() / geometry.block_bytes as u64
}
