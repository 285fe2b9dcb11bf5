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
    /// `bg_block_bitmap_lo`: block of the block bitmap.
    pub block_bitmap_low: U32,
    /// `bg_inode_bitmap_lo`: block of the inode bitmap.
    pub inode_bitmap_low: U32,
    /// `bg_inode_table_lo`: first block of the inode table.
    pub inode_table_low: U32,
    /// `bg_free_blocks_count_lo`: number of free blocks.
    pub free_blocks_count_low: U16,
    /// `bg_free_inodes_count_lo`: number of free inodes.
    pub free_inodes_count_low: U16,
    /// `bg_used_dirs_count_lo`: number of directories.
    pub directories_count_low: U16,
    /// `bg_flags`: [`GroupFlags`].
    pub flag_bits: U16,
    /// `bg_exclude_bitmap_lo`: block of the exclusion bitmap for snapshots (never merged).
    pub exclude_bitmap_low: U32,
    /// `bg_block_bitmap_csum_lo`: crc32c of the block bitmap, lower half.
    pub block_bitmap_checksum_low: U16,
    /// `bg_inode_bitmap_csum_lo`: crc32c of the inode bitmap, lower half.
    pub inode_bitmap_checksum_low: U16,
    /// `bg_itable_unused_lo`: number of never used inodes at the end of the table.
    pub unused_inodes_count_low: U16,
    /// `bg_checksum`: checksum of the descriptor.
    pub checksum: U16,
}

const _: () = assert!(size_of::<GroupDescriptor>() == SIZE);

impl GroupDescriptor {
    /// Returns `bg_flags`.
    pub fn flags(&self) -> GroupFlags {
        GroupFlags::from_bits_retain(self.flag_bits.get())
    }
}

/// A group descriptor with the feature `64bit`, 64 bytes: the shorter form and the upper halves.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct GroupDescriptor64 {
    /// The lower halves.
    pub base: GroupDescriptor,
    /// `bg_block_bitmap_hi`: block of the block bitmap, upper half.
    pub block_bitmap_high: U32,
    /// `bg_inode_bitmap_hi`: block of the inode bitmap, upper half.
    pub inode_bitmap_high: U32,
    /// `bg_inode_table_hi`: first block of the inode table, upper half.
    pub inode_table_high: U32,
    /// `bg_free_blocks_count_hi`: free blocks, upper half.
    pub free_blocks_count_high: U16,
    /// `bg_free_inodes_count_hi`: free inodes, upper half.
    pub free_inodes_count_high: U16,
    /// `bg_used_dirs_count_hi`: directories, upper half.
    pub directories_count_high: U16,
    /// `bg_itable_unused_hi`: inodes never used, upper half.
    pub unused_inodes_count_high: U16,
    /// `bg_exclude_bitmap_hi`: block of the exclusion bitmap, upper half.
    pub exclude_bitmap_high: U32,
    /// `bg_block_bitmap_csum_hi`: crc32c of the block bitmap, upper half.
    pub block_bitmap_checksum_high: U16,
    /// `bg_inode_bitmap_csum_hi`: crc32c of the inode bitmap, upper half.
    pub inode_bitmap_checksum_high: U16,
    /// `bg_reserved`: padding.
    pub reserved: U32,
}

const _: () = assert!(size_of::<GroupDescriptor64>() == SIZE_64BIT);
