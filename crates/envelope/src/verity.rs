//! dm-verity: a tree of hashes over data, whose root hash vouches for all of it. Format version 1,
//! SHA-256, as `veritysetup format` makes it.
//!
//! ```text
//! | superblock | level n: 1 block | ... | level 1 | level 0 |
//! ```
//!
//! A digest is that of the salt and a block. Level 0 has the digests of the data blocks, each other
//! level those of the blocks of the level below it; the rest of a level's last block is zero. The
//! root hash is the digest of the only block of the last level, or of the data if that is one
//! block.
//!
//! The data is read once, and each level once for the next. A hash block depends only on the blocks
//! below it, so several threads compute a level; each holds one hash block and a piece of data.

mod level;

use std::fs::File;
use std::os::unix::fs::FileExt;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::error::Error;
use level::{Blocks, Hasher};

/// Size of a digest in bytes.
pub const DIGEST_BYTES: usize = 32;
/// Size of the longest salt in bytes.
pub const SALT_BYTES_MAX: usize = 256;
/// Smallest and largest size of a block in bytes.
const BLOCK_BYTES: core::ops::RangeInclusive<u32> = 512..=512 << 10;
const SIGNATURE: [u8; 8] = *b"verity\0\0";
const VERSION: u32 = 1;
/// Type of hash trees whose salt precedes the data.
const HASH_TYPE: u32 = 1;
const ALGORITHM: &[u8] = b"sha256";

/// Returns true if a long work is to fail.
pub type IsStopped<'s> = &'s (dyn Fn() -> bool + Sync);

/// The parameters of a hash tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Size of a data block in bytes.
    pub data_block_bytes: u32,
    /// Size of a hash block in bytes.
    pub hash_block_bytes: u32,
    /// The salt, at most 256 bytes.
    pub salt: Vec<u8>,
    /// UUID in the superblock; none for a tree without a superblock.
    pub superblock: Option<[u8; 16]>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy)]
pub struct Part<'f> {
    /// The file.
    pub file: &'f File,
    /// Offset of the part in bytes.
    pub offset: u64,
}

/// The superblock, as stored.
#[derive(FromZeros, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Superblock {
    signature: [u8; 8],
    version: U32,
    hash_type: U32,
    uuid: [u8; 16],
    algorithm: [u8; 32],
    data_block_bytes: U32,
    hash_block_bytes: U32,
    data_block_count: U64,
    salt_bytes: U16,
    padding: [u8; 6],
    salt: [u8; SALT_BYTES_MAX],
    padding_end: [u8; 168],
}

const _: () = assert!(size_of::<Superblock>() == 512);

impl Options {
    fn check(&self, data_bytes: u64) -> Result<(), Error> {
        let is_size = |bytes: u32| bytes.is_power_of_two() && BLOCK_BYTES.contains(&bytes);
        if !is_size(self.data_block_bytes) || !is_size(self.hash_block_bytes) {
            return Err(Error::Invalid(
                "blocks of dm-verity have a power of two of bytes, from 512 to 524288",
            ));
        }
        if self.salt.len() > SALT_BYTES_MAX {
            return Err(Error::Invalid("a salt has at most 256 bytes"));
        }
        if data_bytes == 0 || !data_bytes.is_multiple_of(self.data_block_bytes.into()) {
            return Err(Error::Invalid("the data has no whole number of blocks"));
        }
        Ok(())
    }

    /// Returns the number of digests in a hash block.
    fn fanout(&self) -> u64 {
        u64::from(self.hash_block_bytes) / DIGEST_BYTES as u64
    }

    /// Returns the numbers of blocks of the levels, level 0 first.
    fn levels(&self, data_bytes: u64) -> Vec<u64> {
        let mut levels = Vec::new();
        let mut blocks = data_bytes / u64::from(self.data_block_bytes);
        while blocks > 1 {
            blocks = blocks.div_ceil(self.fanout());
            levels.push(blocks);
        }
        levels
    }

    /// Returns the number of bytes that superblock and tree take for this many bytes of data.
    ///
    /// # Errors
    /// Fails if a parameter is out of range.
    pub fn hash_bytes(&self, data_bytes: u64) -> Result<u64, Error> {
        self.check(data_bytes)?;
        let blocks: u64 = self.levels(data_bytes).iter().sum();
        let with_superblock = blocks + u64::from(self.superblock.is_some());
        Ok(with_superblock * u64::from(self.hash_block_bytes))
    }
}

/// Writes the hash tree of data and returns its root hash.
///
/// # Errors
/// Fails if a parameter is out of range, or if a file cannot be read or written.
pub fn format(
    data: Part<'_>,
    data_bytes: u64,
    hashes: Part<'_>,
    options: &Options,
) -> Result<[u8; DIGEST_BYTES], Error> {
    format_until(data, data_bytes, hashes, options, &|| false)
}

/// As [`format`], which fails once `is_stopped` returns true.
pub(crate) fn format_until(
    data: Part<'_>,
    data_bytes: u64,
    hashes: Part<'_>,
    options: &Options,
    is_stopped: IsStopped<'_>,
) -> Result<[u8; DIGEST_BYTES], Error> {
    options.check(data_bytes)?;
    let hash_block = u64::from(options.hash_block_bytes);
    if !hashes.offset.is_multiple_of(hash_block) {
        return Err(Error::Invalid("the hash tree starts with a whole block"));
    }
    let hasher = Hasher::new(&options.salt);
    let has_superblock = u64::from(options.superblock.is_some());
    let levels = options.levels(data_bytes);
    let mut end = hashes.offset + (has_superblock + levels.iter().sum::<u64>()) * hash_block;
    let mut below = Blocks {
        part: data,
        block_bytes: options.data_block_bytes,
        count: data_bytes / u64::from(options.data_block_bytes),
    };
    for count in levels {
        end -= count * hash_block;
        let level = Blocks {
            part: Part {
                offset: end,
                ..hashes
            },
            block_bytes: options.hash_block_bytes,
            count,
        };
        level::hash(&hasher, &below, &level, is_stopped)?;
        below = level;
    }
    let root = level::digest_of_first(&hasher, &below)?;
    if let Some(uuid) = options.superblock {
        let block = superblock(uuid, data_bytes, options);
        let written = hashes.file.write_all_at(&block, hashes.offset);
        written.map_err(Error::io("the superblock of dm-verity"))?;
    }
    Ok(root)
}

/// Returns the superblock in its block.
fn superblock(uuid: [u8; 16], data_bytes: u64, options: &Options) -> Vec<u8> {
    let mut raw = Superblock::new_zeroed();
    raw.signature = SIGNATURE;
    raw.version.set(VERSION);
    raw.hash_type.set(HASH_TYPE);
    raw.uuid = uuid;
    raw.algorithm[..ALGORITHM.len()].copy_from_slice(ALGORITHM);
    raw.data_block_bytes.set(options.data_block_bytes);
    raw.hash_block_bytes.set(options.hash_block_bytes);
    raw.data_block_count
        .set(data_bytes / u64::from(options.data_block_bytes));
    raw.salt_bytes.set(options.salt.len() as u16);
    raw.salt[..options.salt.len()].copy_from_slice(&options.salt);
    let mut block = raw.as_bytes().to_vec();
    block.resize(options.hash_block_bytes as usize, 0);
    block
}
