//! Group descriptors: the location of a group's bitmaps and inode table, and its free counts.
//!
//! A descriptor takes 32 bytes, or `s_desc_size` (64) with the feature `64bit`; the longer form
//! starts with the shorter one. The descriptor table starts in the block after each copy of the
//! superblock.
//!
//! `bg_checksum` is a crc16 with the feature `uninit_bg` (`gdt_csum`); see
//! [`crate::checksum::group_descriptor_crc16`].
//!
//! Source: Linux `Documentation/filesystems/ext4/group_descr.rst`.

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of a descriptor without `64bit` in bytes.
pub const SIZE: usize = 32;
/// Size of a descriptor with `64bit` in bytes.
pub const SIZE_64BIT: usize = 64;

bitflags! {
    /// `bg_flags`; valid only with `uninit_bg` or `metadata_csum`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct GroupFlags: u16 {
        /// The inode table and its bitmap are not initialised.
        const INODE_UNINIT = 0x0001;
        /// The block bitmap is not initialised.
        const BLOCK_UNINIT = 0x0002;
        /// The inode table is zeroed.
        const INODE_ZEROED = 0x0004;
    }
}

/// A group descriptor, 32 bytes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct GroupDescriptor {
    /// Block of the block bitmap.
    pub bg_block_bitmap_lo: U32,
    /// Block of the inode bitmap.
    pub bg_inode_bitmap_lo: U32,
    /// First block of the inode table.
    pub bg_inode_table_lo: U32,
    /// Number of free blocks.
    pub bg_free_blocks_count_lo: U16,
    /// Number of free inodes.
    pub bg_free_inodes_count_lo: U16,
    /// Number of directories.
    pub bg_used_dirs_count_lo: U16,
    /// [`GroupFlags`].
    pub bg_flags: U16,
    /// Block of the exclusion bitmap for snapshots (never merged).
    pub bg_exclude_bitmap_lo: U32,
    /// crc32c of the block bitmap, lower half.
    pub bg_block_bitmap_csum_lo: U16,
    /// crc32c of the inode bitmap, lower half.
    pub bg_inode_bitmap_csum_lo: U16,
    /// Number of never used inodes at the end of the table.
    pub bg_itable_unused_lo: U16,
    /// Checksum of the descriptor.
    pub bg_checksum: U16,
}

const _: () = assert!(size_of::<GroupDescriptor>() == SIZE);

impl GroupDescriptor {
    /// Returns `bg_flags`.
    pub fn flags(&self) -> GroupFlags {
        GroupFlags::from_bits_retain(self.bg_flags.get())
    }
}

/// A group descriptor with the feature `64bit`, 64 bytes: the shorter form and the upper halves.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct GroupDescriptor64 {
    /// The lower halves.
    pub base: GroupDescriptor,
    /// Block of the block bitmap, upper half.
    pub bg_block_bitmap_hi: U32,
    /// Block of the inode bitmap, upper half.
    pub bg_inode_bitmap_hi: U32,
    /// First block of the inode table, upper half.
    pub bg_inode_table_hi: U32,
    /// Free blocks, upper half.
    pub bg_free_blocks_count_hi: U16,
    /// Free inodes, upper half.
    pub bg_free_inodes_count_hi: U16,
    /// Directories, upper half.
    pub bg_used_dirs_count_hi: U16,
    /// Inodes never used, upper half.
    pub bg_itable_unused_hi: U16,
    /// Block of the exclusion bitmap, upper half.
    pub bg_exclude_bitmap_hi: U32,
    /// crc32c of the block bitmap, upper half.
    pub bg_block_bitmap_csum_hi: U16,
    /// crc32c of the inode bitmap, upper half.
    pub bg_inode_bitmap_csum_hi: U16,
    /// Padding.
    pub bg_reserved: U32,
}

const _: () = assert!(size_of::<GroupDescriptor64>() == SIZE_64BIT);
