//! Superblocks and group descriptors, against dumpe2fs.

use layout::checksum;
use layout::feature::{Incompatible, ReadOnlyCompatible};
use layout::group::GroupDescriptor;
use layout::hash::HashVersion;
use layout::journal::{COMPATIBLE_NAMES, INCOMPATIBLE_NAMES, JournalSuperblock};
use layout::superblock::{
    self, DefaultMountOptions, ErrorPolicy, JOURNAL_BACKUP_BLOCKS, MAGIC, MiscFlags, State,
    Superblock,
};
use zerocopy::FromBytes;

use crate::image::{Facts, Image, Volume};

fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

fn label_text(bytes: &[u8], empty: &str) -> String {
    let text: Vec<u8> = bytes
        .iter()
        .copied()
        .take_while(|byte| *byte != 0)
        .collect();
    if text.is_empty() {
        empty.to_owned()
    } else {
        String::from_utf8(text).unwrap()
    }
}

fn state_text(state: State) -> String {
    let clean = if state.contains(State::VALID) {
        "clean"
    } else {
        "not clean"
    };
    let errors = if state.contains(State::ERROR) {
        " with errors"
    } else {
        ""
    };
    format!("{clean}{errors}")
}

fn errors_text(raw: u16) -> &'static str {
    match ErrorPolicy::from_raw(raw).unwrap() {
        ErrorPolicy::Continue => "Continue",
        ErrorPolicy::RemountReadOnly => "Remount read-only",
        ErrorPolicy::Panic => "Panic",
    }
}

fn mount_options_text(options: DefaultMountOptions) -> String {
    let names = options.names();
    if names.is_empty() {
        return "(none)".to_owned();
    }
    names.join(" ")
}

/// Checks every value of dumpe2fs that is in the superblock.
fn check_superblock(superblock: &Superblock, facts: &Facts) {
    check_identity(superblock, facts);
    check_counts(superblock, facts);
    check_revision(superblock, facts);
    check_journal_and_hash(superblock, facts);
}

/// Checks names, features, state.
fn check_identity(superblock: &Superblock, facts: &Facts) {
    assert_eq!(superblock.magic.get(), MAGIC);
    facts.check_number("Filesystem magic number", MAGIC);
    let label = label_text(&superblock.label, "<none>");
    facts.check_text("Filesystem volume name", &label);
    let mounted = label_text(&superblock.last_mounted_on, "<not available>");
    facts.check_text("Last mounted on", &mounted);
    facts.check_text("Filesystem UUID", &uuid_text(&superblock.uuid));
    facts.check_number("Filesystem revision #", superblock.revision.get());
    let features = superblock.features().to_string();
    let features = if features.is_empty() {
        "(none)"
    } else {
        &features
    };
    facts.check_text("Filesystem features", features);
    let options = mount_options_text(superblock.default_mount_options());
    facts.check_text("Default mount options", &options);
    facts.check_text("Filesystem state", &state_text(superblock.state()));
    facts.check_text(
        "Errors behavior",
        errors_text(superblock.error_policy.get()),
    );
    assert_eq!(superblock.creator_os.get(), superblock::OS_LINUX);
    facts.check_text("Filesystem OS type", "Linux");
    facts.check_optional("Checksum", superblock.checksum.get());
    facts.check_optional("Lifetime writes", superblock.kibibytes_written.get());
}

/// Checks blocks, inodes, groups, mounts.
fn check_counts(superblock: &Superblock, facts: &Facts) {
    facts.check_number("Inode count", superblock.inodes_count.get());
    facts.check_number("Block count", superblock.blocks_count());
    facts.check_number("Reserved block count", superblock.reserved_blocks_count());
    facts.check_optional("Overhead clusters", superblock.overhead_clusters.get());
    facts.check_number("Free blocks", superblock.free_blocks_count());
    facts.check_number("Free inodes", superblock.free_inodes_count.get());
    facts.check_number("First block", superblock.first_data_block.get());
    facts.check_number("Block size", superblock.block_size().unwrap());
    facts.check_number(
        "Fragment size",
        1024u32 << superblock.log_cluster_size.get(),
    );
    facts.check_optional("Group descriptor size", superblock.descriptor_size.get());
    facts.check_optional(
        "Reserved GDT blocks",
        superblock.reserved_descriptor_blocks.get(),
    );
    facts.check_number("Blocks per group", superblock.blocks_per_group.get());
    facts.check_number("Fragments per group", superblock.clusters_per_group.get());
    facts.check_number("Inodes per group", superblock.inodes_per_group.get());
    facts.check_optional("RAID stride", superblock.raid_stride.get());
    facts.check_optional("RAID stripe width", superblock.raid_stripe_width.get());
    if facts.get("Flex block group size").is_some() {
        facts.check_number(
            "Flex block group size",
            1u32 << superblock.log_groups_per_flex,
        );
    }
    facts.check_number("Mount count", superblock.mount_count.get());
    let mounts_max = superblock.max_mount_count.get() as i16;
    facts.check_text("Maximum mount count", &mounts_max.to_string());
    facts.check_number("Check interval", superblock.check_interval.get());
    facts.check_number("Reserved blocks uid", superblock.reserved_uid.get());
    facts.check_number("Reserved blocks gid", superblock.reserved_gid.get());
}

/// Checks the values that the original revision does not have.
fn check_revision(superblock: &Superblock, facts: &Facts) {
    if superblock.revision.get() == superblock::GOOD_OLD_REVISION {
        assert_eq!(
            (superblock.first_inode(), superblock.inode_size()),
            (11, 128)
        );
    } else {
        facts.check_number("First inode", superblock.first_inode());
        facts.check_number("Inode size", superblock.inode_size());
    }
    facts.check_optional(
        "Required extra isize",
        superblock.min_extra_inode_size.get(),
    );
    facts.check_optional(
        "Desired extra isize",
        superblock.wanted_extra_inode_size.get(),
    );
}

fn check_journal_and_hash(superblock: &Superblock, facts: &Facts) {
    facts.check_optional("Journal inode", superblock.journal_inode.get());
    facts.check_optional("First orphan inode", superblock.first_orphan.get());
    if facts.get("Journal backup").is_some() {
        assert_eq!(superblock.journal_backup_type, JOURNAL_BACKUP_BLOCKS);
        facts.check_text("Journal backup", "inode blocks");
    }
    if facts.get("Default directory hash").is_some() {
        let ours = match HashVersion::from_raw(superblock.default_hash_version).unwrap() {
            HashVersion::Legacy => "legacy",
            HashVersion::HalfMd4 => "half_md4",
            HashVersion::Tea => "tea",
            other => panic!("{other:?} is not stored"),
        };
        facts.check_text("Default directory hash", ours);
        let seed: Vec<u8> = superblock
            .hash_seed()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        facts.check_text("Directory Hash Seed", &uuid_text(&seed.try_into().unwrap()));
    }
    if let Some(flags) = facts.get("Filesystem flags") {
        let is_signed = superblock.misc_flags().contains(MiscFlags::SIGNED_HASH);
        assert_eq!(flags.contains("unsigned_directory_hash"), !is_signed);
    }
}

/// Checks every value of dumpe2fs that is in the journal's superblock.
fn check_journal(journal: &JournalSuperblock, facts: &Facts) {
    assert_eq!(journal.version(), Some(2));
    let compatible = COMPATIBLE_NAMES
        .iter()
        .filter(|(f, _)| journal.compatible().contains(*f));
    let incompatible = INCOMPATIBLE_NAMES
        .iter()
        .filter(|(f, _)| journal.incompatible().contains(*f));
    let names: Vec<&str> = compatible
        .map(|(_, name)| *name)
        .chain(incompatible.map(|(_, name)| *name))
        .collect();
    let names = if names.is_empty() {
        "(none)".to_owned()
    } else {
        names.join(" ")
    };
    assert_eq!(facts.text("Journal features"), names);
    assert_eq!(
        facts.number("Total journal blocks"),
        journal.length.get().into()
    );
    assert_eq!(
        facts.number("Journal sequence"),
        journal.sequence.get().into()
    );
    assert_eq!(facts.number("Journal start"), journal.start.get().into());
    assert_eq!(
        facts.number("Fast commit length"),
        journal.fast_commit_blocks.get().into()
    );
}

/// Checks the checksums of all group descriptors, if they are crc16.
fn check_descriptors(volume: &Volume) {
    let superblock = &volume.superblock;
    let blocks = superblock.blocks_count() - u64::from(superblock.first_data_block.get());
    let groups = blocks.div_ceil(superblock.blocks_per_group.get().into()) as u32;
    let mut free_blocks = 0;
    let mut free_inodes = 0;
    let mut crc16_count = 0;
    for group in 0..groups {
        let bytes = volume.descriptor(group);
        let (descriptor, _) = GroupDescriptor::ref_from_prefix(bytes).unwrap();
        free_blocks += u64::from(descriptor.free_blocks_count_low.get());
        free_inodes += u32::from(descriptor.free_inodes_count_low.get());
        let words = superblock.features().read_only_compatible;
        if words.contains(ReadOnlyCompatible::UNINIT_BG) {
            let crc = checksum::group_descriptor_crc16(&superblock.uuid, group, bytes);
            assert_eq!(crc, descriptor.checksum.get(), "group {group}");
            crc16_count += 1;
        }
    }
    assert!(crc16_count == 0 || groups > 1);
    assert_eq!(free_blocks, superblock.free_blocks_count());
    assert_eq!(free_inodes, superblock.free_inodes_count.get());
}

fn check(mebibytes: u64, options: &str) {
    let image = Image::make(mebibytes, options);
    let (facts, volume) = (image.facts(), image.read());
    check_superblock(&volume.superblock, &facts);
    let words = volume.superblock.features().read_only_compatible;
    if words.contains(ReadOnlyCompatible::METADATA_CSUM) {
        let stored = volume.superblock.checksum.get();
        assert_eq!(checksum::superblock(&volume.superblock), stored);
    }
    if volume
        .superblock
        .features()
        .incompatible
        .contains(Incompatible::JOURNAL_DEV)
    {
        let block = volume.block(u64::from(volume.superblock.first_data_block.get()) + 1);
        let (journal, _) = JournalSuperblock::ref_from_prefix(block).unwrap();
        check_journal(journal, &facts);
        assert_eq!(
            facts.number("Journal first block"),
            journal.first_block.get().into()
        );
        assert_eq!(
            facts.number("Journal number of users"),
            journal.user_count.get().into()
        );
        assert_eq!(journal.uuid, volume.superblock.uuid);
        return;
    }
    check_descriptors(&volume);
    if volume.superblock.journal_inode.get() != 0 {
        let inode = volume.inode(volume.superblock.journal_inode.get());
        let backup = volume.superblock.journal_backup.map(|word| word.get());
        assert_eq!(backup[..15], inode.map());
        assert_eq!(backup[15..], [inode.size_high.get(), inode.size_low.get()]);
        let block = volume.file_block(&inode, 0);
        let (journal, _) = JournalSuperblock::ref_from_prefix(block).unwrap();
        check_journal(journal, &facts);
        let bytes = u64::from(journal.length.get()) * u64::from(journal.block_size.get());
        assert_eq!(inode.size(false), bytes);
    }
}

#[test]
fn ext3() {
    check(64, "-t ext3");
    check(64, "-t ext3 -b 4096 -L label -m 3 -e panic -J size=16");
}

#[test]
fn ext3_as_in_2001() {
    check(
        32,
        "-t ext3 -b 1024 -I 128 -i 8192 -O ^dir_index,^resize_inode,^ext_attr -e remount-ro",
    );
}

#[test]
fn ext2() {
    check(16, "-t ext2 -b 2048 -E stride=4,stripe-width=8");
    check(8, "-t ext2 -r 0 -O none");
}

#[test]
fn ext4_with_checksums_of_both_kinds() {
    check(64, "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,^64bit");
    check(64, "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg,64bit");
    check(64, "-t ext4 -b 4096 -O metadata_csum,64bit");
}

#[test]
fn external_journals() {
    check(8, "-O journal_dev -b 1024");
    check(8, "-O journal_dev -b 4096");
}

#[test]
fn tuned_by_tune2fs() {
    let image = Image::make(16, "-t ext3");
    let path = image.path_text();
    let options = "-c 30 -i 180d -o journal_data_writeback,acl,user_xattr -L other";
    let mut args: Vec<&str> = options.split(' ').collect();
    args.push(&path);
    crate::image::run("tune2fs", &args, b"", &[0]);
    check_superblock(&image.read().superblock, &image.facts());
}
