//! Each checked field is invalid once.

use layout::superblock::{Backups, MAGIC, Superblock as Raw};
use zerocopy::IntoBytes;

use super::*;
use crate::error::Sealed;
use crate::file::testing::assert_notices;

const DEVICE_BYTES: u64 = 8 << 20;

/// Returns a valid superblock: blocks of 1 KiB, one group.
fn good() -> Raw {
    let mut raw = <Raw as zerocopy::FromZeros>::new_zeroed();
    raw.magic.set(MAGIC);
    raw.revision.set(1);
    raw.inodes_count.set(2048);
    raw.blocks_count_low.set(8192);
    raw.first_data_block.set(1);
    raw.blocks_per_group.set(8192);
    raw.clusters_per_group.set(8192);
    raw.inodes_per_group.set(2048);
    raw.dynamic_first_inode.set(11);
    raw.dynamic_inode_size.set(256);
    raw.incompatible_bits.set(2);
    raw.read_only_compatible_bits.set(3);
    raw
}

fn decode(change: impl FnOnce(&mut Raw)) -> Result<Superblock> {
    let mut raw = good();
    change(&mut raw);
    Superblock::decode(raw.as_bytes(), DEVICE_BYTES)
}

/// Returns the field that the error names.
fn wrong_field(change: impl FnOnce(&mut Raw)) -> &'static str {
    match decode(change) {
        Err(Error::Corrupt(Corrupt::Superblock { field, .. })) => field,
        other => panic!("{other:?}"),
    }
}

fn unsupported(change: impl FnOnce(&mut Raw)) -> String {
    match decode(change) {
        Err(Error::Unsupported(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_good_superblock_is_decoded() {
    let superblock = decode(|_| {}).expect("good");
    assert_eq!(superblock.geometry.group_count, 1);
    assert!(superblock.has_filetype() && !superblock.has_dir_index() && !superblock.needs_recovery);
    assert_eq!(superblock.geometry.backups, Backups::Sparse);
    assert_eq!(superblock.unknown_read_only_features, None);
    assert_eq!(
        (superblock.journal_inode, superblock.journal_uuid),
        (None, None)
    );
}

#[test]
fn wrong_sizes_are_named() {
    assert_eq!(
        wrong_field(|raw| raw.log_block_size.set(7)),
        "s_log_block_size"
    );
    assert_eq!(
        wrong_field(|raw| raw.log_cluster_size.set(1)),
        "s_log_cluster_size"
    );
    assert_eq!(
        wrong_field(|raw| raw.blocks_per_group.set(0)),
        "s_blocks_per_group"
    );
    assert_eq!(
        wrong_field(|raw| raw.blocks_per_group.set(8200)),
        "s_blocks_per_group"
    );
    assert_eq!(
        wrong_field(|raw| raw.blocks_per_group.set(8191)),
        "s_blocks_per_group"
    );
    assert_eq!(
        wrong_field(|raw| raw.dynamic_inode_size.set(0)),
        "s_inode_size"
    );
    assert_eq!(
        wrong_field(|raw| raw.dynamic_inode_size.set(160)),
        "s_inode_size"
    );
    assert_eq!(
        wrong_field(|raw| raw.dynamic_inode_size.set(2048)),
        "s_inode_size"
    );
    assert_eq!(
        wrong_field(|raw| raw.first_data_block.set(0)),
        "s_first_data_block"
    );
    assert_eq!(
        wrong_field(|raw| raw.blocks_count_low.set(1)),
        "s_blocks_count"
    );
    assert!(matches!(
        decode(|raw| raw.blocks_count_low.set(8193)),
        Err(Error::Corrupt(Corrupt::Truncated { .. }))
    ));
}

#[test]
fn wrong_counts_and_features_are_named() {
    assert_eq!(
        wrong_field(|raw| raw.inodes_per_group.set(3)),
        "s_inodes_per_group"
    );
    assert_eq!(
        wrong_field(|raw| raw.inodes_per_group.set(8193)),
        "s_inodes_per_group"
    );
    assert_eq!(
        wrong_field(|raw| raw.inodes_count.set(2047)),
        "s_inodes_count"
    );
    assert_eq!(
        wrong_field(|raw| raw.dynamic_first_inode.set(10)),
        "s_first_ino"
    );
    assert_eq!(
        wrong_field(|raw| raw.dynamic_first_inode.set(2049)),
        "s_first_ino"
    );
    assert_eq!(
        wrong_field(|raw| raw.reserved_descriptor_blocks.set(257)),
        "s_reserved_gdt_blocks"
    );
    assert_eq!(
        wrong_field(|raw| raw.reserved_blocks_count_low.set(8193)),
        "s_r_blocks_count"
    );
    assert_eq!(
        wrong_field(|raw| raw.first_orphan.set(2049)),
        "s_last_orphan"
    );
    assert_eq!(
        wrong_field(|raw| raw.incompatible_bits.set(4)),
        "s_feature_incompat"
    );
    assert_eq!(
        wrong_field(|raw| raw.compatible_bits.set(4)),
        "s_journal_inum"
    );
    let no_room = |raw: &mut Raw| {
        raw.blocks_count_low.set(300);
        raw.inodes_per_group.set(8192);
        raw.inodes_count.set(8192);
    };
    assert_eq!(wrong_field(no_room), "s_inodes_per_group");
    let unknown_hash = |raw: &mut Raw| {
        raw.compatible_bits.set(0x20);
        raw.default_hash_version = 6;
    };
    assert_eq!(wrong_field(unknown_hash), "s_def_hash_version");
}

#[test]
fn no_superblock_is_told_from_a_damaged_one() {
    let error = decode(|raw| raw.magic.set(0x1234)).expect_err("no magic");
    assert!(matches!(
        error,
        Error::Corrupt(Corrupt::Magic { magic: 0x1234 })
    ));
    assert!(Superblock::decode(&[0; 100], DEVICE_BYTES).is_err());
}

#[test]
fn features_are_refused_by_name() {
    assert!(unsupported(|raw| raw.incompatible_bits.set(8)).contains("journal device"));
    assert!(unsupported(|raw| raw.incompatible_bits.set(3)).contains("compression"));
    assert!(unsupported(|raw| raw.incompatible_bits.set(0x8000_0000)).contains("FEATURE_I31"));
    assert!(unsupported(|raw| raw.revision.set(2)).contains("revision"));
    let read_only = decode(|raw| raw.read_only_compatible_bits.set(0x5001)).expect("readable");
    let unknown = read_only.unknown_read_only_features.expect("two");
    assert_eq!(unknown, "read-only, shared_blocks");
    let readable = decode(|raw| {
        raw.incompatible_bits.set(0x242);
        raw.read_only_compatible_bits.set(0x11);
    });
    let readable = readable.expect("readable");
    assert_eq!(readable.unknown_read_only_features, None);
}

/// Sets the size of blocks to 1 KiB << `log`, and halves the volume until it fits the device.
fn set_block_size(raw: &mut Raw, log: u32) {
    raw.log_block_size.set(log);
    raw.log_cluster_size.set(log);
    raw.first_data_block.set(u32::from(log == 0));
    raw.blocks_count_low.set(8192 >> log);
}

#[test]
fn large_blocks_are_only_read() {
    for log in 0..=6 {
        let superblock = decode(|raw| set_block_size(raw, log)).expect("good");
        let bytes = 1024 << log;
        assert_eq!(superblock.geometry.block_bytes, bytes);
        let why = (log > 2).then(|| format!("blocks of {bytes} bytes are only read"));
        assert_eq!(superblock.only_read_because(), why);
    }
}

#[test]
fn inode_tables_of_4_gib_and_more_are_counted() {
    let found = wrong_field(|raw| {
        set_block_size(raw, 6);
        raw.dynamic_inode_size.set(32_768);
        raw.inodes_per_group.set(65_536 * 8);
        raw.inodes_count.set(65_536 * 8);
    });
    assert_eq!(found, "s_inodes_per_group", "the group has no room");
}

#[test]
fn the_journal_is_inside_or_outside() {
    let inside = decode(|raw| {
        raw.compatible_bits.set(4);
        raw.incompatible_bits.set(6);
        raw.journal_inode.set(8);
    });
    let inside = inside.expect("good");
    assert_eq!(inside.journal_inode, Some(InodeNr::new(8)));
    assert!(inside.needs_recovery);
    let outside = decode(|raw| {
        raw.compatible_bits.set(4);
        raw.journal_uuid = [7; 16];
    });
    assert_eq!(outside.expect("good").journal_uuid, Some([7; 16]));
}

#[test]
fn hashes_are_of_signed_or_unsigned_bytes() {
    assert_notices("directory/hash-always-signed", look_at_hashes);
}

fn look_at_hashes() {
    for (flags, hash) in [(1, 1), (2, 4)] {
        let decoded = decode(|raw| {
            raw.compatible_bits.set(0x20);
            raw.default_hash_version = 1;
            raw.misc_flag_bits.set(flags);
        });
        assert_eq!(decoded.expect("good").hash_version, hash);
    }
}

#[test]
fn the_original_revision_has_fixed_inodes_and_no_features() {
    let old = decode(|raw| {
        raw.revision.set(0);
        raw.dynamic_inode_size.set(0);
        raw.dynamic_first_inode.set(0);
        raw.incompatible_bits.set(0x40);
    });
    let old = old.expect("good");
    assert_eq!(
        (old.geometry.inode_bytes, old.geometry.first_inode.get()),
        (128, 11)
    );
    assert!(!old.has_filetype() && old.geometry.backups == Backups::All);
}

#[test]
fn mounts_and_unmounts_are_noted() {
    let mut superblock = decode(|raw| {
        raw.compatible_bits.set(4);
        raw.journal_inode.set(8);
        raw.state_bits.set(1);
    })
    .expect("good");
    superblock.note_mount(1_234_567, true);
    let mounted = Superblock::decode(&superblock.encode(), DEVICE_BYTES).expect("good");
    assert!(mounted.needs_recovery && mounted.is_clean());
    assert_eq!(
        (mounted.raw.mount_count.get(), mounted.raw.mount_time.get()),
        (1, 1_234_567)
    );
    superblock.note_unmount(1_234_568, true, false);
    assert!(!superblock.needs_recovery && superblock.is_clean());
    superblock.note_mount(1 << 33, false);
    assert!(!superblock.is_clean());
    assert_eq!(superblock.raw.mount_time_high, 2);
    superblock.note_unmount(1 << 33, false, false);
    assert!(!superblock.is_clean());
}

#[test]
fn the_mark_of_the_orphan_file_goes_with_needs_recovery() {
    let change = |raw: &mut Raw| {
        raw.compatible_bits.set(0x1004);
        raw.journal_inode.set(8);
        raw.state_bits.set(1);
        raw.read_only_compatible_bits.set(0x403);
        raw.checksum_type = 1;
        raw.checksum.set(layout::checksum::superblock(raw));
    };
    let is_marked = |superblock: &Superblock| {
        let bits = superblock.raw.features().read_only_compatible;
        bits.contains(ReadOnlyCompatible::ORPHAN_PRESENT)
    };
    let clean = decode(change).expect("good");
    let mut used = clean.clone();
    used.note_mount(1, true);
    assert!(used.needs_recovery && is_marked(&used));
    let mut closed = used.clone();
    closed.note_unmount(2, true, true);
    assert!(!closed.needs_recovery && is_marked(&closed));
    closed.note_unmount(2, true, false);
    assert!(!is_marked(&closed));
    assert!(closed.encode()[..] == clean.encode()[..]);
    // The two sectors are torn apart.
    for [first, second] in [[&clean, &used], [&used, &clean]] {
        let mut torn = first.encode().to_vec();
        torn[512..].copy_from_slice(&second.encode()[512..]);
        let found = Superblock::decode(&torn, DEVICE_BYTES).expect("the marks differ only");
        assert_eq!(is_marked(&found), is_marked(first));
        assert!(found.unknown_read_only_features.is_none());
    }
    let mut without_journal = clean;
    without_journal.note_mount(1, false);
    assert!(!is_marked(&without_journal));
}

#[test]
fn descriptors_are_larger_with_64bit() {
    let with_size = |bytes: u16| {
        move |raw: &mut Raw| {
            raw.incompatible_bits.set(0x82);
            raw.descriptor_size.set(bytes);
        }
    };
    for bytes in [64, 128] {
        let large = decode(with_size(bytes)).expect("good");
        assert_eq!(large.geometry.descriptor_bytes, bytes);
    }
    for bytes in [0, 32, 65, 8192] {
        assert_eq!(wrong_field(with_size(bytes)), "s_desc_size");
    }
    let many = decode(|raw| {
        with_size(64)(raw);
        raw.blocks_count_high.set(1);
    });
    assert!(matches!(
        many,
        Err(Error::Corrupt(Corrupt::Truncated { .. }))
    ));
}

#[test]
fn the_checksum_covers_the_superblock() {
    let sealed = |change: fn(&mut Raw)| {
        let mut raw = good();
        raw.read_only_compatible_bits.set(0x403);
        raw.checksum_type = 1;
        raw.checksum.set(layout::checksum::superblock(&raw));
        change(&mut raw);
        Superblock::decode(raw.as_bytes(), DEVICE_BYTES)
    };
    assert!(sealed(|_| {}).is_ok());
    assert!(matches!(
        sealed(|raw| raw.mount_count.set(7)),
        Err(Error::Corrupt(Corrupt::Checksum(Sealed::Superblock)))
    ));
    let other = sealed(|raw| raw.checksum_type = 2).expect_err("an unknown type");
    assert!(other.to_string().contains("checksums of type 2"), "{other}");
}

/// A power cut leaves the first sector or the last one, where the checksum is, as it was.
#[test]
fn a_write_of_a_mark_that_was_torn_is_no_damage() {
    let sealed = || {
        let mut raw = good();
        raw.compatible_bits.set(4);
        raw.journal_inode.set(8);
        raw.read_only_compatible_bits.set(0x403);
        raw.checksum_type = 1;
        raw.checksum.set(layout::checksum::superblock(&raw));
        Superblock::decode(raw.as_bytes(), DEVICE_BYTES).expect("good")
    };
    type Change = fn(&mut Superblock);
    let changes: [(Change, bool); 6] = [
        (|superblock| superblock.note_mount(1_234_567, true), true),
        // As when the volume is tuned, and its journal is left out.
        (|superblock| superblock.note_mount(1_234_567, false), true),
        (|superblock| superblock.set_needs_recovery(true), true),
        (|superblock| superblock.note_errors(), true),
        (
            |superblock| {
                superblock.set_needs_recovery(true);
                superblock.note_errors();
            },
            true,
        ),
        (
            |superblock| count_mount(&mut superblock.raw, 1_234_567),
            false,
        ),
    ];
    for (index, (change, is_whole)) in changes.into_iter().enumerate() {
        let before = sealed().encode();
        let mut changed = sealed();
        change(&mut changed);
        let after = changed.encode();
        for (first, second) in [(&before, &after), (&after, &before)] {
            let torn = [&first[..512], &second[512..]].concat();
            let decoded = Superblock::decode(&torn, DEVICE_BYTES);
            assert_eq!(decoded.is_ok(), is_whole, "change {index}");
        }
    }
    let mut marked = sealed();
    marked.set_needs_recovery(true);
    marked.raw.free_inodes_count.set(77);
    assert!(Superblock::decode(marked.raw.as_bytes(), DEVICE_BYTES).is_err());
    assert!(Superblock::decode_before_replay(marked.raw.as_bytes(), DEVICE_BYTES).is_ok());
    marked.set_needs_recovery(false);
    assert!(Superblock::decode_before_replay(marked.raw.as_bytes(), DEVICE_BYTES).is_err());
}

#[test]
fn a_volume_has_at_most_2_to_the_48_blocks() {
    let mut raw = good();
    raw.incompatible_bits.set(0x82);
    raw.descriptor_size.set(64);
    raw.blocks_count_high.set(0x1_0001);
    let error = Superblock::decode(raw.as_bytes(), u64::MAX).map(drop);
    let error = error.expect_err("too many").to_string();
    assert!(error.contains("at most 2^48"), "{error}");
}
