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
    /// `h_magic`: [`MAGIC`].
    pub magic: U32,
    /// `h_blocktype`: [`BlockType`].
    pub block_type: U32,
    /// `h_sequence`: transaction number.
    pub sequence: U32,
}

const _: () = assert!(size_of::<Header>() == 12);

impl Header {
    /// Creates a header with the magic.
    pub const fn new(block_type: BlockType, sequence: u32) -> Self {
        Self {
            magic: U32::new(MAGIC),
            block_type: U32::new(block_type.raw()),
            sequence: U32::new(sequence),
        }
    }

    /// Returns the type and transaction number of a block, if it carries the magic and a known
    /// type.
    pub fn recognise(block: &[u8]) -> Option<(BlockType, u32)> {
        let (header, _) = Self::ref_from_prefix(block).ok()?;
        if header.magic.get() != MAGIC {
            return None;
        }
        Some((
            BlockType::from_raw(header.block_type.get())?,
            header.sequence.get(),
        ))
    }
}

/// The journal's superblock. Version 1 ends after `s_errno`; the rest of its 1024 bytes is ignored.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct JournalSuperblock {
    /// `s_header`: magic and type ([`BlockType::SuperblockV1`] or [`BlockType::SuperblockV2`]).
    pub header: Header,
    /// `s_blocksize`: block size of the journal in bytes.
    pub block_size: U32,
    /// `s_maxlen`: number of blocks of the journal, this one included.
    pub length: U32,
    /// `s_first`: first block of the log.
    pub first_block: U32,
    /// `s_sequence`: number of the first transaction in the log.
    pub sequence: U32,
    /// `s_start`: first block of that transaction; 0 if the log is empty.
    pub start: U32,
    /// `s_errno`: error that aborted the journal (a negative errno), or 0.
    pub error: U32,
    /// `s_feature_compat`: [`JournalCompatible`].
    pub compatible_bits: U32,
    /// `s_feature_incompat`: [`JournalIncompatible`].
    pub incompatible_bits: U32,
    /// `s_feature_ro_compat`: read-only compatible features; there are none.
    pub read_only_compatible_bits: U32,
    /// `s_uuid`: UUID of the journal.
    pub uuid: [u8; 16],
    /// `s_nr_users`: number of file systems that use the journal.
    pub user_count: U32,
    /// `s_dynsuper`: block of a copy of the superblock (never used).
    pub dynamic_superblock: U32,
    /// `s_max_transaction`: maximum number of blocks of a transaction (never used).
    pub max_transaction: U32,
    /// `s_max_trans_data`: maximum number of data blocks of a transaction (never used).
    pub max_transaction_data: U32,
    /// `s_checksum_type`: [`ChecksumType`] of checksums v2 and v3.
    pub checksum_type: u8,
    /// `s_padding2`: padding.
    pub padding2: [u8; 3],
    /// `s_num_fc_blks`: number of fast-commit blocks at the end of the journal.
    pub fast_commit_blocks: U32,
    /// `s_head`: head of the log after a clean unmount; only a hint.
    pub head: U32,
    /// `s_padding`: padding.
    pub padding: [U32; 40],
    /// `s_checksum`: crc32c of the 1024 bytes (checksums v2 and v3).
    pub checksum: U32,
    /// `s_users`: UUIDs of the file systems that use the journal.
    pub users: [[u8; 16]; USERS_MAX],
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
        if self.header.magic.get() != MAGIC {
            return None;
        }
        match BlockType::from_raw(self.header.block_type.get())? {
            BlockType::SuperblockV1 => Some(1),
            BlockType::SuperblockV2 => Some(2),
            _ => None,
        }
    }

    /// Returns the compatible features; none in version 1.
    pub fn compatible(&self) -> JournalCompatible {
        let is_v2 = self.version() == Some(2);
        let bits = if is_v2 { self.compatible_bits.get() } else { 0 };
        JournalCompatible::from_bits_retain(bits)
    }

    /// Returns the incompatible features; none in version 1.
    pub fn incompatible(&self) -> JournalIncompatible {
        let is_v2 = self.version() == Some(2);
        let bits = if is_v2 {
            self.incompatible_bits.get()
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
    /// `h_header`: magic, type, transaction number.
    pub header: Header,
    /// `h_chksum_type`: [`ChecksumType::Crc32`] with checksums v1, else 0.
    pub checksum_type: u8,
    /// `h_chksum_size`: [`CRC32_SIZE`] with checksums v1, else 0.
    pub checksum_size: u8,
    /// `h_padding`: padding.
    pub padding: [u8; 2],
    /// `h_chksum`: the first word is the checksum: v1 of the transaction, v2 and v3 of this block.
    pub checksums: [U32; 8],
    /// `h_commit_sec`: commit time, seconds since 1970.
    pub commit_seconds: U64,
    /// `h_commit_nsec`: commit time, nanoseconds.
    pub commit_nanoseconds: U32,
}

const _: () = assert!(size_of::<CommitBlock>() == 60);

/// The header of a revoke block.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RevokeHeader {
    /// `r_header`: magic, type, transaction number.
    pub header: Header,
    /// `r_count`: number of bytes used in the block, this header included.
    pub length: U32,
}

const _: () = assert!(size_of::<RevokeHeader>() == 16);

/// The last four bytes of descriptor and revoke blocks with checksums v2 and v3.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct BlockTail {
    /// `t_checksum`: crc32c of the block; see [`crate::checksum::journal_block`].
    pub checksum: U32,
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
        header.block_type.set(6);
        assert_eq!(Header::recognise(header.as_bytes()), None);
        assert_eq!(Header::recognise(&[0; 12]), None);
        assert_eq!(Header::recognise(&MAGIC_BYTES), None);
    }

    #[test]
    fn version_1_has_no_features() {
        let mut superblock = JournalSuperblock::default();
        assert_eq!(superblock.version(), None);
        superblock.compatible_bits.set(1);
        superblock.incompatible_bits.set(1);
        superblock.header = Header::new(BlockType::SuperblockV1, 0);
        assert_eq!(superblock.version(), Some(1));
        assert!(superblock.compatible().is_empty());
        assert!(superblock.incompatible().is_empty());
        superblock.header = Header::new(BlockType::SuperblockV2, 0);
        assert_eq!(superblock.version(), Some(2));
        assert_eq!(superblock.compatible(), JournalCompatible::CHECKSUM);
        assert_eq!(superblock.incompatible(), JournalIncompatible::REVOKE);
    }
}
