//! The superblock of a new volume.

use layout::feature::{Compatible, Incompatible, ReadOnlyCompatible};
use layout::inode::EXTRA_SIZE;
use layout::quota::QuotaKind;
use layout::superblock::{
    Backups, CHECKSUM_CRC32C, DYNAMIC_REVISION, DefaultMountOptions, ErrorPolicy,
    JOURNAL_BACKUP_BLOCKS, MAGIC, MOUNT_COUNT_UNLIMITED, MiscFlags, OS_LINUX, State, Superblock,
};
use layout::{InodeNr, hash::HashVersion};
use zerocopy::FromZeros;
use zerocopy::little_endian::U32;

use super::groups::FLEX_GROUPS_LOG;
use super::plan::Plan;
use super::{JournalOption, Options, Profile};
use crate::disk::superblock::split_time;
use crate::format::mkfs::image::Image;

/// Returns the superblock as stored in group 0; the backups differ in `s_block_group_nr`.
pub(super) fn superblock(plan: &Plan, options: &Options, image: &Image) -> Superblock {
    let mut raw = Superblock::new_zeroed();
    counts(&mut raw, plan, image);
    raw.magic.set(MAGIC);
    raw.state_bits.set(State::VALID.bits());
    raw.error_policy.set(ErrorPolicy::Continue as u16);
    raw.revision.set(DYNAMIC_REVISION);
    raw.creator_os.set(OS_LINUX);
    raw.max_mount_count.set(MOUNT_COUNT_UNLIMITED);
    (raw.creation_time, raw.creation_time_high) = split_time(plan.seconds);
    (raw.write_time, raw.write_time_high) = split_time(plan.seconds);
    (raw.check_time, raw.check_time_high) = split_time(plan.seconds);
    raw.set_features(plan.features);
    raw.uuid = plan.uuid;
    raw.label = plan.label;
    if plan.profile == Profile::Debian12 {
        let defaults = DefaultMountOptions::USER_XATTR | DefaultMountOptions::ACL;
        raw.default_mount_option_bits.set(defaults.bits());
    }
    let has_dir_index = plan.features.compatible.contains(Compatible::DIR_INDEX);
    if has_dir_index || plan.profile == Profile::Debian12 {
        raw.misc_flag_bits.set(MiscFlags::SIGNED_HASH.bits());
        raw.default_hash_version = HashVersion::HalfMd4 as u8;
        for (word, bytes) in raw
            .hash_seed_words
            .iter_mut()
            .zip(plan.hash_seed.chunks_exact(4))
        {
            word.set(u32::from_le_bytes(bytes.try_into().expect("4 bytes")));
        }
    }
    if usize::from(plan.geometry.inode_bytes) >= layout::inode::BASE_SIZE + EXTRA_SIZE {
        raw.min_extra_inode_size.set(EXTRA_SIZE as u16);
        raw.wanted_extra_inode_size.set(EXTRA_SIZE as u16);
    }
    extended(&mut raw, plan);
    for (kind, nr) in &image.quotas {
        let field = match kind {
            QuotaKind::User => &mut raw.user_quota_inode,
            QuotaKind::Group => &mut raw.group_quota_inode,
            QuotaKind::Project => &mut raw.project_quota_inode,
        };
        field.set(nr.get());
    }
    if let Some((block, seconds)) = image.multi_mount {
        raw.mmp_block.set(block.get());
        raw.mmp_update_interval.set(seconds);
    }
    journal(&mut raw, options, image);
    raw
}

/// Sets the fields of ext4's features.
fn extended(raw: &mut Superblock, plan: &Plan) {
    let incompatible = plan.features.incompatible;
    if incompatible.contains(Incompatible::IS_64BIT) {
        raw.descriptor_size.set(plan.geometry.descriptor_bytes);
    }
    if incompatible.contains(Incompatible::FLEX_BG) {
        raw.log_groups_per_flex = FLEX_GROUPS_LOG;
    }
    let compatible = plan.features.compatible;
    if compatible.contains(Compatible::ORPHAN_FILE) {
        raw.orphan_file_inode.set(plan.orphan_file().get());
    }
    let read_only = plan.features.read_only_compatible;
    if read_only.contains(ReadOnlyCompatible::METADATA_CSUM) {
        raw.checksum_type = CHECKSUM_CRC32C;
    }
    if incompatible.contains(Incompatible::METADATA_CSUM_SEED)
        && let Some(seed) = plan.sums.seed()
    {
        raw.checksum_seed.set(seed);
    }
}

fn counts(raw: &mut Superblock, plan: &Plan, image: &Image) {
    let geometry = &plan.geometry;
    let log = geometry.block_bytes.trailing_zeros() - 10;
    raw.inodes_count.set(geometry.inode_count);
    raw.set_blocks_count(geometry.block_count);
    raw.set_reserved_blocks_count(plan.reserved_blocks);
    raw.set_free_blocks_count(image.free_blocks(plan));
    raw.free_inodes_count
        .set(geometry.inode_count - plan.last_inode().get());
    raw.first_data_block
        .set(geometry.first_data_block.get() as u32);
    raw.log_block_size.set(log);
    raw.log_cluster_size.set(log + geometry.cluster_log);
    raw.blocks_per_group.set(geometry.blocks_per_group);
    raw.clusters_per_group.set(geometry.clusters_per_group());
    raw.inodes_per_group.set(geometry.inodes_per_group);
    raw.dynamic_first_inode.set(geometry.first_inode.get());
    raw.dynamic_inode_size.set(geometry.inode_bytes);
    raw.reserved_descriptor_blocks
        .set(geometry.reserved_descriptor_blocks);
    if let Backups::Listed(groups) = geometry.backups {
        raw.backup_groups = groups.map(U32::new);
    }
    let overhead = geometry.first_data_block.get()
        + plan.metadata.count()
        + u64::from(image.journal_block_count()).next_multiple_of(geometry.cluster_blocks().into());
    let overhead = overhead >> geometry.cluster_log;
    raw.overhead_clusters.set(overhead as u32);
}

fn journal(raw: &mut Superblock, options: &Options, image: &Image) {
    if let JournalOption::External(uuid) = options.journal {
        raw.journal_uuid = uuid;
    }
    if let Some(backup) = image.journal_backup {
        raw.journal_inode.set(InodeNr::JOURNAL.get());
        raw.journal_backup_type = JOURNAL_BACKUP_BLOCKS;
        raw.journal_backup = backup.map(U32::new);
    }
}
