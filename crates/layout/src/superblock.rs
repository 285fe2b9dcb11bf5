//! The superblock of ext2, ext3 and ext4: 1024 bytes, little-endian, at byte 1024 of the device.
//!
//! Copies lie at the start of some block groups (see [`is_sparse_backup`]). An external journal
//! device has one too, whose only incompatible feature is `journal_dev`; the journal superblock is
//! in the block after it.
//!
//! Field names are the kernel's. The methods below join `_lo`/`_hi` pairs; the upper halves are
//! valid only with the feature `64bit`.
//!
//! Source: Linux `Documentation/filesystems/ext4/super.rst`.

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::feature::Features;

/// Offset of the primary superblock from the start of the device in bytes.
pub const OFFSET: u64 = 1024;
/// Size of a superblock in bytes.
pub const SIZE: usize = 1024;
/// `s_magic`.
pub const MAGIC: u16 = 0xEF53;
/// `s_rev_level` of the original format, which has fixed inode sizes and no features.
pub const GOOD_OLD_REVISION: u32 = 0;
/// `s_rev_level` of the format with features and inode sizes.
pub const DYNAMIC_REVISION: u32 = 1;
/// First inode that is not reserved, in the original format and by convention in later ones.
pub const GOOD_OLD_FIRST_INODE: u32 = 11;
/// Size of an inode in the original format in bytes.
pub const GOOD_OLD_INODE_SIZE: u16 = 128;
/// Minimum block size in bytes.
pub const BLOCK_SIZE_MIN: u32 = 1024;
/// Maximum block size in bytes.
pub const BLOCK_SIZE_MAX: u32 = 65536;
/// Maximum `s_log_block_size`: blocks are `1024 << s_log_block_size` bytes.
pub const LOG_BLOCK_SIZE_MAX: u32 = 6;
/// `s_creator_os` of Linux.
pub const OS_LINUX: u32 = 0;
/// `s_creator_os` of the Hurd; its inodes use the system-dependent words differently.
pub const OS_HURD: u32 = 1;
/// `s_jnl_backup_type` if `s_jnl_blocks` holds a copy of the journal inode's block map and size.
pub const JOURNAL_BACKUP_BLOCKS: u8 = 1;
/// `s_checksum_type` of crc32c, the only one.
pub const CHECKSUM_CRC32C: u8 = 1;
/// `s_max_mnt_count` if no mount count forces a check.
pub const MOUNT_COUNT_UNLIMITED: u16 = 0xFFFF;

bitflags! {
    /// `s_state`: the state in which the file system was left.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct State: u16 {
        /// Unmounted cleanly, or the journal holds the rest.
        const VALID = 0x0001;
        /// Errors were found; a check is due.
        const ERROR = 0x0002;
        /// Orphans are being released.
        const ORPHAN = 0x0004;
        /// Fast commits are being replayed.
        const FAST_COMMIT_REPLAY = 0x0020;
    }
}

bitflags! {
    /// `s_default_mount_opts`: mount options that apply unless overridden.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct DefaultMountOptions: u32 {
        /// `debug`.
        const DEBUG = 0x0001;
        /// `bsdgroups`: new files take the directory's group.
        const BSD_GROUPS = 0x0002;
        /// `user_xattr`.
        const USER_XATTR = 0x0004;
        /// `acl`.
        const ACL = 0x0008;
        /// `uid16`: only the lower halves of owners are stored.
        const UID16 = 0x0010;
        /// `journal_data`: data=journal. With [`Self::JOURNAL_DATA_ORDERED`] it means
        /// data=writeback.
        const JOURNAL_DATA = 0x0020;
        /// `journal_data_ordered`: data=ordered.
        const JOURNAL_DATA_ORDERED = 0x0040;
        /// `journal_data_writeback`: data=writeback; both bits of the mode.
        const JOURNAL_DATA_WRITEBACK = 0x0060;
        /// `nobarrier`.
        const NO_BARRIER = 0x0100;
        /// `block_validity`.
        const BLOCK_VALIDITY = 0x0200;
        /// `discard`.
        const DISCARD = 0x0400;
        /// `nodelalloc`.
        const NO_DELAYED_ALLOCATION = 0x0800;
    }
}

bitflags! {
    /// `s_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct MiscFlags: u32 {
        /// Directory hashes use signed bytes.
        const SIGNED_HASH = 0x0001;
        /// Directory hashes use unsigned bytes.
        const UNSIGNED_HASH = 0x0002;
        /// Development code may be tried on the file system.
        const TEST_FILESYSTEM = 0x0004;
    }
}

/// `s_errors`: the reaction to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ErrorPolicy {
    /// Continue.
    Continue = 1,
    /// Remount read-only.
    RemountReadOnly = 2,
    /// Panic.
    Panic = 3,
}

impl ErrorPolicy {
    /// Returns the policy of a raw `s_errors`, if it is known.
    pub const fn from_raw(raw: u16) -> Option<Self> {
        match raw {
            1 => Some(Self::Continue),
            2 => Some(Self::RemountReadOnly),
            3 => Some(Self::Panic),
            _ => None,
        }
    }
}

/// The on-disk superblock.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct Superblock {
    /// Number of inodes.
    pub s_inodes_count: U32,
    /// Number of blocks, lower half.
    pub s_blocks_count_lo: U32,
    /// Number of blocks reserved for privileged users, lower half.
    pub s_r_blocks_count_lo: U32,
    /// Number of free blocks, lower half.
    pub s_free_blocks_count_lo: U32,
    /// Number of free inodes.
    pub s_free_inodes_count: U32,
    /// The block that holds the first superblock: 1 with 1024-byte blocks, else 0.
    pub s_first_data_block: U32,
    /// Blocks are `1024 << s_log_block_size` bytes.
    pub s_log_block_size: U32,
    /// Clusters are `1024 << s_log_cluster_size` bytes (`bigalloc`); else equal to
    /// `s_log_block_size`.
    pub s_log_cluster_size: U32,
    /// Number of blocks in a group.
    pub s_blocks_per_group: U32,
    /// Number of clusters in a group; else equal to `s_blocks_per_group`.
    pub s_clusters_per_group: U32,
    /// Number of inodes in a group.
    pub s_inodes_per_group: U32,
    /// Last mount, seconds since 1970.
    pub s_mtime: U32,
    /// Last write of the superblock, seconds since 1970.
    pub s_wtime: U32,
    /// Number of mounts since the last check.
    pub s_mnt_count: U16,
    /// Number of mounts after which a check is due; 0 and 0xFFFF mean never.
    pub s_max_mnt_count: U16,
    /// [`MAGIC`].
    pub s_magic: U16,
    /// [`State`].
    pub s_state: U16,
    /// [`ErrorPolicy`].
    pub s_errors: U16,
    /// Minor revision.
    pub s_minor_rev_level: U16,
    /// Last check, seconds since 1970.
    pub s_lastcheck: U32,
    /// Seconds after which a check is due; 0 means never.
    pub s_checkinterval: U32,
    /// Creator's operating system.
    pub s_creator_os: U32,
    /// [`GOOD_OLD_REVISION`] or [`DYNAMIC_REVISION`].
    pub s_rev_level: U32,
    /// User that may use reserved blocks.
    pub s_def_resuid: U16,
    /// Group that may use reserved blocks.
    pub s_def_resgid: U16,
    /// First inode that is not reserved.
    pub s_first_ino: U32,
    /// Size of an inode in the table in bytes.
    pub s_inode_size: U16,
    /// Group that holds this copy.
    pub s_block_group_nr: U16,
    /// [`crate::feature::Compatible`].
    pub s_feature_compat: U32,
    /// [`crate::feature::Incompatible`].
    pub s_feature_incompat: U32,
    /// [`crate::feature::ReadOnlyCompatible`].
    pub s_feature_ro_compat: U32,
    /// UUID of the file system.
    pub s_uuid: [u8; 16],
    /// Label, padded with NUL.
    pub s_volume_name: [u8; 16],
    /// Last mount point, padded with NUL.
    pub s_last_mounted: [u8; 64],
    /// Compression algorithms (never used).
    pub s_algorithm_usage_bitmap: U32,
    /// Number of blocks to preallocate for files.
    pub s_prealloc_blocks: u8,
    /// Number of blocks to preallocate for directories.
    pub s_prealloc_dir_blocks: u8,
    /// Number of reserved GDT blocks, for online growth (`resize_inode`).
    pub s_reserved_gdt_blocks: U16,
    /// UUID of the external journal.
    pub s_journal_uuid: [u8; 16],
    /// Inode of the internal journal.
    pub s_journal_inum: U32,
    /// Device number of the external journal.
    pub s_journal_dev: U32,
    /// First inode of the orphan list, or 0.
    pub s_last_orphan: U32,
    /// Seed of the directory hashes.
    pub s_hash_seed: [U32; 4],
    /// Hash of new indexed directories.
    pub s_def_hash_version: u8,
    /// [`JOURNAL_BACKUP_BLOCKS`] when `s_jnl_blocks` is filled.
    pub s_jnl_backup_type: u8,
    /// Size of a group descriptor in bytes (`64bit`); 0 means 32.
    pub s_desc_size: U16,
    /// [`DefaultMountOptions`].
    pub s_default_mount_opts: U32,
    /// First meta block group (`meta_bg`).
    pub s_first_meta_bg: U32,
    /// Creation time, seconds since 1970.
    pub s_mkfs_time: U32,
    /// Copy of the journal inode: the 15 words of `i_block`, then `i_size_high`, then `i_size_lo`.
    pub s_jnl_blocks: [U32; 17],
    /// Number of blocks, upper half.
    pub s_blocks_count_hi: U32,
    /// Number of reserved blocks, upper half.
    pub s_r_blocks_count_hi: U32,
    /// Number of free blocks, upper half.
    pub s_free_blocks_count_hi: U32,
    /// Minimum extra size of all inodes in bytes.
    pub s_min_extra_isize: U16,
    /// Extra size of new inodes in bytes.
    pub s_want_extra_isize: U16,
    /// [`MiscFlags`].
    pub s_flags: U32,
    /// RAID: number of blocks on a disk before the next disk.
    pub s_raid_stride: U16,
    /// Seconds between multi-mount checks.
    pub s_mmp_update_interval: U16,
    /// Block for multi-mount protection.
    pub s_mmp_block: U64,
    /// RAID: number of blocks in a full stripe.
    pub s_raid_stripe_width: U32,
    /// Flexible groups have `1 << s_log_groups_per_flex` groups.
    pub s_log_groups_per_flex: u8,
    /// [`CHECKSUM_CRC32C`] (`metadata_csum`).
    pub s_checksum_type: u8,
    /// Version of encryption.
    pub s_encryption_level: u8,
    /// Padding.
    pub s_reserved_pad: u8,
    /// KiB written over the lifetime of the file system.
    pub s_kbytes_written: U64,
    /// Inode of the active snapshot (never merged).
    pub s_snapshot_inum: U32,
    /// Number of the active snapshot.
    pub s_snapshot_id: U32,
    /// Number of blocks reserved for the active snapshot.
    pub s_snapshot_r_blocks_count: U64,
    /// Inode of the head of the list of snapshots.
    pub s_snapshot_list: U32,
    /// Number of errors found.
    pub s_error_count: U32,
    /// First error, seconds since 1970.
    pub s_first_error_time: U32,
    /// Inode of the first error.
    pub s_first_error_ino: U32,
    /// Block of the first error.
    pub s_first_error_block: U64,
    /// Function of the first error, padded with NUL.
    pub s_first_error_func: [u8; 32],
    /// Line of the first error.
    pub s_first_error_line: U32,
    /// Last error, seconds since 1970.
    pub s_last_error_time: U32,
    /// Inode of the last error.
    pub s_last_error_ino: U32,
    /// Line of the last error.
    pub s_last_error_line: U32,
    /// Block of the last error.
    pub s_last_error_block: U64,
    /// Function of the last error, padded with NUL.
    pub s_last_error_func: [u8; 32],
    /// Mount options in text, padded with NUL.
    pub s_mount_opts: [u8; 64],
    /// Inode of user quotas.
    pub s_usr_quota_inum: U32,
    /// Inode of group quotas.
    pub s_grp_quota_inum: U32,
    /// Number of clusters used by metadata.
    pub s_overhead_clusters: U32,
    /// The two groups with copies (`sparse_super2`).
    pub s_backup_bgs: [U32; 2],
    /// Encryption algorithms.
    pub s_encrypt_algos: [u8; 4],
    /// Salt of encryption.
    pub s_encrypt_pw_salt: [u8; 16],
    /// Inode of `lost+found`.
    pub s_lpf_ino: U32,
    /// Inode of project quotas.
    pub s_prj_quota_inum: U32,
    /// Seed of metadata checksums (`metadata_csum_seed`).
    pub s_checksum_seed: U32,
    /// Bits 32-39 of `s_wtime`.
    pub s_wtime_hi: u8,
    /// Bits 32-39 of `s_mtime`.
    pub s_mtime_hi: u8,
    /// Bits 32-39 of `s_mkfs_time`.
    pub s_mkfs_time_hi: u8,
    /// Bits 32-39 of `s_lastcheck`.
    pub s_lastcheck_hi: u8,
    /// Bits 32-39 of `s_first_error_time`.
    pub s_first_error_time_hi: u8,
    /// Bits 32-39 of `s_last_error_time`.
    pub s_last_error_time_hi: u8,
    /// Code of the first error.
    pub s_first_error_errcode: u8,
    /// Code of the last error.
    pub s_last_error_errcode: u8,
    /// Character set of names (`casefold`).
    pub s_encoding: U16,
    /// Flags of the character set.
    pub s_encoding_flags: U16,
    /// Inode of the orphan file (`orphan_file`).
    pub s_orphan_file_inum: U32,
    /// Padding.
    pub s_reserved: [U32; 94],
    /// crc32c of the bytes before it (`metadata_csum`).
    pub s_checksum: U32,
}

const _: () = assert!(size_of::<Superblock>() == SIZE);

impl Default for Superblock {
    /// Returns a superblock of zeroes.
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl Superblock {
    /// Returns the three feature words.
    pub fn features(&self) -> Features {
        Features::from_raw(
            self.s_feature_compat.get(),
            self.s_feature_incompat.get(),
            self.s_feature_ro_compat.get(),
        )
    }

    /// Stores the three feature words.
    pub fn set_features(&mut self, features: Features) {
        self.s_feature_compat.set(features.compatible.bits());
        self.s_feature_incompat.set(features.incompatible.bits());
        self.s_feature_ro_compat
            .set(features.read_only_compatible.bits());
    }

    /// Returns the block size in bytes, unless the stored logarithm is out of range.
    pub fn block_size(&self) -> Option<u32> {
        let log = self.s_log_block_size.get();
        (log <= LOG_BLOCK_SIZE_MAX).then(|| BLOCK_SIZE_MIN << log)
    }

    /// Returns the size of an inode in the table in bytes, for any revision.
    pub fn inode_size(&self) -> u16 {
        if self.s_rev_level.get() == GOOD_OLD_REVISION {
            GOOD_OLD_INODE_SIZE
        } else {
            self.s_inode_size.get()
        }
    }

    /// Returns the first inode that is not reserved, for any revision.
    pub fn first_inode(&self) -> u32 {
        if self.s_rev_level.get() == GOOD_OLD_REVISION {
            GOOD_OLD_FIRST_INODE
        } else {
            self.s_first_ino.get()
        }
    }

    /// Returns the number of blocks; the upper half counts only with `64bit`.
    pub fn blocks_count(&self) -> u64 {
        self.join(self.s_blocks_count_lo, self.s_blocks_count_hi)
    }

    /// Stores the number of blocks, both halves.
    pub fn set_blocks_count(&mut self, count: u64) {
        (self.s_blocks_count_lo, self.s_blocks_count_hi) = split(count);
    }

    /// Returns the number of blocks reserved for privileged users.
    pub fn reserved_blocks_count(&self) -> u64 {
        self.join(self.s_r_blocks_count_lo, self.s_r_blocks_count_hi)
    }

    /// Stores the number of reserved blocks, both halves.
    pub fn set_reserved_blocks_count(&mut self, count: u64) {
        (self.s_r_blocks_count_lo, self.s_r_blocks_count_hi) = split(count);
    }

    /// Returns the number of free blocks.
    pub fn free_blocks_count(&self) -> u64 {
        self.join(self.s_free_blocks_count_lo, self.s_free_blocks_count_hi)
    }

    /// Stores the number of free blocks, both halves.
    pub fn set_free_blocks_count(&mut self, count: u64) {
        (self.s_free_blocks_count_lo, self.s_free_blocks_count_hi) = split(count);
    }

    /// Returns the words of the hash seed in the CPU's byte order.
    pub fn hash_seed(&self) -> [u32; 4] {
        self.s_hash_seed.map(U32::get)
    }

    /// Returns `s_state`.
    pub fn state(&self) -> State {
        State::from_bits_retain(self.s_state.get())
    }

    /// Returns `s_default_mount_opts`.
    pub fn default_mount_options(&self) -> DefaultMountOptions {
        DefaultMountOptions::from_bits_retain(self.s_default_mount_opts.get())
    }

    /// Returns `s_flags`.
    pub fn misc_flags(&self) -> MiscFlags {
        MiscFlags::from_bits_retain(self.s_flags.get())
    }

    fn join(&self, low: U32, high: U32) -> u64 {
        let incompatible = self.features().incompatible;
        let is_64bit = incompatible.contains(crate::feature::Incompatible::IS_64BIT);
        let high = if is_64bit { u64::from(high.get()) } else { 0 };
        u64::from(low.get()) | (high << 32)
    }
}

fn split(count: u64) -> (U32, U32) {
    (U32::new(count as u32), U32::new((count >> 32) as u32))
}

/// True if a group holds copies of the superblock and the descriptors under `sparse_super`: groups
/// 0 and 1, and powers of 3, 5 and 7. Without the feature every group holds them.
pub const fn is_sparse_backup(group: u32) -> bool {
    if group <= 1 {
        return true;
    }
    is_power_of(group, 3) || is_power_of(group, 5) || is_power_of(group, 7)
}

const fn is_power_of(number: u32, base: u32) -> bool {
    let mut number = number;
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_lie_in_powers_of_three_five_and_seven() {
        let groups: Vec<u32> = (0..130).filter(|group| is_sparse_backup(*group)).collect();
        assert_eq!(groups, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }

    #[test]
    fn upper_halves_count_only_with_64bit() {
        let mut superblock = Superblock::default();
        superblock.set_blocks_count(0x1_0000_0002);
        superblock.set_free_blocks_count(0x3_0000_0004);
        superblock.set_reserved_blocks_count(0x5_0000_0006);
        assert_eq!(superblock.blocks_count(), 2);
        let mut features = superblock.features();
        features.incompatible |= crate::feature::Incompatible::IS_64BIT;
        superblock.set_features(features);
        assert_eq!(superblock.blocks_count(), 0x1_0000_0002);
        assert_eq!(superblock.free_blocks_count(), 0x3_0000_0004);
        assert_eq!(superblock.reserved_blocks_count(), 0x5_0000_0006);
    }

    #[test]
    fn the_original_format_has_fixed_sizes() {
        let mut superblock = Superblock::default();
        superblock.s_inode_size.set(256);
        superblock.s_first_ino.set(15);
        assert_eq!(
            (superblock.inode_size(), superblock.first_inode()),
            (128, 11)
        );
        superblock.s_rev_level.set(DYNAMIC_REVISION);
        assert_eq!(
            (superblock.inode_size(), superblock.first_inode()),
            (256, 15)
        );
    }

    #[test]
    fn block_sizes() {
        let mut superblock = Superblock::default();
        for (log, size) in [
            (0, Some(1024)),
            (6, Some(65536)),
            (7, None),
            (u32::MAX, None),
        ] {
            superblock.s_log_block_size.set(log);
            assert_eq!(superblock.block_size(), size);
        }
    }
}
