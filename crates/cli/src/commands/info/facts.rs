//! Facts from the superblock: all that `dumpe2fs -h` shows, each under a stable key.

use ext::superblock::WRITTEN_BLOCK_BYTES_MAX;
use layout::feature::{Compatible, Features, Incompatible, ReadOnlyCompatible};
use layout::superblock::{self as disk, MOUNT_COUNT_UNLIMITED, MiscFlags, Superblock};
use serde_json::json;

use super::words::{error_policy, hex, kind, known, name, seconds, state, time, uuid};
use super::{Fact, fact};

/// Names of directory hashes, by number.
const HASHES: &[&str] = &[
    "legacy",
    "half_md4",
    "tea",
    "legacy_unsigned",
    "half_md4_unsigned",
    "tea_unsigned",
    "siphash",
];
/// Names of character sets, by number.
const ENCODINGS: &[&str] = &["ascii", "utf8-12.1"];
/// Names of creator operating systems, by number.
const SYSTEMS: &[&str] = &["Linux", "GNU/Hurd", "Masix", "FreeBSD", "Lites"];
const FLAGS: &[(MiscFlags, &str)] = &[
    (MiscFlags::SIGNED_HASH, "signed_directory_hash"),
    (MiscFlags::UNSIGNED_HASH, "unsigned_directory_hash"),
    (MiscFlags::TEST_FILESYSTEM, "test_filesystem"),
];
/// Returns the facts in output order.
pub(super) fn facts(raw: &Superblock) -> Vec<Fact> {
    let features = raw.features();
    let mut facts = identity(raw, features);
    facts.extend(sizes(raw, features));
    facts.extend(times(raw));
    facts.extend(inodes(raw));
    facts.extend(checksums(raw, features));
    facts.extend(limits(raw, features));
    facts.extend(errors(raw));
    facts.extend(special_inodes(raw, features));
    facts
}

fn identity(raw: &Superblock, features: Features) -> Vec<Fact> {
    let flags = FLAGS
        .iter()
        .filter(|(bit, _)| raw.misc_flags().contains(*bit));
    let flags: Vec<&str> = flags.map(|(_, name)| *name).collect();
    let mut facts = vec![
        fact("kind", "Kind", kind(features)),
        fact("label", "Label", name(&raw.label)),
        fact("mounted_on", "Last mounted on", name(&raw.last_mounted_on)),
        fact("uuid", "UUID", uuid(raw.uuid)),
        fact("magic", "Magic", format!("{:#06x}", raw.magic.get())),
        fact("revision", "Revision", raw.revision.get()),
        fact("features", "Features", features.names()),
        fact("flags", "Flags", flags),
        fact(
            "default_mount_options",
            "Default mount options",
            raw.default_mount_options().names(),
        ),
        fact("state", "State", state(raw, features)),
        fact("errors", "On errors", error_policy(raw)),
        fact("os", "Made by", known(SYSTEMS, raw.creator_os.get())),
    ];
    let text = name(&raw.mount_options);
    if !text.is_empty() {
        facts.push(fact("mount_options", "Mount options", text));
    }
    facts
}

fn sizes(raw: &Superblock, features: Features) -> Vec<Fact> {
    let block_bytes = raw.block_size();
    let per_group = raw.inodes_per_group.get();
    let table_blocks = block_bytes.map(|bytes| {
        let table = u64::from(per_group) * u64::from(raw.inode_size());
        table.div_ceil(u64::from(bytes))
    });
    let mut facts = vec![
        fact("block_bytes", "Block bytes", block_bytes),
        fact("blocks", "Blocks", raw.blocks_count()),
        fact(
            "reserved_blocks",
            "Reserved blocks",
            raw.reserved_blocks_count(),
        ),
        fact("free_blocks", "Free blocks", raw.free_blocks_count()),
        fact(
            "overhead_clusters",
            "Overhead clusters",
            raw.overhead_clusters.get(),
        ),
        fact("first_block", "First block", raw.first_data_block.get()),
        fact("inodes", "Inodes", raw.inodes_count.get()),
        fact("free_inodes", "Free inodes", raw.free_inodes_count.get()),
        fact("inode_bytes", "Inode bytes", raw.inode_size()),
        fact(
            "blocks_per_group",
            "Blocks per group",
            raw.blocks_per_group.get(),
        ),
        fact("inodes_per_group", "Inodes per group", per_group),
        fact(
            "inode_blocks_per_group",
            "Inode blocks per group",
            table_blocks,
        ),
        fact(
            "reserved_descriptor_blocks",
            "Reserved GDT blocks",
            raw.reserved_descriptor_blocks.get(),
        ),
    ];
    let is_clustered = features
        .read_only_compatible
        .contains(ReadOnlyCompatible::BIGALLOC);
    let cluster = 1024_u64.checked_shl(raw.log_cluster_size.get());
    let flexible = 1_u32.checked_shl(raw.log_groups_per_flex.into());
    let per_cluster_group = raw.clusters_per_group.get();
    let own = |has: bool, fact: Fact| has.then_some(fact);
    facts.extend(
        [
            own(
                is_clustered,
                fact("cluster_bytes", "Cluster bytes", cluster),
            ),
            own(
                is_clustered,
                fact(
                    "clusters_per_group",
                    "Clusters per group",
                    per_cluster_group,
                ),
            ),
            own(
                features.incompatible.contains(Incompatible::IS_64BIT),
                fact(
                    "descriptor_bytes",
                    "Descriptor bytes",
                    raw.descriptor_size.get(),
                ),
            ),
            number("raid_stride_blocks", "RAID stride", raw.raid_stride.get()),
            number(
                "raid_stripe_blocks",
                "RAID stripe",
                raw.raid_stripe_width.get(),
            ),
            number(
                "first_meta_group",
                "First meta group",
                raw.first_meta_group.get(),
            ),
            own(
                raw.log_groups_per_flex != 0,
                fact(
                    "groups_per_flexible_group",
                    "Groups per flexible one",
                    flexible,
                ),
            ),
        ]
        .into_iter()
        .flatten(),
    );
    facts
}

fn times(raw: &Superblock) -> Vec<Fact> {
    let mounts_max = match raw.max_mount_count.get() {
        0 | MOUNT_COUNT_UNLIMITED => json!("unlimited"),
        count => json!(count),
    };
    let checked = seconds(raw.check_time.get(), raw.check_time_high);
    let interval = raw.check_interval.get();
    let mut facts = vec![
        fact("mounts", "Mounts", raw.mount_count.get()),
        fact("mounts_max", "Mounts before a check", mounts_max),
        fact(
            "made",
            "Made",
            time(seconds(raw.creation_time.get(), raw.creation_time_high)),
        ),
        fact(
            "mounted",
            "Last mounted",
            time(seconds(raw.mount_time.get(), raw.mount_time_high)),
        ),
        fact(
            "written",
            "Last written",
            time(seconds(raw.write_time.get(), raw.write_time_high)),
        ),
        fact("checked", "Last checked", time(checked)),
        fact("check_interval_seconds", "Check interval, s", interval),
    ];
    if interval != 0 {
        let next = time(checked + i64::from(interval));
        facts.push(fact("check_due", "Check due", next));
    }
    let written = raw.kibibytes_written.get();
    if written != 0 {
        facts.push(fact(
            "lifetime_written_kib",
            "Lifetime writes, KiB",
            written,
        ));
    }
    facts
}

fn inodes(raw: &Superblock) -> Vec<Fact> {
    let mut facts = vec![
        fact("reserved_uid", "Reserved for user", raw.reserved_uid.get()),
        fact("reserved_gid", "Reserved for group", raw.reserved_gid.get()),
        fact("first_inode", "First inode", raw.first_inode()),
    ];
    if raw.inode_size() > disk::GOOD_OLD_INODE_SIZE {
        let (required, wanted) = (
            raw.min_extra_inode_size.get(),
            raw.wanted_extra_inode_size.get(),
        );
        facts.push(fact(
            "extra_bytes_required",
            "Extra bytes required",
            required,
        ));
        facts.push(fact("extra_bytes_wanted", "Extra bytes wanted", wanted));
    }
    let seed: [u8; 16] = zerocopy::transmute!(raw.hash_seed_words);
    let has_index = raw.features().compatible.contains(Compatible::DIR_INDEX);
    if has_index || raw.default_hash_version != 0 {
        let hash = known(HASHES, raw.default_hash_version.into());
        facts.push(fact("hash", "Directory hash", hash));
    }
    if seed != [0; 16] {
        facts.push(fact("hash_seed", "Directory hash seed", uuid(seed)));
    }
    facts
}

fn checksums(raw: &Superblock, features: Features) -> Vec<Fact> {
    let mut facts = Vec::new();
    if features
        .read_only_compatible
        .contains(ReadOnlyCompatible::METADATA_CSUM)
    {
        let kind = match raw.checksum_type {
            disk::CHECKSUM_CRC32C => "crc32c".to_owned(),
            other => other.to_string(),
        };
        facts.push(fact("checksum_type", "Checksums", kind));
        facts.push(fact("checksum", "Checksum", hex(raw.checksum.get())));
    }
    if features
        .incompatible
        .contains(Incompatible::METADATA_CSUM_SEED)
    {
        facts.push(fact(
            "checksum_seed",
            "Checksum seed",
            hex(raw.checksum_seed.get()),
        ));
    }
    facts
}

/// Returns the character set of names, and what is not read or changed here.
fn limits(raw: &Superblock, features: Features) -> Vec<Fact> {
    let mut facts = Vec::new();
    if features.incompatible.contains(Incompatible::CASEFOLD) {
        let encoding = known(ENCODINGS, raw.encoding.get().into());
        facts.push(fact("encoding", "Character encoding", encoding));
    }
    let large = raw
        .block_size()
        .filter(|bytes| *bytes > WRITTEN_BLOCK_BYTES_MAX);
    let large = large.map(|bytes| format!("blocks of {bytes} bytes are only read"));
    let limits = features.limits().into_iter().map(str::to_owned);
    let limits: Vec<String> = limits.chain(large).collect();
    if !limits.is_empty() {
        facts.push(fact("limits", "Limits", limits.join("; ")));
    }
    facts
}

fn errors(raw: &Superblock) -> Vec<Fact> {
    let mut facts: Vec<Fact> = number("error_count", "Errors", raw.error_count.get())
        .into_iter()
        .collect();
    let first = seconds(raw.first_error_time.get(), raw.first_error_time_high);
    if first != 0 {
        facts.extend([
            fact("first_error", "First error", time(first)),
            fact(
                "first_error_function",
                "  in function",
                name(&raw.first_error_function),
            ),
            fact("first_error_line", "  in line", raw.first_error_line.get()),
            fact(
                "first_error_inode",
                "  of inode",
                raw.first_error_inode.get(),
            ),
            fact(
                "first_error_block",
                "  of block",
                raw.first_error_block.get(),
            ),
            fact("first_error_code", "  with code", raw.first_error_code),
        ]);
    }
    let last = seconds(raw.last_error_time.get(), raw.last_error_time_high);
    if last != 0 {
        facts.extend([
            fact("last_error", "Last error", time(last)),
            fact(
                "last_error_function",
                "  in function",
                name(&raw.last_error_function),
            ),
            fact("last_error_line", "  in line", raw.last_error_line.get()),
            fact("last_error_inode", "  of inode", raw.last_error_inode.get()),
            fact("last_error_block", "  of block", raw.last_error_block.get()),
            fact("last_error_code", "  with code", raw.last_error_code),
        ]);
    }
    facts
}

/// Returns special inodes, and other fields that few file systems use.
fn special_inodes(raw: &Superblock, features: Features) -> Vec<Fact> {
    let backups = raw.backup_groups.map(|group| group.get());
    let has_two = features.compatible.contains(Compatible::SPARSE_SUPER2);
    let has_mmp = features.incompatible.contains(Incompatible::MMP);
    let found = [
        number("first_orphan", "First orphan", raw.first_orphan.get()),
        number(
            "orphan_file_inode",
            "Orphan file's inode",
            raw.orphan_file_inode.get(),
        ),
        number(
            "user_quota_inode",
            "User quota's inode",
            raw.user_quota_inode.get(),
        ),
        number(
            "group_quota_inode",
            "Group quota's inode",
            raw.group_quota_inode.get(),
        ),
        number(
            "project_quota_inode",
            "Project quota's inode",
            raw.project_quota_inode.get(),
        ),
        number(
            "snapshot_inode",
            "Snapshot's inode",
            raw.snapshot_inode.get(),
        ),
        has_mmp.then(|| fact("mmp_block", "MMP block", raw.mmp_block.get())),
        has_mmp.then(|| {
            let interval = raw.mmp_update_interval.get();
            fact("mmp_interval_seconds", "MMP interval, s", interval)
        }),
        has_two.then(|| fact("backup_groups", "Groups with backups", backups.to_vec())),
    ];
    found.into_iter().flatten().collect()
}

/// Returns a fact, or `None` if its value is zero.
fn number(key: &'static str, label: &'static str, value: impl Into<u32>) -> Option<Fact> {
    let value = value.into();
    (value != 0).then(|| fact(key, label, value))
}
