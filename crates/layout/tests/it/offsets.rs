//! The offset of every field, one by one.

use core::mem::offset_of;

use layout::directory::{EntryHeader, EntryTail};
use layout::encryption::{ContextV1, ContextV2};
use layout::group::{GroupDescriptor, GroupDescriptor64};
use layout::inode::{Inode, InodeExtra};
use layout::journal::{BlockTail, CommitBlock, Header, JournalSuperblock, RevokeHeader};
use layout::multi_mount::MultiMountBlock;
use layout::quota;
use layout::superblock::Superblock;
use layout::tag::{BlockTag, BlockTag3};
use layout::{acl, attribute, extent, fast_commit, htree, orphan};

/// Checks the offsets of all fields of a structure: the kernel's name, the name here, the offset.
/// Omitting a field is a compile error.
macro_rules! check {
    ($type:ty as $name:ident { $($kernel:ident $field:ident: $offset:expr),* $(,)? }) => {{
        type $name = $type;
        let _ = |value: $name| {
            let $name { $($field: _),* } = value;
        };
        $(assert_eq!(
            offset_of!($name, $field),
            $offset,
            concat!(stringify!($type), ".", stringify!($field), " ", stringify!($kernel))
        );)*
    }};
}

#[test]
fn superblock() {
    check!(Superblock as T {
        s_inodes_count inodes_count: 0x000,
        s_blocks_count_lo blocks_count_low: 0x004,
        s_r_blocks_count_lo reserved_blocks_count_low: 0x008,
        s_free_blocks_count_lo free_blocks_count_low: 0x00C,
        s_free_inodes_count free_inodes_count: 0x010,
        s_first_data_block first_data_block: 0x014,
        s_log_block_size log_block_size: 0x018,
        s_log_cluster_size log_cluster_size: 0x01C,
        s_blocks_per_group blocks_per_group: 0x020,
        s_clusters_per_group clusters_per_group: 0x024,
        s_inodes_per_group inodes_per_group: 0x028,
        s_mtime mount_time: 0x02C,
        s_wtime write_time: 0x030,
        s_mnt_count mount_count: 0x034,
        s_max_mnt_count max_mount_count: 0x036,
        s_magic magic: 0x038,
        s_state state_bits: 0x03A,
        s_errors error_policy: 0x03C,
        s_minor_rev_level minor_revision: 0x03E,
        s_lastcheck check_time: 0x040,
        s_checkinterval check_interval: 0x044,
        s_creator_os creator_os: 0x048,
        s_rev_level revision: 0x04C,
        s_def_resuid reserved_uid: 0x050,
        s_def_resgid reserved_gid: 0x052,
        s_first_ino dynamic_first_inode: 0x054,
        s_inode_size dynamic_inode_size: 0x058,
        s_block_group_nr copy_group: 0x05A,
        s_feature_compat compatible_bits: 0x05C,
        s_feature_incompat incompatible_bits: 0x060,
        s_feature_ro_compat read_only_compatible_bits: 0x064,
        s_uuid uuid: 0x068,
        s_volume_name label: 0x078,
        s_last_mounted last_mounted_on: 0x088,
        s_algorithm_usage_bitmap compression_algorithms: 0x0C8,
        s_prealloc_blocks preallocated_blocks: 0x0CC,
        s_prealloc_dir_blocks preallocated_directory_blocks: 0x0CD,
        s_reserved_gdt_blocks reserved_descriptor_blocks: 0x0CE,
        s_journal_uuid journal_uuid: 0x0D0,
        s_journal_inum journal_inode: 0x0E0,
        s_journal_dev journal_device: 0x0E4,
        s_last_orphan first_orphan: 0x0E8,
        s_hash_seed hash_seed_words: 0x0EC,
        s_def_hash_version default_hash_version: 0x0FC,
        s_jnl_backup_type journal_backup_type: 0x0FD,
        s_desc_size descriptor_size: 0x0FE,
        s_default_mount_opts default_mount_option_bits: 0x100,
        s_first_meta_bg first_meta_group: 0x104,
        s_mkfs_time creation_time: 0x108,
        s_jnl_blocks journal_backup: 0x10C,
        s_blocks_count_hi blocks_count_high: 0x150,
        s_r_blocks_count_hi reserved_blocks_count_high: 0x154,
        s_free_blocks_count_hi free_blocks_count_high: 0x158,
        s_min_extra_isize min_extra_inode_size: 0x15C,
        s_want_extra_isize wanted_extra_inode_size: 0x15E,
        s_flags misc_flag_bits: 0x160,
        s_raid_stride raid_stride: 0x164,
        s_mmp_update_interval mmp_update_interval: 0x166,
        s_mmp_block mmp_block: 0x168,
        s_raid_stripe_width raid_stripe_width: 0x170,
        s_log_groups_per_flex log_groups_per_flex: 0x174,
        s_checksum_type checksum_type: 0x175,
        s_encryption_level encryption_level: 0x176,
        s_reserved_pad reserved_pad: 0x177,
        s_kbytes_written kibibytes_written: 0x178,
        s_snapshot_inum snapshot_inode: 0x180,
        s_snapshot_id snapshot_id: 0x184,
        s_snapshot_r_blocks_count snapshot_reserved_blocks_count: 0x188,
        s_snapshot_list snapshot_list_inode: 0x190,
        s_error_count error_count: 0x194,
        s_first_error_time first_error_time: 0x198,
        s_first_error_ino first_error_inode: 0x19C,
        s_first_error_block first_error_block: 0x1A0,
        s_first_error_func first_error_function: 0x1A8,
        s_first_error_line first_error_line: 0x1C8,
        s_last_error_time last_error_time: 0x1CC,
        s_last_error_ino last_error_inode: 0x1D0,
        s_last_error_line last_error_line: 0x1D4,
        s_last_error_block last_error_block: 0x1D8,
        s_last_error_func last_error_function: 0x1E0,
        s_mount_opts mount_options: 0x200,
        s_usr_quota_inum user_quota_inode: 0x240,
        s_grp_quota_inum group_quota_inode: 0x244,
        s_overhead_clusters overhead_clusters: 0x248,
        s_backup_bgs backup_groups: 0x24C,
        s_encrypt_algos encryption_algorithms: 0x254,
        s_encrypt_pw_salt encryption_salt: 0x258,
        s_lpf_ino lost_and_found_inode: 0x268,
        s_prj_quota_inum project_quota_inode: 0x26C,
        s_checksum_seed checksum_seed: 0x270,
        s_wtime_hi write_time_high: 0x274,
        s_mtime_hi mount_time_high: 0x275,
        s_mkfs_time_hi creation_time_high: 0x276,
        s_lastcheck_hi check_time_high: 0x277,
        s_first_error_time_hi first_error_time_high: 0x278,
        s_last_error_time_hi last_error_time_high: 0x279,
        s_first_error_errcode first_error_code: 0x27A,
        s_last_error_errcode last_error_code: 0x27B,
        s_encoding encoding: 0x27C,
        s_encoding_flags encoding_flags: 0x27E,
        s_orphan_file_inum orphan_file_inode: 0x280,
        s_reserved reserved: 0x284,
        s_checksum checksum: 0x3FC,
    });
}

#[test]
fn group_descriptors() {
    check!(GroupDescriptor as T {
        bg_block_bitmap_lo block_bitmap_low: 0x00,
        bg_inode_bitmap_lo inode_bitmap_low: 0x04,
        bg_inode_table_lo inode_table_low: 0x08,
        bg_free_blocks_count_lo free_blocks_count_low: 0x0C,
        bg_free_inodes_count_lo free_inodes_count_low: 0x0E,
        bg_used_dirs_count_lo directories_count_low: 0x10,
        bg_flags flag_bits: 0x12,
        bg_exclude_bitmap_lo exclude_bitmap_low: 0x14,
        bg_block_bitmap_csum_lo block_bitmap_checksum_low: 0x18,
        bg_inode_bitmap_csum_lo inode_bitmap_checksum_low: 0x1A,
        bg_itable_unused_lo unused_inodes_count_low: 0x1C,
        bg_checksum checksum: 0x1E,
    });
    check!(GroupDescriptor64 as T {
        base base: 0x00,
        bg_block_bitmap_hi block_bitmap_high: 0x20,
        bg_inode_bitmap_hi inode_bitmap_high: 0x24,
        bg_inode_table_hi inode_table_high: 0x28,
        bg_free_blocks_count_hi free_blocks_count_high: 0x2C,
        bg_free_inodes_count_hi free_inodes_count_high: 0x2E,
        bg_used_dirs_count_hi directories_count_high: 0x30,
        bg_itable_unused_hi unused_inodes_count_high: 0x32,
        bg_exclude_bitmap_hi exclude_bitmap_high: 0x34,
        bg_block_bitmap_csum_hi block_bitmap_checksum_high: 0x38,
        bg_inode_bitmap_csum_hi inode_bitmap_checksum_high: 0x3A,
        bg_reserved reserved: 0x3C,
    });
}

#[test]
fn inodes() {
    check!(Inode as T {
        i_mode mode: 0x00,
        i_uid uid_low: 0x02,
        i_size_lo size_low: 0x04,
        i_atime access_time: 0x08,
        i_ctime change_time: 0x0C,
        i_mtime modification_time: 0x10,
        i_dtime deletion_time: 0x14,
        i_gid gid_low: 0x18,
        i_links_count links_count: 0x1A,
        i_blocks_lo blocks_low: 0x1C,
        i_flags flag_bits: 0x20,
        l_i_version version_low: 0x24,
        i_block map_words: 0x28,
        i_generation generation: 0x64,
        i_file_acl_lo attribute_block_low: 0x68,
        i_size_high size_high: 0x6C,
        i_obso_faddr fragment_address: 0x70,
        l_i_blocks_high blocks_high: 0x74,
        l_i_file_acl_high attribute_block_high: 0x76,
        l_i_uid_high uid_high: 0x78,
        l_i_gid_high gid_high: 0x7A,
        l_i_checksum_lo checksum_low: 0x7C,
        l_i_reserved reserved: 0x7E,
    });
    // Offsets from the end of the base part, at byte 0x80 of the inode.
    check!(InodeExtra as T {
        i_extra_isize extra_size: 0x00,
        i_checksum_hi checksum_high: 0x02,
        i_ctime_extra change_time_extra: 0x04,
        i_mtime_extra modification_time_extra: 0x08,
        i_atime_extra access_time_extra: 0x0C,
        i_crtime creation_time: 0x10,
        i_crtime_extra creation_time_extra: 0x14,
        i_version_hi version_high: 0x18,
        i_projid project: 0x1C,
    });
}

#[test]
fn directories() {
    check!(EntryHeader as T {
        inode inode: 0,
        rec_len record_length: 4,
        name_len name_length: 6,
        file_type file_type: 7,
    });
    check!(EntryTail as T {
        det_reserved_zero1 reserved_inode: 0,
        det_rec_len record_length: 4,
        det_reserved_zero2 reserved_name_length: 6,
        det_reserved_ft reserved_kind: 7,
        det_checksum checksum: 8,
    });
    check!(htree::RootInfo as T {
        reserved_zero reserved_zero: 0,
        hash_version hash_version: 4,
        info_length info_length: 5,
        indirect_levels indirect_levels: 6,
        unused_flags unused_flags: 7,
    });
    check!(htree::Entry as T {
        hash hash: 0,
        block block: 4,
    });
    check!(htree::CountLimit as T {
        limit limit: 0,
        count count: 2,
    });
    check!(htree::Tail as T {
        dt_reserved reserved: 0,
        dt_checksum checksum: 4,
    });
}

#[test]
fn quota_files() {
    check!(quota::Header as T {
        dqh_magic magic: 0x00,
        dqh_version version: 0x04,
        dqi_bgrace space_grace: 0x08,
        dqi_igrace inode_grace: 0x0C,
        dqi_flags flags: 0x10,
        dqi_blocks blocks: 0x14,
        dqi_free_blk free_block: 0x18,
        dqi_free_entry block_with_room: 0x1C,
    });
    check!(quota::DataHeader as T {
        dqdh_next_free next: 0x00,
        dqdh_prev_free previous: 0x04,
        dqdh_entries entries: 0x08,
        dqdh_pad1 pad: 0x0A,
        dqdh_pad2 pad_more: 0x0C,
    });
    check!(quota::Entry as T {
        dqb_id id: 0x00,
        dqb_pad pad: 0x04,
        dqb_ihardlimit inode_hard: 0x08,
        dqb_isoftlimit inode_soft: 0x10,
        dqb_curinodes inodes: 0x18,
        dqb_bhardlimit space_hard: 0x20,
        dqb_bsoftlimit space_soft: 0x28,
        dqb_curspace space: 0x30,
        dqb_btime space_time: 0x38,
        dqb_itime inode_time: 0x40,
    });
}

#[test]
fn multiple_mount_protection() {
    check!(MultiMountBlock as T {
        mmp_magic magic: 0x000,
        mmp_seq sequence: 0x004,
        mmp_time seconds: 0x008,
        mmp_nodename node: 0x010,
        mmp_bdevname device: 0x050,
        mmp_check_interval check_seconds: 0x070,
        mmp_pad1 pad: 0x072,
        mmp_pad2 padding: 0x074,
        mmp_checksum checksum: 0x3FC,
    });
}

#[test]
fn orphan_blocks() {
    check!(orphan::Tail as T {
        ob_magic magic: 0,
        ob_checksum checksum: 4,
    });
}

#[test]
fn attributes_and_extents() {
    check!(attribute::BlockHeader as T {
        h_magic magic: 0,
        h_refcount reference_count: 4,
        h_blocks block_count: 8,
        h_hash hash: 12,
        h_checksum checksum: 16,
        h_reserved reserved: 20,
    });
    check!(attribute::InodeHeader as T {
        h_magic magic: 0,
    });
    check!(attribute::Entry as T {
        e_name_len name_length: 0,
        e_name_index name_index: 1,
        e_value_offs value_offset: 2,
        e_value_inum value_inode: 4,
        e_value_size value_size: 8,
        e_hash hash: 12,
    });
    check!(acl::Header as T {
        a_version version: 0,
    });
    check!(acl::ShortEntry as T {
        e_tag tag: 0,
        e_perm permissions: 2,
    });
    check!(acl::Entry as T {
        e_tag tag: 0,
        e_perm permissions: 2,
        e_id id: 4,
    });
    check!(extent::Header as T {
        eh_magic magic: 0,
        eh_entries entry_count: 2,
        eh_max entry_max: 4,
        eh_depth depth: 6,
        eh_generation generation: 8,
    });
    check!(extent::Extent as T {
        ee_block file_block: 0,
        ee_len length: 4,
        ee_start_hi start_high: 6,
        ee_start_lo start_low: 8,
    });
    check!(extent::Index as T {
        ei_block file_block: 0,
        ei_leaf_lo leaf_low: 4,
        ei_leaf_hi leaf_high: 8,
        ei_unused unused: 10,
    });
    check!(extent::Tail as T {
        et_checksum checksum: 0,
    });
}

#[test]
fn journal() {
    check!(Header as T {
        h_magic magic: 0,
        h_blocktype block_type: 4,
        h_sequence sequence: 8,
    });
    check!(JournalSuperblock as T {
        s_header header: 0x00,
        s_blocksize block_size: 0x0C,
        s_maxlen length: 0x10,
        s_first first_block: 0x14,
        s_sequence sequence: 0x18,
        s_start start: 0x1C,
        s_errno error: 0x20,
        s_feature_compat compatible_bits: 0x24,
        s_feature_incompat incompatible_bits: 0x28,
        s_feature_ro_compat read_only_compatible_bits: 0x2C,
        s_uuid uuid: 0x30,
        s_nr_users user_count: 0x40,
        s_dynsuper dynamic_superblock: 0x44,
        s_max_transaction max_transaction: 0x48,
        s_max_trans_data max_transaction_data: 0x4C,
        s_checksum_type checksum_type: 0x50,
        s_padding2 padding2: 0x51,
        s_num_fc_blks fast_commit_blocks: 0x54,
        s_head head: 0x58,
        s_padding padding: 0x5C,
        s_checksum checksum: 0xFC,
        s_users users: 0x100,
    });
    check!(CommitBlock as T {
        h_header header: 0x00,
        h_chksum_type checksum_type: 0x0C,
        h_chksum_size checksum_size: 0x0D,
        h_padding padding: 0x0E,
        h_chksum checksums: 0x10,
        h_commit_sec commit_seconds: 0x30,
        h_commit_nsec commit_nanoseconds: 0x38,
    });
    check!(RevokeHeader as T {
        r_header header: 0,
        r_count length: 12,
    });
    check!(BlockTail as T {
        t_checksum checksum: 0,
    });
    check!(BlockTag as T {
        t_blocknr block_low: 0,
        t_checksum checksum: 4,
        t_flags flag_bits: 6,
        t_blocknr_high block_high: 8,
    });
    check!(BlockTag3 as T {
        t_blocknr block_low: 0,
        t_flags flag_bits: 4,
        t_blocknr_high block_high: 8,
        t_checksum checksum: 12,
    });
}

#[test]
fn fast_commits() {
    check!(fast_commit::TagHeader as T {
        fc_tag tag: 0,
        fc_len length: 2,
    });
    check!(fast_commit::Head as T {
        fc_features features: 0,
        fc_tid tid: 4,
    });
    check!(fast_commit::AddRange as T {
        fc_ino inode: 0,
        fc_ex extent: 4,
    });
    check!(fast_commit::DelRange as T {
        fc_ino inode: 0,
        fc_lblk file_block: 4,
        fc_len count: 8,
    });
    check!(fast_commit::EntryHeader as T {
        fc_parent_ino parent: 0,
        fc_ino inode: 4,
    });
    check!(fast_commit::InodeHeader as T {
        fc_ino inode: 0,
    });
    check!(fast_commit::Tail as T {
        fc_tid tid: 0,
        fc_crc checksum: 4,
    });
}

#[test]
fn encryption() {
    check!(ContextV1 as T {
        version version: 0x00,
        contents_encryption_mode contents_mode: 0x01,
        filenames_encryption_mode names_mode: 0x02,
        flags flags: 0x03,
        master_key_descriptor key: 0x04,
        nonce nonce: 0x0C,
    });
    check!(ContextV2 as T {
        version version: 0x00,
        contents_encryption_mode contents_mode: 0x01,
        filenames_encryption_mode names_mode: 0x02,
        flags flags: 0x03,
        log2_data_unit_size unit_log2: 0x04,
        __reserved reserved: 0x05,
        master_key_identifier key: 0x08,
        nonce nonce: 0x18,
    });
}
