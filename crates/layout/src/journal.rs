//! The journal of JBD and JBD2: big-endian, byte for byte what Linux reads and writes.
//!
//! ```text
//! superblock
//! s_first ..     the log, a ring up to s_maxlen: for each transaction
//!                  descriptor block: header, tags (see `crate::tag`), tail
//!                  one block for each tag, escaped if it begins with the magic
//!                  revoke blocks: RevokeHeader, block numbers of 4 bytes (8 with 64bit), tail
//!                  commit block
//! ```
//! An internal journal is a file: its blocks are counted from the file's start, and the superblock
//! is block 0. On an external device they are counted from the *device's* start. There the journal
//! superblock is the block after the ext superblock's (2 with 1024-byte blocks, else 1), the log
//! starts at `s_first`, the block after it, and `s_maxlen` is the whole device.
//!
//! `s_start` is the first block of the oldest transaction that may need replay, 0 if there is none;
//! `s_sequence` is that transaction's number. A block belongs to the log only if its header carries
//! the magic and the expected number. Tails ([`BlockTail`]) exist with checksums v2 and v3 and are
//! the last four bytes of a block.
//!
//! Source: Linux `Documentation/filesystems/ext4/journal.rst`.

use bitflags::bitflags;
use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `h_magic`.
pub const MAGIC: u32 = 0xC03B_3998;
/// The magic as stored on disk; a logged block that begins with it is escaped.
pub const MAGIC_BYTES: [u8; 4] = MAGIC.to_be_bytes();
/// Size of the superblock in bytes.
pub const SUPERBLOCK_SIZE: usize = 1024;
/// Minimum number of blocks of a journal.
pub const BLOCK_COUNT_MIN: u32 = 1024;
/// Maximum number of file systems that share an external journal.
pub const USERS_MAX: usize = 48;
/// Number of fast-commit blocks if `s_num_fc_blks` is 0.
pub const FAST_COMMIT_BLOCKS_DEFAULT: u32 = 256;

/// `h_blocktype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum BlockType {
    /// Tags of the logged blocks that follow.
    Descriptor = 1,
    /// The end of a transaction.
    Commit = 2,
    /// The superblock without features.
    SuperblockV1 = 3,
    /// The superblock with features.
    SuperblockV2 = 4,
    /// Blocks that must not be replayed from this or earlier transactions.
    Revoke = 5,
}

impl BlockType {
    /// Returns the type of a raw `h_blocktype`, if it is known.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            1 => Some(Self::Descriptor),
            2 => Some(Self::Commit),
            3 => Some(Self::SuperblockV1),
            4 => Some(Self::SuperblockV2),
            5 => Some(Self::Revoke),
            _ => None,
        }
    }

    /// Returns the raw `h_blocktype`.
    pub const fn raw(self) -> u32 {
        self as u32
    }
}

bitflags! {
    /// `s_feature_compat` of the journal.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct JournalCompatible: u32 {
        /// Checksums v1: one crc32 over a transaction, in its commit block.
        const CHECKSUM = 0x0001;
    }
}

bitflags! {
    /// `s_feature_incompat` of the journal.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct JournalIncompatible: u32 {
        /// The log may contain revoke blocks.
        const REVOKE = 0x0001;
        /// Block numbers have 64 bits.
        const IS_64BIT = 0x0002;
        /// Commit blocks may be written together with the blocks before them.
        const ASYNC_COMMIT = 0x0004;
        /// Checksums v2: crc32c of each block, 16 bits of it in its tag.
        const CHECKSUM_V2 = 0x0008;
        /// Checksums v3: crc32c of each block, whole in its tag.
        const CHECKSUM_V3 = 0x0010;
        /// The log may contain fast commits.
        const FAST_COMMIT = 0x0020;
    }
}

/// Names of the journal's compatible features, as e2fsprogs prints them.
pub const COMPATIBLE_NAMES: &[(JournalCompatible, &str)] =
    &[(JournalCompatible::CHECKSUM, "journal_checksum")];

/// Names of the journal's incompatible features, as e2fsprogs prints them.
pub const INCOMPATIBLE_NAMES: &[(JournalIncompatible, &str)] = &[
    (JournalIncompatible::REVOKE, "journal_incompat_revoke"),
    (JournalIncompatible::IS_64BIT, "journal_64bit"),
    (JournalIncompatible::ASYNC_COMMIT, "journal_async_commit"),
    (JournalIncompatible::CHECKSUM_V2, "journal_checksum_v2"),
    (JournalIncompatible::CHECKSUM_V3, "journal_checksum_v3"),
    (JournalIncompatible::FAST_COMMIT, "fast_commit"),
];

/// `s_checksum_type` and `h_chksum_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumType {
    /// crc32, most significant bit first: checksums v1.
    Crc32 = 1,
    /// Never used.
    Md5 = 2,
    /// Never used.
    Sha1 = 3,
    /// crc32c: checksums v2 and v3.
    Crc32c = 4,
}

impl ChecksumType {
    /// Returns the type of a raw number, if it is known.
    pub const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            1 => Some(Self::Crc32),
            2 => Some(Self::Md5),
            3 => Some(Self::Sha1),
            4 => Some(Self::Crc32c),
            _ => None,
        }
    }

    /// Returns the raw number.
    pub const fn raw(self) -> u8 {
        self as u8
    }
}

/// `h_chksum_size` of checksums v1.
pub const CRC32_SIZE: u8 = 4;

/// The header of every block of the journal that is not a logged block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub h_magic: U32,
    /// [`BlockType`].
    pub h_blocktype: U32,
    /// Transaction number.
    pub h_sequence: U32,
}

const _: () = assert!(size_of::<Header>() == 12);

impl Header {
    /// Creates a header with the magic.
    pub const fn new(block_type: BlockType, sequence: u32) -> Self {
        Self {
            h_magic: U32::new(MAGIC),
            h_blocktype: U32::new(block_type.raw()),
            h_sequence: U32::new(sequence),
        }
    }

    /// Returns the type and transaction number of a block, if it carries the magic and a known
    /// type.
    pub fn recognise(block: &[u8]) -> Option<(BlockType, u32)> {
        let (header, _) = Self::ref_from_prefix(block).ok()?;
        if header.h_magic.get() != MAGIC {
            return None;
        }
        Some((
            BlockType::from_raw(header.h_blocktype.get())?,
            header.h_sequence.get(),
        ))
    }
}

/// The journal's superblock. Version 1 ends after `s_errno`; the rest of its 1024 bytes is ignored.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct JournalSuperblock {
    /// Magic and type ([`BlockType::SuperblockV1`] or [`BlockType::SuperblockV2`]).
    pub s_header: Header,
    /// Block size of the journal in bytes.
    pub s_blocksize: U32,
    /// Number of blocks of the journal, this one included.
    pub s_maxlen: U32,
    /// First block of the log.
    pub s_first: U32,
    /// Number of the first transaction in the log.
    pub s_sequence: U32,
    /// First block of that transaction; 0 if the log is empty.
    pub s_start: U32,
    /// Error that aborted the journal (a negative errno), or 0.
    pub s_errno: U32,
    /// [`JournalCompatible`].
    pub s_feature_compat: U32,
    /// [`JournalIncompatible`].
    pub s_feature_incompat: U32,
    /// Read-only compatible features; there are none.
    pub s_feature_ro_compat: U32,
    /// UUID of the journal.
    pub s_uuid: [u8; 16],
    /// Number of file systems that use the journal.
    pub s_nr_users: U32,
    /// Block of a copy of the superblock (never used).
    pub s_dynsuper: U32,
    /// Maximum number of blocks of a transaction (never used).
    pub s_max_transaction: U32,
    /// Maximum number of data blocks of a transaction (never used).
    pub s_max_trans_data: U32,
    /// [`ChecksumType`] of checksums v2 and v3.
    pub s_checksum_type: u8,
    /// Padding.
    pub s_padding2: [u8; 3],
    /// Number of fast-commit blocks at the end of the journal.
    pub s_num_fc_blks: U32,
    /// Head of the log after a clean unmount; only a hint.
    pub s_head: U32,
    /// Padding.
    pub s_padding: [U32; 40],
    /// crc32c of the 1024 bytes (checksums v2 and v3).
    pub s_checksum: U32,
    /// UUIDs of the file systems that use the journal.
    pub s_users: [[u8; 16]; USERS_MAX],
}

const _: () = assert!(size_of::<JournalSuperblock>() == SUPERBLOCK_SIZE);

impl Default for JournalSuperblock {
    /// Returns a superblock of zeroes.
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl JournalSuperblock {
    /// Returns the version (1 or 2), if the magic and type are those of a superblock.
    pub fn version(&self) -> Option<u8> {
        if self.s_header.h_magic.get() != MAGIC {
            return None;
        }
        match BlockType::from_raw(self.s_header.h_blocktype.get())? {
            BlockType::SuperblockV1 => Some(1),
            BlockType::SuperblockV2 => Some(2),
            _ => None,
        }
    }

    /// Returns the compatible features; none in version 1.
    pub fn compatible(&self) -> JournalCompatible {
        let is_v2 = self.version() == Some(2);
        let bits = if is_v2 {
            self.s_feature_compat.get()
        } else {
            0
        };
        JournalCompatible::from_bits_retain(bits)
    }

    /// Returns the incompatible features; none in version 1.
    pub fn incompatible(&self) -> JournalIncompatible {
        let is_v2 = self.version() == Some(2);
        let bits = if is_v2 {
            self.s_feature_incompat.get()
        } else {
            0
        };
        JournalIncompatible::from_bits_retain(bits)
    }
}

/// The commit block. A transaction with a valid commit block is replayed.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CommitBlock {
    /// Magic, type, transaction number.
    pub h_header: Header,
    /// [`ChecksumType::Crc32`] with checksums v1, else 0.
    pub h_chksum_type: u8,
    /// [`CRC32_SIZE`] with checksums v1, else 0.
    pub h_chksum_size: u8,
    /// Padding.
    pub h_padding: [u8; 2],
    /// The first word is the checksum: v1 of the transaction, v2 and v3 of this block.
    pub h_chksum: [U32; 8],
    /// Commit time, seconds since 1970.
    pub h_commit_sec: U64,
    /// Commit time, nanoseconds.
    pub h_commit_nsec: U32,
}

const _: () = assert!(size_of::<CommitBlock>() == 60);

/// The header of a revoke block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RevokeHeader {
    /// Magic, type, transaction number.
    pub r_header: Header,
    /// Number of bytes used in the block, this header included.
    pub r_count: U32,
}

const _: () = assert!(size_of::<RevokeHeader>() == 16);

/// The last four bytes of descriptor and revoke blocks with checksums v2 and v3.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct BlockTail {
    /// crc32c of the block; see [`crate::checksum::journal_block`].
    pub t_checksum: U32,
}

const _: () = assert!(size_of::<BlockTail>() == 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_recognised_by_magic_and_type() {
        for raw in 1..=5 {
            let block_type = BlockType::from_raw(raw).unwrap();
            let header = Header::new(block_type, 0xFFFF_FFF0);
            assert_eq!(header.as_bytes()[..4], MAGIC_BYTES);
            assert_eq!(
                Header::recognise(header.as_bytes()),
                Some((block_type, 0xFFFF_FFF0))
            );
        }
        let mut header = Header::new(BlockType::Commit, 1);
        header.h_blocktype.set(6);
        assert_eq!(Header::recognise(header.as_bytes()), None);
        assert_eq!(Header::recognise(&[0; 12]), None);
        assert_eq!(Header::recognise(&MAGIC_BYTES), None);
    }

    #[test]
    fn version_1_has_no_features() {
        let mut superblock = JournalSuperblock::default();
        assert_eq!(superblock.version(), None);
        superblock.s_feature_compat.set(1);
        superblock.s_feature_incompat.set(1);
        superblock.s_header = Header::new(BlockType::SuperblockV1, 0);
        assert_eq!(superblock.version(), Some(1));
        assert!(superblock.compatible().is_empty());
        assert!(superblock.incompatible().is_empty());
        superblock.s_header = Header::new(BlockType::SuperblockV2, 0);
        assert_eq!(superblock.version(), Some(2));
        assert_eq!(superblock.compatible(), JournalCompatible::CHECKSUM);
        assert_eq!(superblock.incompatible(), JournalIncompatible::REVOKE);
    }
}
