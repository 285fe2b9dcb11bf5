//! Inodes: 128 bytes, and with `s_inode_size` above 128 an extra part of `i_extra_isize` bytes
//! after them.
//!
//! The 15 words of `i_block` hold one of: 12 direct block numbers and the roots of a single, a
//! double and a triple indirect tree; the target of a short symbolic link; a device number (see
//! [`crate::device`]); the root of an extent tree. `i_dtime` is the time of deletion, or the next
//! inode while the inode is on the orphan list.
//!
//! Source: Linux `Documentation/filesystems/ext4/inodes.rst`.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use crate::inode_flags::InodeFlags;
use crate::mode;

/// Size of the base part in bytes.
pub const BASE_SIZE: usize = 128;
/// Size of the defined extra part in bytes: the usual `i_extra_isize`.
pub const EXTRA_SIZE: usize = 32;
/// Number of words of `i_block`.
pub const MAP_WORDS: usize = 15;
/// Number of direct block numbers at the start of `i_block`.
pub const DIRECT_BLOCKS: usize = 12;
/// Index of the indirect block's word.
pub const INDIRECT_SLOT: usize = 12;
/// Index of the double indirect block's word.
pub const DOUBLE_INDIRECT_SLOT: usize = 13;
/// Index of the triple indirect block's word.
pub const TRIPLE_INDIRECT_SLOT: usize = 14;
/// Size of a block number in an indirect block in bytes.
pub const POINTER_SIZE: usize = 4;
/// Maximum length of a symbolic link target in `i_block`, without its NUL.
pub const FAST_SYMLINK_MAX: usize = MAP_WORDS * 4 - 1;
/// Maximum number of links of an inode on ext2 and ext3.
pub const LINK_MAX: u16 = 32000;
/// Maximum number of links of an inode on ext4; a directory with more (`dir_nlink`) has 1.
pub const LINK_MAX_EXT4: u16 = 65000;

/// The first 128 bytes of an inode. The system-dependent words are Linux's.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Inode {
    /// `i_mode`: type and permissions; see [`crate::mode`].
    pub mode: U16,
    /// `i_uid`: owner, lower half.
    pub uid_low: U16,
    /// `i_size_lo`: size in bytes, lower half.
    pub size_low: U32,
    /// `i_atime`: last access, in seconds.
    pub access_time: U32,
    /// `i_ctime`: last change of the inode, in seconds.
    pub change_time: U32,
    /// `i_mtime`: last change of the contents, in seconds.
    pub modification_time: U32,
    /// `i_dtime`: deletion, in seconds; or the next orphan.
    pub deletion_time: U32,
    /// `i_gid`: group, lower half.
    pub gid_low: U16,
    /// `i_links_count`: number of links.
    pub links_count: U16,
    /// `i_blocks_lo`: allocated blocks, lower half, in units of 512 bytes.
    pub blocks_low: U32,
    /// `i_flags`: [`InodeFlags`].
    pub flag_bits: U32,
    /// `l_i_version`: version, lower half (`osd1`).
    pub version_low: U32,
    /// `i_block`: block map, extent tree root, symbolic link target or device number.
    pub map_words: [U32; MAP_WORDS],
    /// `i_generation`: generation, for NFS.
    pub generation: U32,
    /// `i_file_acl_lo`: block of extended attributes, lower half.
    pub attribute_block_low: U32,
    /// `i_size_high`: size in bytes, upper half, of a regular file (`i_dir_acl` of other files).
    pub size_high: U32,
    /// `i_obso_faddr`: fragment address (never used).
    pub fragment_address: U32,
    /// `l_i_blocks_high`: allocated blocks, upper half (`huge_file`).
    pub blocks_high: U16,
    /// `l_i_file_acl_high`: block of extended attributes, upper half (`64bit`).
    pub attribute_block_high: U16,
    /// `l_i_uid_high`: owner, upper half.
    pub uid_high: U16,
    /// `l_i_gid_high`: group, upper half.
    pub gid_high: U16,
    /// `l_i_checksum_lo`: crc32c, lower half (`metadata_csum`).
    pub checksum_low: U16,
    /// `l_i_reserved`: padding.
    pub reserved: U16,
}

const _: () = assert!(size_of::<Inode>() == BASE_SIZE);

/// The extra part. Only its first `i_extra_isize` bytes exist.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct InodeExtra {
    /// `i_extra_isize`: size of the extra part in bytes, this field included.
    pub extra_size: U16,
    /// `i_checksum_hi`: crc32c, upper half (`metadata_csum`).
    pub checksum_high: U16,
    /// `i_ctime_extra`: last change of the inode: nanoseconds and epoch.
    pub change_time_extra: U32,
    /// `i_mtime_extra`: last change of the contents: nanoseconds and epoch.
    pub modification_time_extra: U32,
    /// `i_atime_extra`: last access: nanoseconds and epoch.
    pub access_time_extra: U32,
    /// `i_crtime`: birth, in seconds.
    pub creation_time: U32,
    /// `i_crtime_extra`: birth: nanoseconds and epoch.
    pub creation_time_extra: U32,
    /// `i_version_hi`: version, upper half.
    pub version_high: U32,
    /// `i_projid`: project id.
    pub project: U32,
}

const _: () = assert!(size_of::<InodeExtra>() == EXTRA_SIZE);

/// Minimum `i_extra_isize` in bytes of an inode whose checksum has an upper half.
pub const EXTRA_SIZE_WITH_CHECKSUM: u16 = 4;

/// True if an inode of the table has room for the upper half of its checksum.
pub fn has_checksum_high(bytes: &[u8]) -> bool {
    let extra = bytes.get(BASE_SIZE..).unwrap_or_default();
    let size = U16::ref_from_prefix(extra);
    size.is_ok_and(|(size, _)| size.get() >= EXTRA_SIZE_WITH_CHECKSUM)
}

impl Inode {
    /// Returns `i_flags`.
    pub fn flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.flag_bits.get())
    }

    /// Stores `i_flags`.
    pub fn set_flags(&mut self, flags: InodeFlags) {
        self.flag_bits.set(flags.bits());
    }

    /// Returns the owner.
    pub fn uid(&self) -> u32 {
        join16(self.uid_low, self.uid_high)
    }

    /// Stores the owner.
    pub fn set_uid(&mut self, uid: u32) {
        (self.uid_low, self.uid_high) = split16(uid);
    }

    /// Returns the group.
    pub fn gid(&self) -> u32 {
        join16(self.gid_low, self.gid_high)
    }

    /// Stores the group.
    pub fn set_gid(&mut self, gid: u32) {
        (self.gid_low, self.gid_high) = split16(gid);
    }

    /// Returns the size in bytes. Only regular files have an upper half; directories have one with
    /// the feature `large_dir`.
    pub fn size(&self, has_large_dir: bool) -> u64 {
        let low = u64::from(self.size_low.get());
        if self.has_size_high(has_large_dir) {
            low | (u64::from(self.size_high.get()) << 32)
        } else {
            low
        }
    }

    /// Stores the size in bytes. Returns `false`, and stores nothing, if the size does not fit this
    /// kind of file.
    #[must_use]
    pub fn set_size(&mut self, size: u64, has_large_dir: bool) -> bool {
        let high = (size >> 32) as u32;
        if self.has_size_high(has_large_dir) {
            self.size_high.set(high);
        } else if high != 0 {
            return false;
        }
        self.size_low.set(size as u32);
        true
    }

    fn has_size_high(&self, has_large_dir: bool) -> bool {
        match self.mode.get() & mode::TYPE_MASK {
            mode::REGULAR => true,
            mode::DIRECTORY => has_large_dir,
            _ => false,
        }
    }

    /// Returns the allocated blocks, in units of 512 bytes. With the feature `huge_file` the upper
    /// half counts, and [`InodeFlags::HUGE_FILE`] changes the unit on disk to blocks.
    pub fn sectors(&self, has_huge_file: bool, block_size: u32) -> u64 {
        let low = u64::from(self.blocks_low.get());
        if !has_huge_file {
            return low;
        }
        let count = low | (u64::from(self.blocks_high.get()) << 32);
        if self.flags().contains(InodeFlags::HUGE_FILE) {
            count * u64::from(block_size / 512)
        } else {
            count
        }
    }

    /// Stores the allocated blocks, in units of 512 bytes. Returns `false`, and stores nothing, if
    /// they do not fit.
    #[must_use]
    pub fn set_sectors(&mut self, sectors: u64, has_huge_file: bool, block_size: u32) -> bool {
        const LIMIT: u64 = 1 << 48;
        let in_blocks = sectors >= LIMIT;
        let count = if in_blocks {
            sectors / u64::from(block_size / 512)
        } else {
            sectors
        };
        if count >= LIMIT || (!has_huge_file && count > u64::from(u32::MAX)) {
            return false;
        }
        self.blocks_low.set(count as u32);
        if has_huge_file {
            self.blocks_high.set((count >> 32) as u16);
            let mut flags = self.flags();
            flags.set(InodeFlags::HUGE_FILE, in_blocks);
            self.set_flags(flags);
        }
        true
    }

    /// Returns the block of extended attributes, or 0. The upper half counts only with `64bit`.
    pub fn attribute_block(&self, is_64bit: bool) -> u64 {
        let high = if is_64bit {
            u64::from(self.attribute_block_high.get())
        } else {
            0
        };
        u64::from(self.attribute_block_low.get()) | (high << 32)
    }

    /// Stores the block of extended attributes; the upper half only with `64bit`.
    pub fn set_attribute_block(&mut self, block: u64, is_64bit: bool) {
        self.attribute_block_low.set(block as u32);
        if is_64bit {
            self.attribute_block_high.set((block >> 32) as u16);
        }
    }

    /// Returns the words of `i_block` in the CPU's byte order.
    pub fn map(&self) -> [u32; MAP_WORDS] {
        self.map_words.map(U32::get)
    }

    /// Stores the words of `i_block`.
    pub fn set_map(&mut self, words: [u32; MAP_WORDS]) {
        self.map_words = words.map(U32::new);
    }
}

fn join16(low: U16, high: U16) -> u32 {
    u32::from(low.get()) | (u32::from(high.get()) << 16)
}

fn split16(number: u32) -> (U16, U16) {
    (U16::new(number as u16), U16::new((number >> 16) as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(mode: u16) -> Inode {
        Inode {
            mode: U16::new(mode),
            ..Inode::default()
        }
    }

    #[test]
    fn owners_have_two_halves() {
        let mut inode = inode(mode::REGULAR);
        inode.set_uid(0x1234_5678);
        inode.set_gid(0x9ABC_DEF0);
        assert_eq!(
            (inode.uid_low.get(), inode.uid_high.get()),
            (0x5678, 0x1234)
        );
        assert_eq!((inode.uid(), inode.gid()), (0x1234_5678, 0x9ABC_DEF0));
    }

    #[test]
    fn only_regular_files_are_large() {
        let mut file = inode(mode::REGULAR | 0o644);
        assert!(file.set_size(5 << 32 | 7, false));
        assert_eq!(file.size(false), 5 << 32 | 7);
        let mut directory = inode(mode::DIRECTORY | 0o755);
        assert!(!directory.set_size(1 << 32, false));
        assert_eq!(directory.size(false), 0);
        directory.size_high.set(9);
        assert_eq!(directory.size(false), 0, "this is i_dir_acl");
        assert!(directory.set_size(4096, false));
        assert_eq!(directory.size_high.get(), 9);
        assert!(directory.set_size(1 << 32, true));
        assert_eq!(directory.size(true), 1 << 32);
    }

    #[test]
    fn held_blocks_are_counted_in_three_ways() {
        let mut file = inode(mode::REGULAR);
        assert!(file.set_sectors(u64::from(u32::MAX), false, 4096));
        assert!(!file.set_sectors(1 << 32, false, 4096));
        assert_eq!(file.sectors(false, 4096), u64::from(u32::MAX));
        for sectors in [0, 1 << 32, (1 << 48) - 1] {
            assert!(file.set_sectors(sectors, true, 4096));
            assert_eq!(file.sectors(true, 4096), sectors);
            assert!(!file.flags().contains(InodeFlags::HUGE_FILE));
        }
        assert!(file.set_sectors(1 << 48, true, 4096));
        assert!(file.flags().contains(InodeFlags::HUGE_FILE));
        assert_eq!(file.sectors(true, 4096), 1 << 48);
        assert!(!file.set_sectors(1 << 51, true, 4096));
        assert!(file.set_sectors(8, true, 4096));
        assert!(!file.flags().contains(InodeFlags::HUGE_FILE));
    }

    #[test]
    fn attribute_blocks_have_an_upper_half_with_64bit() {
        let mut file = inode(mode::REGULAR);
        file.set_attribute_block(0xA_0000_0001, true);
        assert_eq!(
            (file.attribute_block(true), file.attribute_block(false)),
            (0xA_0000_0001, 1)
        );
        file.set_attribute_block(2, false);
        assert_eq!(file.attribute_block(true), 0xA_0000_0002);
    }
}
