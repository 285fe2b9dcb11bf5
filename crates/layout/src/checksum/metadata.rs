//! Checksums of the feature `metadata_csum`, all crc32c without a final inversion.
//!
//! A checksum starts from the seed of the file system ([`seed`]), so that a block of another file
//! system is recognised, and covers what says where the structure belongs:
//!
//! | structure | stored in | covers, from which seed |
//! |---|---|---|
//! | superblock | `s_checksum` | [`super::superblock`]; the only one without the seed |
//! | group descriptor | `bg_checksum`, 16 bits | the group number, the descriptor |
//! | bitmaps | `bg_block_bitmap_csum`, `bg_inode_bitmap_csum` | the bits of the group |
//! | inode | `i_checksum` | number and generation ([`owner`]), the inode of the table |
//! | directory leaf | [`crate::directory::EntryTail`] | the owner, the block before the tail |
//! | index block | [`crate::htree::Tail`] | the owner, the entries in use, the tail |
//! | extent block | [`crate::extent::Tail`] | the owner, the block before the tail |
//! | attribute block | `h_checksum` | the block number, the block |
//! | orphan file block | [`crate::orphan::Tail`] | the owner, the block number, the slots |
//! | multiple mount protection | `mmp_checksum` | the structure before the checksum |
//!
//! With descriptors of 32 bytes bitmap checksums have 16 bits, as have those of inodes without an
//! extra part: the lower half of the value.

use core::mem::offset_of;

use zerocopy::{FromBytes, IntoBytes};

use super::{START, crc32c, crc32c_with_hole};
use crate::attribute::BlockHeader;
use crate::directory::TAIL_SIZE;
use crate::extent;
use crate::feature::Incompatible;
use crate::group::GroupDescriptor;
use crate::htree::{CountLimit, Entry, Tail};
use crate::inode::{BASE_SIZE, Inode, InodeExtra, has_checksum_high};
use crate::multi_mount::MultiMountBlock;
use crate::orphan;
use crate::superblock::Superblock;

/// Offset of `i_checksum_lo` in an inode.
const INODE_LOW: usize = offset_of!(Inode, checksum_low);
/// Offset of `i_checksum_hi` in an inode.
const INODE_HIGH: usize = BASE_SIZE + offset_of!(InodeExtra, checksum_high);

/// Returns the seed of a file system's checksums: `s_checksum_seed` with the feature
/// `metadata_csum_seed`, else crc32c of `s_uuid` from [`START`].
pub fn seed(superblock: &Superblock) -> u32 {
    let incompatible = superblock.features().incompatible;
    if incompatible.contains(Incompatible::METADATA_CSUM_SEED) {
        superblock.checksum_seed.get()
    } else {
        crc32c(START, &superblock.uuid)
    }
}

/// Returns the seed of the structures of an inode: crc32c of its number and of its generation, each
/// little-endian. An inode that is used again has another generation.
pub fn owner(seed: u32, inode: u32, generation: u32) -> u32 {
    let crc = crc32c(seed, &inode.to_le_bytes());
    crc32c(crc, &generation.to_le_bytes())
}

/// Returns a group descriptor's `bg_checksum`: the lower half of crc32c of the little-endian group
/// number, then of the descriptor's 32 or 64 bytes with `bg_checksum` as zero.
///
/// # Panics
/// Panics if the descriptor is shorter than 32 bytes.
pub fn group_descriptor(seed: u32, group: u32, descriptor: &[u8]) -> u16 {
    let at = offset_of!(GroupDescriptor, checksum);
    let crc = crc32c(seed, &group.to_le_bytes());
    let crc = crc32c(crc32c(crc, &descriptor[..at]), &[0; 2]);
    crc32c(crc, &descriptor[at + 2..]) as u16
}

/// Returns the checksum of a block bitmap or an inode bitmap. It covers `bits / 8` bytes, where
/// `bits` is the number of blocks or inodes of a group, also for a last group that is shorter.
///
/// # Panics
/// Panics if the bitmap has fewer bits.
pub fn bitmap(seed: u32, bitmap: &[u8], bits: u32) -> u32 {
    crc32c(seed, &bitmap[..bits as usize / 8])
}

/// Returns the checksum of an inode: crc32c from its [`owner`] of the whole inode of the table,
/// with both halves of the checksum as zero. Without [`has_checksum_high`] the bytes of the upper
/// half are covered as they are, and the lower half of the value is stored.
///
/// # Panics
/// Panics if the inode is shorter than 128 bytes.
pub fn inode(owner: u32, bytes: &[u8]) -> u32 {
    let crc = crc32c(crc32c(owner, &bytes[..INODE_LOW]), &[0; 2]);
    if !has_checksum_high(bytes) {
        return crc32c(crc, &bytes[INODE_LOW + 2..]);
    }
    let crc = crc32c(crc, &bytes[INODE_LOW + 2..INODE_HIGH]);
    crc32c(crc32c(crc, &[0; 2]), &bytes[INODE_HIGH + 2..])
}

/// True if the checksum stored in an inode of the table is right. An inode whose base part is all
/// zero was never written, and has none.
///
/// # Panics
/// Panics if the inode is shorter than 128 bytes.
pub fn is_inode_good(seed: u32, number: u32, bytes: &[u8]) -> bool {
    let Ok((raw, rest)) = Inode::ref_from_prefix(bytes) else {
        return false;
    };
    let computed = inode(owner(seed, number, raw.generation.get()), bytes);
    let low = raw.checksum_low.get();
    let is_same = if has_checksum_high(bytes) {
        let at = offset_of!(InodeExtra, checksum_high);
        let high = u16::from_le_bytes([rest[at], rest[at + 1]]);
        u32::from(low) | (u32::from(high) << 16) == computed
    } else {
        low == computed as u16
    };
    is_same || bytes[..BASE_SIZE].iter().all(|byte| *byte == 0)
}

/// Returns the checksum in the tail of a directory leaf or of a directory without a tree: crc32c
/// from the [`owner`] of the block before its last 12 bytes.
///
/// # Panics
/// Panics if the block is shorter than a tail.
pub fn directory_leaf(owner: u32, block: &[u8]) -> u32 {
    crc32c(owner, &block[..block.len() - TAIL_SIZE])
}

/// Returns the tail of an index block, and the checksum that it should have: crc32c from the
/// [`owner`] of the block up to the last entry in use, then of the tail with the checksum as zero.
/// The tail follows the entry that the limit names last. `None` if the limit or the count leaves no
/// room for it. The entries start at `entries_offset`.
pub fn index_block(owner: u32, block: &[u8], entries_offset: usize) -> Option<(Tail, u32)> {
    let (head, _) = CountLimit::ref_from_prefix(block.get(entries_offset..)?).ok()?;
    let end_of = |count: u16| entries_offset + usize::from(count) * size_of::<Entry>();
    let (tail, _) = Tail::read_from_prefix(block.get(end_of(head.limit.get())..)?).ok()?;
    let used = block.get(..end_of(head.count.get()))?;
    let crc = crc32c(crc32c(owner, used), &tail.reserved.get().to_le_bytes());
    Some((tail, crc32c(crc, &[0; 4])))
}

/// Returns the tail of an extent block, and the checksum that it should have: crc32c from the
/// [`owner`] of the block before the tail. `None` if the capacity leaves no room for it.
pub fn extent_block(owner: u32, block: &[u8]) -> Option<(extent::Tail, u32)> {
    let (header, _) = extent::Header::ref_from_prefix(block).ok()?;
    let at = header.tail_offset();
    let (tail, _) = extent::Tail::read_from_prefix(block.get(at..)?).ok()?;
    Some((tail, crc32c(owner, &block[..at])))
}

/// Returns an attribute block's `h_checksum`: crc32c of the block number in 64 bits, little-endian,
/// then of the block with `h_checksum` as zero. It belongs to no inode, as inodes share the block.
///
/// # Panics
/// Panics if the block is shorter than its header.
pub fn attribute_block(seed: u32, number: u64, block: &[u8]) -> u32 {
    let crc = crc32c(seed, &number.to_le_bytes());
    crc32c_with_hole(crc, block, offset_of!(BlockHeader, checksum))
}

/// Returns the checksum in the tail of a block of the orphan file: crc32c from the file's [`owner`]
/// of the block number in 64 bits, little-endian, then of the block before the tail.
///
/// # Panics
/// Panics if the block is shorter than a tail.
pub fn orphan_block(owner: u32, number: u64, block: &[u8]) -> u32 {
    let crc = crc32c(owner, &number.to_le_bytes());
    crc32c(crc, &block[..block.len() - orphan::TAIL_SIZE])
}

/// Returns the `mmp_checksum` of the block of multiple mount protection: crc32c of the structure's
/// bytes before it.
pub fn multi_mount(seed: u32, block: &MultiMountBlock) -> u32 {
    crc32c(
        seed,
        &block.as_bytes()[..offset_of!(MultiMountBlock, checksum)],
    )
}
