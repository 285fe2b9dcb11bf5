//! Checksums that are turned on and off on a volume that was filled by the kernel: what `e2fsck`,
//! the kernel and this crate say after each change.

use std::os::unix::fs::FileExt;
use std::path::Path;

use ext::Error;
use ext::options::DataMode;
use ext::tune::{Changes, apply, free_feature, removable_feature};
use ext::volume::SetMode;
use layout::FileBlock;
use layout::checksum::{START, crc32c};
use testkit::{privilege, tool};

use super::*;
use crate::oracle;
use crate::rig::{quiet, take_free_blocks};
use crate::tree::{Tree, assert_same};

/// Makes directories that are full and indexed, a file in many pieces, and attributes.
fn fill(root: &Path) {
    for (directory, names, length) in [("few", 20, 8), ("many", 1500, 40), ("full", 400, 4)] {
        let folder = root.join(directory);
        std::fs::create_dir(&folder).unwrap();
        for number in 0..names {
            std::fs::write(folder.join(format!("{number:0length$}")), b"").unwrap();
        }
    }
    let file = std::fs::File::create(root.join("pieces")).unwrap();
    for number in 0..400 {
        file.write_all_at(&[7; 1024], number * 8192).unwrap();
    }
    for (number, bytes) in [(1, 30), (2, 600), (3, 600)] {
        let path = root.join(format!("few/{number:08}")).display().to_string();
        let value = "v".repeat(bytes);
        tool::run_well("setfattr", &["-n", "user.x", "-v", &value, &path]);
    }
}

/// Parses changes: features as for `tune -O`, or another UUID.
fn changes(text: &str) -> Changes {
    let mut changes = Changes::default();
    for word in text.split(',') {
        match (word, word.strip_prefix('^')) {
            ("uuid", _) => changes.uuid = Some([0x5A; 16]),
            ("other-uuid", _) => changes.uuid = Some([0x77; 16]),
            (_, Some(name)) => changes
                .features_removed
                .push(removable_feature(name).unwrap()),
            (name, None) => changes.features.push(free_feature(name).unwrap()),
        }
    }
    changes
}

/// Changes a volume, and has all readers look at it, which then change it.
fn tune(image: &Image, text: &str, expected: &Tree) {
    apply(&image.device(), None, &changes(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
    oracle::assert_fsck_clean(image, text);
    assert_same(expected, &oracle::kernel_tree(image).unwrap(), text);
    let mounted = mount(image);
    let names = (0..60).map(|number| mounted.path().join(format!("full/new-{number}")));
    let names: Vec<_> = names.collect();
    names
        .iter()
        .for_each(|name| std::fs::write(name, b"x").unwrap());
    names
        .iter()
        .for_each(|name| std::fs::remove_file(name).unwrap());
    drop(mounted);
    oracle::assert_fsck_clean(image, text);
    let volume = Volume::open(image.device(), None, MountOptions::default()).unwrap();
    for number in 0..40 {
        volume
            .create_directory(&format!("/many/new-{number}"))
            .unwrap();
    }
    for number in 0..40 {
        volume
            .remove_directory_at(&format!("/many/new-{number}"))
            .unwrap();
    }
    volume.close().unwrap();
    oracle::assert_fsck_clean(image, text);
}

fn there_and_back(block_bytes: u32, more: &str) {
    if !privilege::is_granted() {
        return;
    }
    let words: Vec<&str> = more.split_whitespace().collect();
    let image = Image::over_garbage("ext4", block_bytes, 48 * MIB, false, &words);
    let mounted = mount(&image);
    fill(mounted.path());
    drop(mounted);
    oracle::assert_fsck_clean(&image, "before");
    let mut expected = oracle::kernel_tree(&image).unwrap();
    // Their times change with the names in them.
    expected.values_mut().for_each(|node| node.mtime = None);
    for text in [
        "metadata_csum",
        "uuid",
        "^metadata_csum,^uninit_bg",
        "uninit_bg",
        "other-uuid",
        "metadata_csum,metadata_csum_seed",
        "uuid",
        "^metadata_csum_seed",
        "^metadata_csum",
        "^uninit_bg",
        "metadata_csum",
    ] {
        tune(&image, text, &expected);
    }
}

macro_rules! formats {
    ($($name:ident: $block_bytes:expr, $more:expr;)*) => {
        $(
            #[test]
            fn $name() {
                there_and_back($block_bytes, $more);
            }
        )*
    };
}

formats! {
    ext3_with_blocks_of_1k: 1024, "-O ^extent,^64bit,^flex_bg,^metadata_csum,^huge_file";
    ext3_with_small_inodes: 4096, "-I 128 -O ^extent,^64bit,^flex_bg,^metadata_csum,^extra_isize";
    ext3_without_indexes: 1024, "-O ^extent,^64bit,^flex_bg,^metadata_csum,^dir_index";
    ext4_with_blocks_of_1k: 1024, "";
    ext4_with_an_orphan_file: 4096, "-O orphan_file";
    ext4_without_a_journal: 1024, "-O ^has_journal,^metadata_csum,uninit_bg,^64bit";
    ext4_in_meta_groups: 2048, "-O ^metadata_csum,meta_bg,^resize_inode -g 1024";
}

/// Inodes of an earlier file system stay in the tables of a volume that was made with
/// `lazy_itable_init`, behind descriptors that say so. A crash before the last write of a change
/// leaves descriptors whose checksums e2fsck finds wrong, and then reads whole tables.
#[test]
fn a_crash_brings_no_inodes_of_an_earlier_file_system_back() {
    for (features, text) in [
        ("^metadata_csum,uninit_bg", "metadata_csum"),
        ("^metadata_csum,uninit_bg", "uuid"),
        ("", "uuid"),
        ("", "^metadata_csum,uninit_bg"),
    ] {
        let what = format!("{features} {text}");
        let image = image(1024, 24 * MIB, "-N 3072 -O ^has_journal");
        let volume = Volume::open(image.device(), None, MountOptions::default()).unwrap();
        for directory in 0..3 {
            volume.create_directory(&format!("/{directory}")).unwrap();
            for number in 0..160 {
                let path = format!("/{directory}/{number}");
                volume.write_file(&path, b"").unwrap();
            }
        }
        volume.close().unwrap();
        let path = image.path.to_str().unwrap();
        let lazy = "nodiscard,lazy_itable_init=1";
        let mut arguments = vec![
            "-q", "-F", "-t", "ext4", "-b", "1024", "-N", "3072", "-E", lazy,
        ];
        let features = ["^has_journal", features].join(",");
        arguments.extend(["-O", features.trim_end_matches(','), path]);
        tool::run_well("mke2fs", &arguments);
        let used = used_inodes(&image);
        let mut before = superblock(&image);
        apply(&image.device(), None, &changes(text)).unwrap_or_else(|e| panic!("{what}: {e}"));
        oracle::assert_fsck_clean(&image, &what);
        // The power goes before the last write. The mark that the volume is valid went first.
        before[STATE] &= !1;
        let sum = crc32c(START, &before[..SIZE - 4]).to_le_bytes();
        before[SIZE - 4..].copy_from_slice(&sum);
        let file = std::fs::File::options().write(true).open(&image.path);
        file.unwrap().write_all_at(&before, OFFSET).unwrap();
        let output = tool::run("e2fsck", &["-fy", path]);
        let said = tool::said(&output);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{what}: {said}"
        );
        assert_eq!(used_inodes(&image), used, "{what}: {said}");
        oracle::assert_fsck_clean(&image, &what);
    }
}

/// Inodes of values, to which no name leads, have trees with checksums as well.
#[test]
fn the_trees_of_values_get_checksums() {
    let features = "-N 1024 -m 0 -O ea_inode,^metadata_csum,uninit_bg";
    let image = image(1024, 8 * MIB, features);
    let options = || quiet(DataMode::Ordered);
    let volume = Volume::open(image.device(), None, options()).unwrap();
    volume.write_file("/file", b"x").unwrap();
    for number in 0..400 {
        volume
            .write_file(&format!("/f{number}"), &[5; 1024])
            .unwrap();
    }
    volume.sync().unwrap();
    take_free_blocks(&volume);
    for number in (0..400).step_by(2) {
        volume.remove_file(&format!("/f{number}")).unwrap();
    }
    volume.sync().unwrap();
    let file = volume.resolve("/file", false).unwrap();
    let value = vec![7; 60_000];
    volume
        .set_attribute(file, b"user.large", &value, SetMode::Any)
        .unwrap();
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "before");
    apply(&image.device(), None, &changes("metadata_csum")).unwrap();
    oracle::assert_fsck_clean(&image, "after");
    let volume = Volume::open(image.device(), None, options()).unwrap();
    assert_eq!(volume.get_attribute(file, b"user.large").unwrap(), value);
    volume.remove_file("/file").unwrap();
    assert_eq!(volume.orphan_count(), 0);
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "deleted");
}

/// Without checksums, damage of an index shows in its form only.
#[test]
fn a_damaged_index_is_refused_and_costs_no_names() {
    // The number of levels of the root, its limit, and its first pair.
    for (offset, byte) in [(0x1E, 1), (0x1E, 3), (0x20, 9), (0x22, 0)] {
        let image = image(1024, 16 * MIB, "-O ^metadata_csum,^has_journal");
        let volume = Volume::open(image.device(), None, MountOptions::default()).unwrap();
        volume.create_directory("/d").unwrap();
        let names: Vec<String> = (0..200).map(|n| format!("/d/a-longer-name-{n}")).collect();
        for name in &names {
            volume.write_file(name, b"").unwrap();
        }
        let nr = volume.resolve("/d", false).unwrap();
        let blocks = volume.blocks_of(nr).unwrap();
        let root = blocks
            .iter()
            .find(|extent| extent.file_block == Some(FileBlock::new(0)));
        let root = root.unwrap().first.get() * 1024;
        volume.close().unwrap();
        let device = image.device();
        let mut block = device.read_block(root, 1024).unwrap();
        assert_eq!(block[0x1E], 0, "an index of one level");
        let bytes: &mut layout::Block = Arc::make_mut(&mut block);
        bytes[offset] = byte;
        if offset == 0x22 {
            bytes[offset + 1] = byte;
        }
        device.write_blocks(root, vec![block]).unwrap();
        let tuned = apply(&device, None, &changes("metadata_csum"));
        assert!(
            matches!(tuned, Err(Error::Corrupt(_))),
            "{offset}: {tuned:?}"
        );
        drop(device);
        tool::run("e2fsck", &["-fy", image.path.to_str().unwrap()]);
        let volume = Volume::open(image.device(), None, MountOptions::default()).unwrap();
        for name in &names {
            volume.resolve(name, false).unwrap();
        }
        volume.close().unwrap();
    }
}

/// Offset of `s_state` in the superblock.
const STATE: usize = 58;

fn superblock(image: &Image) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    let file = std::fs::File::open(&image.path).unwrap();
    file.read_exact_at(&mut bytes, OFFSET).unwrap();
    bytes
}

/// Returns the number of inodes that the superblock counts as in use.
fn used_inodes(image: &Image) -> u32 {
    let bytes = superblock(image);
    let (raw, _) = Superblock::read_from_prefix(&bytes).unwrap();
    raw.inodes_count.get() - raw.free_inodes_count.get()
}
