//! Quota files (`quota`): for each user, group or project the space and inodes in use, and limits.
//!
//! ```text
//! block 0: | magic | version | grace times | flags | blocks | free block | block with room |
//! block 1: the root of a radix tree: 256 block numbers, by the top byte of an id
//! others:  nodes of the tree, four levels with the root; data blocks: | header | 14 entries |
//! ```
//!
//! Blocks have 1024 bytes whatever those of the file system have. The file is that of Linux's
//! "vfsv1" (version 1 of the format "vfsv0"), in an inode without a name.
//!
//! Source: `quotaio_tree.h` and `quotaio_v2.h` of the Linux quota tools, as facts about the bytes.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a block of the file in bytes.
pub const BLOCK_SIZE: usize = 1024;
/// The value of [`Header::version`].
pub const VERSION: u32 = 1;
/// Block of the root of the tree.
pub const ROOT_BLOCK: u32 = 1;
/// Number of levels of the tree.
pub const DEPTH: u32 = 4;
/// Number of entries in a data block.
pub const ENTRIES_PER_BLOCK: usize = (BLOCK_SIZE - size_of::<DataHeader>()) / size_of::<Entry>();
/// Default grace time of blocks and inodes in seconds: a week.
pub const GRACE_SECONDS: u32 = 7 * 24 * 60 * 60;
/// Size of the unit in which space is limited, in bytes.
pub const LIMIT_UNIT: u64 = 1024;

/// The kind of the owners that a quota file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QuotaKind {
    /// Users.
    User,
    /// Groups.
    Group,
    /// Projects.
    Project,
}

impl QuotaKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::User, Self::Group, Self::Project];

    /// Returns the value of [`Header::magic`].
    pub const fn magic(self) -> u32 {
        match self {
            Self::User => 0xD9C0_1F11,
            Self::Group => 0xD9C0_1927,
            Self::Project => 0xD9C0_3F14,
        }
    }

    /// Returns the name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Project => "project",
        }
    }
}

/// `v2_disk_dqheader` and `v2_disk_dqinfo`: the start of block 0.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// `dqh_magic`: [`QuotaKind::magic`].
    pub magic: U32,
    /// `dqh_version`: [`VERSION`].
    pub version: U32,
    /// `dqi_bgrace`: seconds for which a soft limit of space may be exceeded.
    pub space_grace: U32,
    /// `dqi_igrace`: seconds for which a soft limit of inodes may be exceeded.
    pub inode_grace: U32,
    /// `dqi_flags`: flags, none of which is used.
    pub flags: U32,
    /// `dqi_blocks`: number of blocks in the file.
    pub blocks: U32,
    /// `dqi_free_blk`: first block of the list of free ones, or 0.
    pub free_block: U32,
    /// `dqi_free_entry`: first data block with a free entry, or 0.
    pub block_with_room: U32,
}

const _: () = assert!(size_of::<Header>() == 32);

/// `qt_disk_dqdbheader`: the start of a data block, or of a free block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DataHeader {
    /// `dqdh_next_free`: next block in the list of free blocks or of those with room, or 0.
    pub next: U32,
    /// `dqdh_prev_free`: previous block in the list of blocks with room, or 0.
    pub previous: U32,
    /// `dqdh_entries`: number of entries in use.
    pub entries: U16,
    /// `dqdh_pad1`: padding.
    pub pad: U16,
    /// `dqdh_pad2`: padding.
    pub pad_more: U32,
}

const _: () = assert!(size_of::<DataHeader>() == 16);

/// `v2r1_disk_dqblk`: an entry. One of zeroes is free.
#[derive(
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
)]
#[repr(C)]
pub struct Entry {
    /// `dqb_id`: user, group or project.
    pub id: U32,
    /// `dqb_pad`: padding.
    pub pad: U32,
    /// `dqb_ihardlimit`: largest number of inodes, or 0.
    pub inode_hard: U64,
    /// `dqb_isoftlimit`: number of inodes that may be exceeded for a time, or 0.
    pub inode_soft: U64,
    /// `dqb_curinodes`: number of inodes.
    pub inodes: U64,
    /// `dqb_bhardlimit`: largest space in KiB, or 0.
    pub space_hard: U64,
    /// `dqb_bsoftlimit`: space in KiB that may be exceeded for a time, or 0.
    pub space_soft: U64,
    /// `dqb_curspace`: space in bytes.
    pub space: U64,
    /// `dqb_btime`: end of the time for which the space may exceed its soft limit, or 0.
    pub space_time: U64,
    /// `dqb_itime`: the same for inodes. 1 in an entry that would be zero without it.
    pub inode_time: U64,
}

const _: () = assert!(size_of::<Entry>() == 72);
const _: () = assert!(ENTRIES_PER_BLOCK == 14);
