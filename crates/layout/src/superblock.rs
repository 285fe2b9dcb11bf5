//! The superblock of ext2, ext3 and ext4: 1024 bytes, little-endian, at byte 1024 of the device.
//!
//! Copies lie at the start of some block groups (see [`is_sparse_backup`]). An external journal
//! device has one too, whose only incompatible feature is `journal_dev`; the journal superblock is
//! in the block after it.
//!
//! The methods below join the lower and the upper halves of numbers; the upper halves are
//! valid only with the feature `64bit`.
//!
//! Source: Linux `Documentation/filesystems/ext4/super.rst`.

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::feature::Features;

mod backups;
mod default_options;

pub use backups::{Backups, is_sparse_backup};
pub use default_options::DefaultMountOptions;

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
    /// `s_inodes_count`: number of inodes.
    pub inodes_count: U32,
    /// `s_blocks_count_lo`: number of blocks, lower half.
    pub blocks_count_low: U32,
    /// `s_r_blocks_count_lo`: number of blocks reserved for privileged users, lower half.
    pub reserved_blocks_count_low: U32,
    /// `s_free_blocks_count_lo`: number of free blocks, lower half.
    pub free_blocks_count_low: U32,
    /// `s_free_inodes_count`: number of free inodes.
    pub free_inodes_count: U32,
    /// `s_first_data_block`: the block that holds the first superblock: 1 with 1024-byte blocks,
    /// else 0.
    pub first_data_block: U32,
    /// `s_log_block_size`: blocks are `1024 << s_log_block_size` bytes.
    pub log_block_size: U32,
    /// `s_log_cluster_size`: clusters are `1024 << s_log_cluster_size` bytes (`bigalloc`); else
    /// equal to `s_log_block_size`.
    pub log_cluster_size: U32,
    /// `s_blocks_per_group`: number of blocks in a group.
    pub blocks_per_group: U32,
    /// `s_clusters_per_group`: number of clusters in a group; else equal to `s_blocks_per_group`.
    pub clusters_per_group: U32,
    /// `s_inodes_per_group`: number of inodes in a group.
    pub inodes_per_group: U32,
    /// `s_mtime`: last mount, seconds since 1970.
    pub mount_time: U32,
    /// `s_wtime`: last write of the superblock, seconds since 1970.
    pub write_time: U32,
    /// `s_mnt_count`: number of mounts since the last check.
    pub mount_count: U16,
    /// `s_max_mnt_count`: number of mounts after which a check is due; 0 and 0xFFFF mean never.
    pub max_mount_count: U16,
    /// `s_magic`: [`MAGIC`].
    pub magic: U16,
    /// `s_state`: [`State`].
    pub state_bits: U16,
    /// `s_errors`: [`ErrorPolicy`].
    pub error_policy: U16,
    /// `s_minor_rev_level`: minor revision.
    pub minor_revision: U16,
    /// `s_lastcheck`: last check, seconds since 1970.
    pub check_time: U32,
    /// `s_checkinterval`: seconds after which a check is due; 0 means never.
    pub check_interval: U32,
    /// `s_creator_os`: creator's operating system.
    pub creator_os: U32,
    /// `s_rev_level`: [`GOOD_OLD_REVISION`] or [`DYNAMIC_REVISION`].
    pub revision: U32,
    /// `s_def_resuid`: user that may use reserved blocks.
    pub reserved_uid: U16,
    /// `s_def_resgid`: group that may use reserved blocks.
    pub reserved_gid: U16,
    /// `s_first_ino`: first inode that is not reserved.
    pub dynamic_first_inode: U32,
    /// `s_inode_size`: size of an inode in the table in bytes.
    pub dynamic_inode_size: U16,
    /// `s_block_group_nr`: group that holds this copy.
    pub copy_group: U16,
    /// `s_feature_compat`: [`crate::feature::Compatible`].
    pub compatible_bits: U32,
    /// `s_feature_incompat`: [`crate::feature::Incompatible`].
    pub incompatible_bits: U32,
    /// `s_feature_ro_compat`: [`crate::feature::ReadOnlyCompatible`].
    pub read_only_compatible_bits: U32,
    /// `s_uuid`: UUID of the file system.
    pub uuid: [u8; 16],
    /// `s_volume_name`: label, padded with NUL.
    pub label: [u8; 16],
    /// `s_last_mounted`: last mount point, padded with NUL.
    pub last_mounted_on: [u8; 64],
    /// `s_algorithm_usage_bitmap`: compression algorithms (never used).
    pub compression_algorithms: U32,
    /// `s_prealloc_blocks`: number of blocks to preallocate for files.
    pub preallocated_blocks: u8,
    /// `s_prealloc_dir_blocks`: number of blocks to preallocate for directories.
    pub preallocated_directory_blocks: u8,
    /// `s_reserved_gdt_blocks`: number of reserved GDT blocks, for online growth (`resize_inode`).
    pub reserved_descriptor_blocks: U16,
    /// `s_journal_uuid`: UUID of the external journal.
    pub journal_uuid: [u8; 16],
    /// `s_journal_inum`: inode of the internal journal.
    pub journal_inode: U32,
    /// `s_journal_dev`: device number of the external journal.
    pub journal_device: U32,
    /// `s_last_orphan`: first inode of the orphan list, or 0.
    pub first_orphan: U32,
    /// `s_hash_seed`: seed of the directory hashes.
    pub hash_seed_words: [U32; 4],
    /// `s_def_hash_version`: hash of new indexed directories.
    pub default_hash_version: u8,
    /// `s_jnl_backup_type`: [`JOURNAL_BACKUP_BLOCKS`] when `s_jnl_blocks` is filled.
    pub journal_backup_type: u8,
    /// `s_desc_size`: size of a group descriptor in bytes (`64bit`); 0 means 32.
    pub descriptor_size: U16,
    /// `s_default_mount_opts`: [`DefaultMountOptions`].
    pub default_mount_option_bits: U32,
    /// `s_first_meta_bg`: first meta block group (`meta_bg`).
    pub first_meta_group: U32,
    /// `s_mkfs_time`: creation time, seconds since 1970.
    pub creation_time: U32,
    /// `s_jnl_blocks`: copy of the journal inode: the 15 words of `i_block`, then `i_size_high`,
    /// then `i_size_lo`.
    pub journal_backup: [U32; 17],
    /// `s_blocks_count_hi`: number of blocks, upper half.
    pub blocks_count_high: U32,
    /// `s_r_blocks_count_hi`: number of reserved blocks, upper half.
    pub reserved_blocks_count_high: U32,
    /// `s_free_blocks_count_hi`: number of free blocks, upper half.
    pub free_blocks_count_high: U32,
    /// `s_min_extra_isize`: minimum extra size of all inodes in bytes.
    pub min_extra_inode_size: U16,
    /// `s_want_extra_isize`: extra size of new inodes in bytes.
    pub wanted_extra_inode_size: U16,
    /// `s_flags`: [`MiscFlags`].
    pub misc_flag_bits: U32,
    /// `s_raid_stride`: RAID: number of blocks on a disk before the next disk.
    pub raid_stride: U16,
    /// `s_mmp_update_interval`: seconds between multi-mount checks.
    pub mmp_update_interval: U16,
    /// `s_mmp_block`: block for multi-mount protection.
    pub mmp_block: U64,
    /// `s_raid_stripe_width`: RAID: number of blocks in a full stripe.
    pub raid_stripe_width: U32,
    /// `s_log_groups_per_flex`: flexible groups have `1 << s_log_groups_per_flex` groups.
    pub log_groups_per_flex: u8,
    /// `s_checksum_type`: [`CHECKSUM_CRC32C`] (`metadata_csum`).
    pub checksum_type: u8,
    /// `s_encryption_level`: version of encryption.
    pub encryption_level: u8,
    /// `s_reserved_pad`: padding.
    pub reserved_pad: u8,
    /// `s_kbytes_written`: KiB written over the lifetime of the file system.
    pub kibibytes_written: U64,
    /// `s_snapshot_inum`: inode of the active snapshot (never merged).
    pub snapshot_inode: U32,
    /// `s_snapshot_id`: number of the active snapshot.
    pub snapshot_id: U32,
    /// `s_snapshot_r_blocks_count`: number of blocks reserved for the active snapshot.
    pub snapshot_reserved_blocks_count: U64,
    /// `s_snapshot_list`: inode of the head of the list of snapshots.
    pub snapshot_list_inode: U32,
    /// `s_error_count`: number of errors found.
    pub error_count: U32,
    /// `s_first_error_time`: first error, seconds since 1970.
    pub first_error_time: U32,
    /// `s_first_error_ino`: inode of the first error.
    pub first_error_inode: U32,
    /// `s_first_error_block`: block of the first error.
    pub first_error_block: U64,
    /// `s_first_error_func`: function of the first error, padded with NUL.
    pub first_error_function: [u8; 32],
    /// `s_first_error_line`: line of the first error.
    pub first_error_line: U32,
    /// `s_last_error_time`: last error, seconds since 1970.
    pub last_error_time: U32,
    /// `s_last_error_ino`: inode of the last error.
    pub last_error_inode: U32,
    /// `s_last_error_line`: line of the last error.
    pub last_error_line: U32,
    /// `s_last_error_block`: block of the last error.
    pub last_error_block: U64,
    /// `s_last_error_func`: function of the last error, padded with NUL.
    pub last_error_function: [u8; 32],
    /// `s_mount_opts`: mount options in text, padded with NUL.
    pub mount_options: [u8; 64],
    /// `s_usr_quota_inum`: inode of user quotas.
    pub user_quota_inode: U32,
    /// `s_grp_quota_inum`: inode of group quotas.
    pub group_quota_inode: U32,
    /// `s_overhead_clusters`: number of clusters used by metadata.
    pub overhead_clusters: U32,
    /// `s_backup_bgs`: the two groups with copies (`sparse_super2`).
    pub backup_groups: [U32; 2],
    /// `s_encrypt_algos`: encryption algorithms.
    pub encryption_algorithms: [u8; 4],
    /// `s_encrypt_pw_salt`: salt of encryption.
    pub encryption_salt: [u8; 16],
    /// `s_lpf_ino`: inode of `lost+found`.
    pub lost_and_found_inode: U32,
    /// `s_prj_quota_inum`: inode of project quotas.
    pub project_quota_inode: U32,
    /// `s_checksum_seed`: seed of metadata checksums (`metadata_csum_seed`).
    pub checksum_seed: U32,
    /// `s_wtime_hi`: bits 32-39 of `s_wtime`.
    pub write_time_high: u8,
    /// `s_mtime_hi`: bits 32-39 of `s_mtime`.
    pub mount_time_high: u8,
    /// `s_mkfs_time_hi`: bits 32-39 of `s_mkfs_time`.
    pub creation_time_high: u8,
    /// `s_lastcheck_hi`: bits 32-39 of `s_lastcheck`.
    pub check_time_high: u8,
    /// `s_first_error_time_hi`: bits 32-39 of `s_first_error_time`.
    pub first_error_time_high: u8,
    /// `s_last_error_time_hi`: bits 32-39 of `s_last_error_time`.
    pub last_error_time_high: u8,
    /// `s_first_error_errcode`: code of the first error.
    pub first_error_code: u8,
    /// `s_last_error_errcode`: code of the last error.
    pub last_error_code: u8,
    /// `s_encoding`: character set of names (`casefold`).
    pub encoding: U16,
    /// `s_encoding_flags`: flags of the character set.
    pub encoding_flags: U16,
    /// `s_orphan_file_inum`: inode of the orphan file (`orphan_file`).
    pub orphan_file_inode: U32,
    /// `s_reserved`: padding.
    pub reserved: [U32; 94],
    /// `s_checksum`: crc32c of the bytes before it (`metadata_csum`).
    pub checksum: U32,
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
            self.compatible_bits.get(),
            self.incompatible_bits.get(),
            self.read_only_compatible_bits.get(),
        )
    }

    /// Stores the three feature words.
    pub fn set_features(&mut self, features: Features) {
        self.compatible_bits.set(features.compatible.bits());
        self.incompatible_bits.set(features.incompatible.bits());
        self.read_only_compatible_bits
            .set(features.read_only_compatible.bits());
    }

    /// Returns the block size in bytes, unless the stored logarithm is out of range.
    pub fn block_size(&self) -> Option<u32> {
        let log = self.log_block_size.get();
        (log <= LOG_BLOCK_SIZE_MAX).then(|| BLOCK_SIZE_MIN << log)
    }

    /// Returns the size of an inode in the table in bytes, for any revision.
    pub fn inode_size(&self) -> u16 {
        if self.revision.get() == GOOD_OLD_REVISION {
            GOOD_OLD_INODE_SIZE
        } else {
            self.dynamic_inode_size.get()
        }
    }

    /// Returns the size of a group descriptor in bytes: 32, or with `64bit` the stored size, which
    /// is not checked.
    pub fn descriptor_bytes(&self) -> u16 {
        if self.is_64bit() {
            self.descriptor_size.get()
        } else {
            crate::group::SIZE as u16
        }
    }

    /// Returns the first inode that is not reserved, for any revision.
    pub fn first_inode(&self) -> u32 {
        if self.revision.get() == GOOD_OLD_REVISION {
            GOOD_OLD_FIRST_INODE
        } else {
            self.dynamic_first_inode.get()
        }
    }

    /// Returns the number of blocks; the upper half counts only with `64bit`.
    pub fn blocks_count(&self) -> u64 {
        self.join(self.blocks_count_low, self.blocks_count_high)
    }

    /// Stores the number of blocks, both halves.
    pub fn set_blocks_count(&mut self, count: u64) {
        (self.blocks_count_low, self.blocks_count_high) = split(count);
    }

    /// Returns the number of blocks reserved for privileged users.
    pub fn reserved_blocks_count(&self) -> u64 {
        self.join(
            self.reserved_blocks_count_low,
            self.reserved_blocks_count_high,
        )
    }

    /// Stores the number of reserved blocks, both halves.
    pub fn set_reserved_blocks_count(&mut self, count: u64) {
        (
            self.reserved_blocks_count_low,
            self.reserved_blocks_count_high,
        ) = split(count);
    }

    /// Returns the number of free blocks.
    pub fn free_blocks_count(&self) -> u64 {
        self.join(self.free_blocks_count_low, self.free_blocks_count_high)
    }

    /// Stores the number of free blocks, both halves.
    pub fn set_free_blocks_count(&mut self, count: u64) {
        (self.free_blocks_count_low, self.free_blocks_count_high) = split(count);
    }

    /// Returns the words of the hash seed in the CPU's byte order.
    pub fn hash_seed(&self) -> [u32; 4] {
        self.hash_seed_words.map(U32::get)
    }

    /// Returns `s_state`.
    pub fn state(&self) -> State {
        State::from_bits_retain(self.state_bits.get())
    }

    /// Returns `s_default_mount_opts`.
    pub fn default_mount_options(&self) -> DefaultMountOptions {
        DefaultMountOptions::from_bits_retain(self.default_mount_option_bits.get())
    }

    /// Returns `s_flags`.
    pub fn misc_flags(&self) -> MiscFlags {
        MiscFlags::from_bits_retain(self.misc_flag_bits.get())
    }

    /// Says that bytes of names are signed in hashes, unless their sign is said already.
    pub fn say_hash_sign(&mut self) {
        let flags = self.misc_flags();
        if !flags.intersects(MiscFlags::SIGNED_HASH | MiscFlags::UNSIGNED_HASH) {
            let flags = flags | MiscFlags::SIGNED_HASH;
            self.misc_flag_bits.set(flags.bits());
        }
    }

    fn is_64bit(&self) -> bool {
        let incompatible = self.features().incompatible;
        incompatible.contains(crate::feature::Incompatible::IS_64BIT)
    }

    fn join(&self, low: U32, high: U32) -> u64 {
        let high = if self.is_64bit() {
            u64::from(high.get())
        } else {
            0
        };
        u64::from(low.get()) | (high << 32)
    }
}

fn split(count: u64) -> (U32, U32) {
    (U32::new(count as u32), U32::new((count >> 32) as u32))
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
    fn descriptors_have_a_stored_size_only_with_64bit() {
        let mut superblock = Superblock::default();
        superblock.descriptor_size.set(64);
        assert_eq!(superblock.descriptor_bytes(), 32);
        let mut features = superblock.features();
        features.incompatible |= crate::feature::Incompatible::IS_64BIT;
        superblock.set_features(features);
        assert_eq!(superblock.descriptor_bytes(), 64);
    }

    #[test]
    fn the_original_format_has_fixed_sizes() {
        let mut superblock = Superblock::default();
        superblock.dynamic_inode_size.set(256);
        superblock.dynamic_first_inode.set(15);
        assert_eq!(
            (superblock.inode_size(), superblock.first_inode()),
            (128, 11)
        );
        superblock.revision.set(DYNAMIC_REVISION);
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
            superblock.log_block_size.set(log);
            assert_eq!(superblock.block_size(), size);
        }
    }
}
