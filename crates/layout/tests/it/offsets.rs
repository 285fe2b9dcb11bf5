//! The offset of every field, one by one.

use core::mem::offset_of;

use layout::directory::{EntryHeader, EntryTail};
use layout::group::{GroupDescriptor, GroupDescriptor64};
use layout::inode::{Inode, InodeExtra};
use layout::journal::{BlockTail, CommitBlock, Header, JournalSuperblock, RevokeHeader};
use layout::superblock::Superblock;
use layout::tag::{BlockTag, BlockTag3};
use layout::{acl, attribute, extent, htree};

/// Checks the offsets of all fields of a structure. Omitting a field is a compile error.
macro_rules! check {
    ($type:ty as $name:ident { $($field:ident: $offset:expr),* $(,)? }) => {{
        type $name = $type;
        let _ = |value: $name| {
            let $name { $($field: _),* } = value;
        };
        $(assert_eq!(
            offset_of!($name, $field),
            $offset,
            concat!(stringify!($type), ".", stringify!($field))
        );)*
    }};
}

#[test]
fn superblock() {
    check!(Superblock as T {
        s_inodes_count: 0x000, s_blocks_count_lo: 0x004, s_r_blocks_count_lo: 0x008,
        s_free_blocks_count_lo: 0x00C, s_free_inodes_count: 0x010, s_first_data_block: 0x014,
        s_log_block_size: 0x018, s_log_cluster_size: 0x01C, s_blocks_per_group: 0x020,
        s_clusters_per_group: 0x024, s_inodes_per_group: 0x028, s_mtime: 0x02C, s_wtime: 0x030,
        s_mnt_count: 0x034, s_max_mnt_count: 0x036, s_magic: 0x038, s_state: 0x03A,
        s_errors: 0x03C, s_minor_rev_level: 0x03E, s_lastcheck: 0x040, s_checkinterval: 0x044,
        s_creator_os: 0x048, s_rev_level: 0x04C, s_def_resuid: 0x050, s_def_resgid: 0x052,
        s_first_ino: 0x054, s_inode_size: 0x058, s_block_group_nr: 0x05A,
        s_feature_compat: 0x05C, s_feature_incompat: 0x060, s_feature_ro_compat: 0x064,
        s_uuid: 0x068, s_volume_name: 0x078, s_last_mounted: 0x088,
        s_algorithm_usage_bitmap: 0x0C8, s_prealloc_blocks: 0x0CC, s_prealloc_dir_blocks: 0x0CD,
        s_reserved_gdt_blocks: 0x0CE, s_journal_uuid: 0x0D0, s_journal_inum: 0x0E0,
        s_journal_dev: 0x0E4, s_last_orphan: 0x0E8, s_hash_seed: 0x0EC,
        s_def_hash_version: 0x0FC, s_jnl_backup_type: 0x0FD, s_desc_size: 0x0FE,
        s_default_mount_opts: 0x100, s_first_meta_bg: 0x104, s_mkfs_time: 0x108,
        s_jnl_blocks: 0x10C, s_blocks_count_hi: 0x150, s_r_blocks_count_hi: 0x154,
        s_free_blocks_count_hi: 0x158, s_min_extra_isize: 0x15C, s_want_extra_isize: 0x15E,
        s_flags: 0x160, s_raid_stride: 0x164, s_mmp_update_interval: 0x166, s_mmp_block: 0x168,
        s_raid_stripe_width: 0x170, s_log_groups_per_flex: 0x174, s_checksum_type: 0x175,
        s_encryption_level: 0x176, s_reserved_pad: 0x177, s_kbytes_written: 0x178,
        s_snapshot_inum: 0x180, s_snapshot_id: 0x184, s_snapshot_r_blocks_count: 0x188,
        s_snapshot_list: 0x190, s_error_count: 0x194, s_first_error_time: 0x198,
        s_first_error_ino: 0x19C, s_first_error_block: 0x1A0, s_first_error_func: 0x1A8,
        s_first_error_line: 0x1C8, s_last_error_time: 0x1CC, s_last_error_ino: 0x1D0,
        s_last_error_line: 0x1D4, s_last_error_block: 0x1D8, s_last_error_func: 0x1E0,
        s_mount_opts: 0x200, s_usr_quota_inum: 0x240, s_grp_quota_inum: 0x244,
        s_overhead_clusters: 0x248, s_backup_bgs: 0x24C, s_encrypt_algos: 0x254,
        s_encrypt_pw_salt: 0x258, s_lpf_ino: 0x268, s_prj_quota_inum: 0x26C,
        s_checksum_seed: 0x270, s_wtime_hi: 0x274, s_mtime_hi: 0x275, s_mkfs_time_hi: 0x276,
        s_lastcheck_hi: 0x277, s_first_error_time_hi: 0x278, s_last_error_time_hi: 0x279,
        s_first_error_errcode: 0x27A, s_last_error_errcode: 0x27B, s_encoding: 0x27C,
        s_encoding_flags: 0x27E, s_orphan_file_inum: 0x280, s_reserved: 0x284,
        s_checksum: 0x3FC,
    });
}

#[test]
fn group_descriptors() {
    check!(GroupDescriptor as T {
        bg_block_bitmap_lo: 0x00, bg_inode_bitmap_lo: 0x04, bg_inode_table_lo: 0x08,
        bg_free_blocks_count_lo: 0x0C, bg_free_inodes_count_lo: 0x0E,
        bg_used_dirs_count_lo: 0x10, bg_flags: 0x12, bg_exclude_bitmap_lo: 0x14,
        bg_block_bitmap_csum_lo: 0x18, bg_inode_bitmap_csum_lo: 0x1A, bg_itable_unused_lo: 0x1C,
        bg_checksum: 0x1E,
    });
    check!(GroupDescriptor64 as T {
        base: 0x00, bg_block_bitmap_hi: 0x20, bg_inode_bitmap_hi: 0x24, bg_inode_table_hi: 0x28,
        bg_free_blocks_count_hi: 0x2C, bg_free_inodes_count_hi: 0x2E,
        bg_used_dirs_count_hi: 0x30, bg_itable_unused_hi: 0x32, bg_exclude_bitmap_hi: 0x34,
        bg_block_bitmap_csum_hi: 0x38, bg_inode_bitmap_csum_hi: 0x3A, bg_reserved: 0x3C,
    });
}

#[test]
fn inodes() {
    check!(Inode as T {
        i_mode: 0x00, i_uid: 0x02, i_size_lo: 0x04, i_atime: 0x08, i_ctime: 0x0C, i_mtime: 0x10,
        i_dtime: 0x14, i_gid: 0x18, i_links_count: 0x1A, i_blocks_lo: 0x1C, i_flags: 0x20,
        l_i_version: 0x24, i_block: 0x28, i_generation: 0x64, i_file_acl_lo: 0x68,
        i_size_high: 0x6C, i_obso_faddr: 0x70, l_i_blocks_high: 0x74, l_i_file_acl_high: 0x76,
        l_i_uid_high: 0x78, l_i_gid_high: 0x7A, l_i_checksum_lo: 0x7C, l_i_reserved: 0x7E,
    });
    // Offsets from the end of the base part, at byte 0x80 of the inode.
    check!(InodeExtra as T {
        i_extra_isize: 0x00, i_checksum_hi: 0x02, i_ctime_extra: 0x04, i_mtime_extra: 0x08,
        i_atime_extra: 0x0C, i_crtime: 0x10, i_crtime_extra: 0x14, i_version_hi: 0x18,
        i_projid: 0x1C,
    });
}

#[test]
fn directories() {
    check!(EntryHeader as T { inode: 0, rec_len: 4, name_len: 6, file_type: 7 });
    check!(EntryTail as T {
        det_reserved_zero1: 0, det_rec_len: 4, det_reserved_zero2: 6, det_reserved_ft: 7,
        det_checksum: 8,
    });
    check!(htree::RootInfo as T {
        reserved_zero: 0, hash_version: 4, info_length: 5, indirect_levels: 6, unused_flags: 7,
    });
    check!(htree::Entry as T { hash: 0, block: 4 });
    check!(htree::CountLimit as T { limit: 0, count: 2 });
    check!(htree::Tail as T { dt_reserved: 0, dt_checksum: 4 });
}

#[test]
fn attributes_and_extents() {
    check!(attribute::BlockHeader as T {
        h_magic: 0, h_refcount: 4, h_blocks: 8, h_hash: 12, h_checksum: 16, h_reserved: 20,
    });
    check!(attribute::InodeHeader as T { h_magic: 0 });
    check!(attribute::Entry as T {
        e_name_len: 0, e_name_index: 1, e_value_offs: 2, e_value_inum: 4, e_value_size: 8,
        e_hash: 12,
    });
    check!(acl::Header as T { a_version: 0 });
    check!(acl::ShortEntry as T { e_tag: 0, e_perm: 2 });
    check!(acl::Entry as T { e_tag: 0, e_perm: 2, e_id: 4 });
    check!(extent::Header as T {
        eh_magic: 0, eh_entries: 2, eh_max: 4, eh_depth: 6, eh_generation: 8,
    });
    check!(extent::Extent as T { ee_block: 0, ee_len: 4, ee_start_hi: 6, ee_start_lo: 8 });
    check!(extent::Index as T { ei_block: 0, ei_leaf_lo: 4, ei_leaf_hi: 8, ei_unused: 10 });
}

#[test]
fn journal() {
    check!(Header as T { h_magic: 0, h_blocktype: 4, h_sequence: 8 });
    check!(JournalSuperblock as T {
        s_header: 0x00, s_blocksize: 0x0C, s_maxlen: 0x10, s_first: 0x14, s_sequence: 0x18,
        s_start: 0x1C, s_errno: 0x20, s_feature_compat: 0x24, s_feature_incompat: 0x28,
        s_feature_ro_compat: 0x2C, s_uuid: 0x30, s_nr_users: 0x40, s_dynsuper: 0x44,
        s_max_transaction: 0x48, s_max_trans_data: 0x4C, s_checksum_type: 0x50,
        s_padding2: 0x51, s_num_fc_blks: 0x54, s_head: 0x58, s_padding: 0x5C, s_checksum: 0xFC,
        s_users: 0x100,
    });
    check!(CommitBlock as T {
        h_header: 0x00, h_chksum_type: 0x0C, h_chksum_size: 0x0D, h_padding: 0x0E,
        h_chksum: 0x10, h_commit_sec: 0x30, h_commit_nsec: 0x38,
    });
    check!(RevokeHeader as T { r_header: 0, r_count: 12 });
    check!(BlockTail as T { t_checksum: 0 });
    check!(BlockTag as T { t_blocknr: 0, t_checksum: 4, t_flags: 6, t_blocknr_high: 8 });
    check!(BlockTag3 as T { t_blocknr: 0, t_flags: 4, t_blocknr_high: 8, t_checksum: 12 });
}
