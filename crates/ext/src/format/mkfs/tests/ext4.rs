//! ext4: extents, checksums, flexible groups, descriptors of 64 bytes.

use super::*;

fn ext4() -> Options {
    options(FileSystemType::Ext4)
}

#[test]
fn defaults_by_size_are_those_of_mke2fs() {
    for size in SIZES {
        compare(*size, &ext4(), &[]);
    }
    compare(5 << 30, &ext4(), &[]);
}

#[test]
fn every_size_of_blocks_and_inodes_is_like_mke2fs() {
    for block_bytes in [1024, 2048, 4096] {
        for inode_bytes in [128, 256, 512] {
            for size in [20 * MIB, 131 * MIB, 600 * MIB] {
                let options = Options {
                    block_bytes: Some(block_bytes),
                    inode_bytes: Some(inode_bytes),
                    ..ext4()
                };
                let (b, i) = (block_bytes.to_string(), inode_bytes.to_string());
                compare(size, &options, &["-b", &b, "-I", &i]);
            }
        }
    }
}

/// Tables that the first mount zeroes: the flags of groups are those of mke2fs.
#[test]
fn tables_are_left_as_by_mke2fs() {
    let extended = format!("hash_seed={},nodiscard,lazy_itable_init=1", uuid_text(SEED));
    for list in [
        "64bit",
        "^metadata_csum",
        "^metadata_csum,uninit_bg",
        "^flex_bg",
    ] {
        let features = FeatureEdits::parse(list).expect("known features");
        let options = Options {
            features,
            lazy_inode_tables: true,
            ..ext4()
        };
        compare(OPTIONS_SIZE, &options, &["-O", list, "-E", &extended]);
    }
}

#[test]
fn features_are_edited_as_by_mke2fs() {
    for list in [
        "^64bit",
        "^flex_bg",
        "^metadata_csum",
        "^metadata_csum,uninit_bg",
        "metadata_csum_seed",
        "^extent,^64bit",
        "^has_journal,^resize_inode",
        "^huge_file,^dir_nlink,^extra_isize",
        "orphan_file",
        "orphan_file,^metadata_csum",
        "orphan_file,metadata_csum_seed,^flex_bg",
        "ea_inode",
        "ea_inode,orphan_file,^metadata_csum",
        "fast_commit",
        "fast_commit,^has_journal,^resize_inode",
        "mmp",
        "mmp,orphan_file,^metadata_csum",
    ] {
        let features = FeatureEdits::parse(list).expect("known features");
        let options = Options { features, ..ext4() };
        compare(OPTIONS_SIZE, &options, &["-O", list]);
    }
    for list in [
        "metadata_csum",
        "extent",
        "extent,64bit,flex_bg",
        "uninit_bg",
        "orphan_file",
        "ea_inode",
        "fast_commit",
        "mmp",
    ] {
        let features = FeatureEdits::parse(list).expect("known features");
        let options = Options { features, ..ext3() };
        compare(OPTIONS_SIZE, &options, &["-O", list]);
    }
}

/// Descriptors of 32 and 64 bytes; last meta block groups of every length; last groups that are too
/// short.
#[test]
fn meta_block_groups_lie_as_those_of_mke2fs() {
    for (block_bytes, features) in [
        (1024, "meta_bg,^resize_inode"),
        (1024, "meta_bg,^resize_inode,^flex_bg,^64bit"),
        (1024, "meta_bg,^resize_inode,^sparse_super,^64bit"),
        (2048, "meta_bg,^resize_inode,^flex_bg"),
        (4096, "meta_bg,^resize_inode"),
    ] {
        for groups in [1, 2, 3, 15, 16, 17, 18, 31, 32, 33, 48] {
            let (per_group, start) = (512, u64::from(block_bytes == 1024));
            let whole = u64::from(block_bytes) * (groups * u64::from(per_group) + start);
            for size in [whole, whole + 110 * u64::from(block_bytes)] {
                let options = Options {
                    features: FeatureEdits::parse(features).expect("known features"),
                    block_bytes: Some(block_bytes),
                    blocks_per_group: Some(per_group),
                    ..ext4()
                };
                let b = block_bytes.to_string();
                let arguments = ["-O", features, "-b", &b, "-g", "512"];
                compare(size, &options, &arguments);
            }
        }
    }
}

/// From one group on; last groups that are too short.
#[test]
fn copies_in_two_groups_lie_as_those_of_mke2fs() {
    let all = [
        "sparse_super2",
        "sparse_super2,meta_bg,^resize_inode,large_dir",
    ];
    for features in all {
        for groups in [1, 2, 3, 4, 9, 17, 18] {
            for more in [0, 110] {
                let options = Options {
                    features: FeatureEdits::parse(features).expect("known features"),
                    block_bytes: Some(1024),
                    blocks_per_group: Some(1024),
                    ..ext4()
                };
                let size = (groups * 1024 + more + 1) * KIB;
                let arguments = ["-O", features, "-b", "1024", "-g", "1024"];
                compare(size, &options, &arguments);
            }
        }
    }
}

#[test]
fn features_that_need_others_are_refused_without_them() {
    let device = MemoryDevice::new(OPTIONS_SIZE);
    for (list, needed) in [
        ("^extent", "64bit needs extent"),
        ("meta_bg", "meta_bg excludes resize_inode"),
        ("orphan_file,^has_journal", "orphan_file needs has_journal"),
        (
            "^metadata_csum,metadata_csum_seed",
            "metadata_csum_seed needs metadata_csum",
        ),
    ] {
        let features = FeatureEdits::parse(list).expect("known features");
        let error = preview(&device.geometry(), &Options { features, ..ext4() });
        let error = error.expect_err("refused");
        assert!(error.to_string().contains(needed), "{list}: {error}");
    }
    let classic = Options {
        file_system: FileSystemType::Ext4,
        ..Options::classic2002()
    };
    let error = preview(&device.geometry(), &classic).expect_err("refused");
    assert!(error.to_string().contains("no ext4 in 2002"), "{error}");
}

#[test]
fn orphan_files_have_the_size_that_mke2fs_gives_them() {
    let features = FeatureEdits::parse("orphan_file").expect("a known feature");
    let options = Options { features, ..ext4() };
    for size in [20 * MIB, 5 << 30, 9 << 30] {
        compare(size, &options, &["-O", "orphan_file"]);
    }
}

/// The inode tables of 16 groups are larger than the first of them, and go on behind the copies of
/// the superblock in the next ones.
#[test]
fn tables_larger_than_a_group_go_on_in_the_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let image = path(&directory, "image");
    for (block_bytes, bytes_per_inode, size) in [
        (1024, 1024, 200 * MIB),
        (1024, 2048, 300 * MIB),
        (2048, 1024, 300 * MIB),
    ] {
        let options = Options {
            block_bytes: Some(block_bytes),
            bytes_per_inode: Some(bytes_per_inode),
            ..ext4()
        };
        let (device, summary) = make(size, &options);
        let geometry = &summary.geometry;
        let metadata = groups::GroupMetadata::new(geometry, true).expect("it fits");
        let first_table = metadata.of(layout::GroupNr::new(0)).inode_table;
        let last_table = metadata.of(layout::GroupNr::new(15)).inode_table;
        let home = |block| geometry.group_of_block(block).0;
        assert!(home(last_table) > home(first_table), "{summary:?}");
        device.write_to_file(&image).expect("room for the image");
        check_clean(&image, &[]);
    }
}

/// The journal has more extents than an inode holds.
#[test]
fn a_large_journal_has_a_tree() {
    let directory = tempfile::tempdir().expect("a directory");
    let image = path(&directory, "image");
    for (journal, features) in [(256, ""), (200, "^flex_bg,^64bit")] {
        let options = Options {
            block_bytes: Some(1024),
            journal: JournalOption::Megabytes(journal),
            features: FeatureEdits::parse(features).expect("known features"),
            ..ext4()
        };
        let (device, _) = make(600 * MIB, &options);
        device.write_to_file(&image).expect("room for the image");
        check_clean(&image, &[]);
        let (_, output) = run("debugfs", &["-R", "ex <8>", &image]);
        assert!(output.contains(" 1/ 1 "), "{output}");
    }
}

/// A volume over old contents: bitmaps that are not written are not read either.
#[test]
fn an_old_volume_leaves_nothing_behind() {
    let device = Arc::new(MemoryDevice::from_bytes(&vec![0xA5; 300 << 20]));
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    format(&shared, &ext4()).expect("the options fit");
    let directory = tempfile::tempdir().expect("a directory");
    let image = path(&directory, "image");
    device.write_to_file(&image).expect("room for the image");
    check_clean(&image, &[]);
}

/// The kernel fills groups that have no bitmaps yet, and inode tables that it finds zeroed.
#[test]
fn the_kernel_fills_a_volume() {
    if !testkit::privilege::is_granted() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let image = path(&directory, "image");
    for (block_bytes, features) in [(4096, ""), (1024, ""), (1024, "^metadata_csum,uninit_bg")] {
        let options = Options {
            block_bytes: Some(block_bytes),
            features: FeatureEdits::parse(features).expect("known features"),
            ..ext4()
        };
        let (device, _) = make(300 * MIB, &options);
        device.write_to_file(&image).expect("room for the image");
        let mount = testkit::Mount::new(image.as_ref(), None, "ext4", "defaults");
        let mount = mount.expect("the kernel mounts it");
        for folder in 0..40 {
            let folder = mount.at(&format!("/{folder}"));
            std::fs::create_dir(&folder).expect("mkdir");
            for file in 0..60 {
                let bytes = vec![file as u8; 100_000];
                std::fs::write(folder.join(file.to_string()), bytes).expect("a file");
            }
        }
        drop(mount);
        check_clean(&image, &[]);
    }
}
