//! Group descriptors: the location of a group's bitmaps and inode table, and its free counts.
//!
//! A descriptor takes 32 bytes, or `s_desc_size` (64) with the feature `64bit`; the longer form
//! starts with the shorter one. The descriptor table starts in the block after each copy of the
//! superblock.
//!
//! `bg_checksum` is a crc16 with the feature `uninit_bg` (`gdt_csum`), see
//! [`crate::checksum::group_descriptor_crc16`], and the lower half of a crc32c with
//! `metadata_csum`, see [`crate::checksum::metadata::group_descriptor`]. `metadata_csum` takes
//! precedence.
//!
//! # Uninitialised groups
//!
//! With a checksum of either kind `bg_flags` and `bg_itable_unused` are valid, and spare the first
//! initialisation of a group:
//!
//! | flag or field | what is not initialised | what stands in its place |
//! |---|---|---|
//! | `BLOCK_UNINIT` | the block bitmap | the group's own metadata is in use, all else is free |
//! | `INODE_UNINIT` | the inode bitmap and the inode table | all inodes are free |
//! | `bg_itable_unused` | the inodes at the end of the table | they are free |
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

/// The numbers of a descriptor, both halves joined.
impl GroupDescriptor64 {
    /// Reads a descriptor of any size: the upper halves are 0 if it is shorter than 64 bytes, and
    /// bytes after the 64th are ignored.
    pub fn read(bytes: &[u8]) -> Self {
        let mut raw = Self::default();
        let count = bytes.len().min(SIZE_64BIT);
        raw.as_mut_bytes()[..count].copy_from_slice(&bytes[..count]);
        raw
    }

    /// Returns `bg_flags`.
    pub fn flags(&self) -> GroupFlags {
        self.base.flags()
    }

    /// Returns the block of the block bitmap.
    pub fn block_bitmap(&self) -> u64 {
        join32(self.base.block_bitmap_low, self.block_bitmap_high)
    }

    /// Returns the block of the inode bitmap.
    pub fn inode_bitmap(&self) -> u64 {
        join32(self.base.inode_bitmap_low, self.inode_bitmap_high)
    }

    /// Returns the first block of the inode table.
    pub fn inode_table(&self) -> u64 {
        join32(self.base.inode_table_low, self.inode_table_high)
    }

    /// Returns the number of free blocks.
    pub fn free_blocks_count(&self) -> u32 {
        join16(self.base.free_blocks_count_low, self.free_blocks_count_high)
    }

    /// Returns the number of free inodes.
    pub fn free_inodes_count(&self) -> u32 {
        join16(self.base.free_inodes_count_low, self.free_inodes_count_high)
    }

    /// Returns the number of directories.
    pub fn directories_count(&self) -> u32 {
        join16(self.base.directories_count_low, self.directories_count_high)
    }

    /// Returns the number of never used inodes at the end of the table.
    pub fn unused_inodes_count(&self) -> u32 {
        join16(
            self.base.unused_inodes_count_low,
            self.unused_inodes_count_high,
        )
    }

    /// Returns the checksum of the block bitmap. A descriptor of 32 bytes has its lower half only.
    pub fn block_bitmap_checksum(&self) -> u32 {
        join16(
            self.base.block_bitmap_checksum_low,
            self.block_bitmap_checksum_high,
        )
    }

    /// Returns the checksum of the inode bitmap. A descriptor of 32 bytes has its lower half only.
    pub fn inode_bitmap_checksum(&self) -> u32 {
        join16(
            self.base.inode_bitmap_checksum_low,
            self.inode_bitmap_checksum_high,
        )
    }
}

fn join32(low: U32, high: U32) -> u64 {
    u64::from(low.get()) | (u64::from(high.get()) << 32)
}

fn join16(low: U16, high: U16) -> u32 {
    u32::from(low.get()) | (u32::from(high.get()) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_descriptor_has_no_upper_halves() {
        let bytes: Vec<u8> = (1..=70).collect();
        let (short, long) = (
            GroupDescriptor64::read(&bytes[..SIZE]),
            GroupDescriptor64::read(&bytes),
        );
        assert_eq!(short.block_bitmap(), 0x0403_0201);
        assert_eq!(long.block_bitmap(), 0x2423_2221_0403_0201);
        assert_eq!(short.inode_bitmap(), 0x0807_0605);
        assert_eq!(long.inode_bitmap(), 0x2827_2625_0807_0605);
        assert_eq!(short.inode_table(), 0x0C0B_0A09);
        assert_eq!(long.inode_table(), 0x2C2B_2A29_0C0B_0A09);
        assert_eq!(short.free_blocks_count(), 0x0E0D);
        assert_eq!(long.free_blocks_count(), 0x2E2D_0E0D);
        assert_eq!(long.free_inodes_count(), 0x302F_100F);
        assert_eq!(long.directories_count(), 0x3231_1211);
        assert_eq!(long.unused_inodes_count(), 0x3433_1E1D);
        assert_eq!(long.block_bitmap_checksum(), 0x3A39_1A19);
        assert_eq!(long.inode_bitmap_checksum(), 0x3C3B_1C1B);
        assert_eq!(short.inode_bitmap_checksum(), 0x1C1B);
        assert_eq!(long.as_bytes(), &bytes[..SIZE_64BIT]);
    }
}
