//! What a check keeps: flat vectors and bit sets, sized once by the superblock.

use layout::feature::Features;
use layout::superblock::Superblock;

use crate::Options;
use crate::bitset::BitSet;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::groups::Group;
use crate::image::{Bytes, Image};
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
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InodeState {
    /// The type's code in directory entries; 0 if the inode is free, [`InodeState::BAD`] if it is in use but of no type.
    pub(crate) file_type: u8,
    /// Whether it counts as in use.
    pub(crate) is_used: bool,
    /// True if its map was looked at.
    pub(crate) has_map: bool,
    /// True if it lies in a bad block, so that nothing is known of it.
    pub(crate) is_lost: bool,
    /// Links, as the inode says.
    pub(crate) links: u16,
    /// Entries found that lead to it.
    pub(crate) references: u32,
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
    /// Blocks in use, by [`Geometry::bit_of`].
    pub(crate) found: BitSet,
    /// Blocks of superblocks, descriptors, bitmaps and inode tables.
    pub(crate) metadata: BitSet,
    /// Blocks that were claimed when they were in use already.
    pub(crate) claimed_twice: Vec<u64>,
    /// By number; the first is unused.
    pub(crate) inodes: Vec<InodeState>,
    /// In the order of their inodes.
    pub(crate) directories: Vec<Directory>,
    /// Blocks of all directories, one directory after another: the block of the file, and where it lies.
    pub(crate) directory_blocks: Vec<(u32, u32)>,
    /// Blocks of maps that were visited.
    pub(crate) map_visits: u64,
    /// Whether a regular file needs the feature `large_file`.
    pub(crate) has_large_file: bool,
    /// Bad blocks that the file system's list names, in ascending order.
    pub(crate) bad_blocks: Vec<u64>,
    /// Attribute blocks: block, references found, references that it says; what does not begin as an attribute block says none.
    pub(crate) attribute_blocks: Vec<(u64, u32, Option<u32>)>,
    pub(crate) report: Report,
}

impl InodeState {
    /// In use, but its mode is of no type.
    pub(crate) const BAD: u8 = 0xFF;
    /// An inode that lies in a bad block. It counts as in use.
    pub(crate) const LOST: Self = Self {
        file_type: Self::BAD,
        is_used: true,
        has_map: false,
        is_lost: true,
        links: 0,
        references: 0,
    };
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
        Self {
            image,
            options,
            raw,
            copy,
            features,
            groups: Vec::with_capacity(geometry.group_count as usize),
            found: BitSet::new(geometry.bit_count()),
            metadata: BitSet::new(geometry.bit_count()),
            claimed_twice: Vec::new(),
            inodes: vec![InodeState::default(); geometry.inode_count as usize + 1],
            directories: Vec::new(),
            directory_blocks: Vec::new(),
            map_visits: 0,
            has_large_file: false,
            bad_blocks: Vec::new(),
            attribute_blocks: Vec::new(),
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
        if !self.found.insert(self.geometry.bit_of(block)) {
            self.claimed_twice.push(block);
        }
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
