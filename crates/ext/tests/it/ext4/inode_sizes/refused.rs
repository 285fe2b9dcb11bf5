//! Inodes that cannot become larger: one message, and nothing has changed. And volumes on which it
//! is close.

use super::*;
use crate::rig::take_free_blocks;

/// Asserts that a change is refused with this message, and changes nothing.
fn assert_refused(image: &Image, inode_bytes: u16, why: &str) {
    let before = std::fs::read(&image.path).unwrap();
    let error = apply(&image.device(), None, &larger(inode_bytes)).expect_err(why);
    assert!(error.to_string().contains(why), "{error}");
    assert!(std::fs::read(&image.path).unwrap() == before, "{why}");
}

#[test]
fn impossible_sizes_are_refused() {
    let ext3 = Image::with_arguments("ext3", 1024, 8 * MIB, false, &["-I", "256"]);
    assert_refused(
        &ext3,
        300,
        "a power of two from 128 to that of a block, 1024",
    );
    assert_refused(&ext3, 64, "a power of two");
    assert_refused(&ext3, 2048, "a power of two");
    assert_refused(&ext3, 256, "have 256 bytes already");
    assert_refused(
        &ext3,
        128,
        "cannot become smaller: make another file system with mkfs -I 128",
    );
    let ext2 = Image::with_arguments("ext2", 1024, 8 * MIB, false, &["-I", "128"]);
    assert_refused(&ext2, 256, "add one with tune -j");
    let clustered = image(1024, 16 * MIB, "-O bigalloc -C 4096");
    assert_refused(&clustered, 512, "bigalloc");
    let many = Image::with_arguments("ext3", 1024, 24 * MIB, false, &["-I", "128", "-N", "24576"]);
    assert_refused(&many, 1024, "no room for a table of such inodes");
}

#[test]
fn a_volume_without_room_is_refused() {
    for (features, why) in [
        ("-I 128 -O ^flex_bg", "group 0 has no "),
        ("-I 128", "contiguous blocks are free for group 0"),
    ] {
        let image = image(1024, 16 * MIB, features);
        let volume = Volume::open(image.device(), None, quiet(DataMode::Ordered)).unwrap();
        take_free_blocks(&volume);
        volume.close().unwrap();
        assert_refused(&image, 256, why);
        assert_refused(&image, 256, "nothing has changed: move files away");
    }
}

/// The damage of a bitmap, or of an inode, would get a good checksum.
#[test]
fn damage_is_refused() {
    let image = image(1024, 16 * MIB, "-I 128");
    let path = image.path.to_str().unwrap();
    let table = tool::run_well("debugfs", &["-R", "imap <2>", path]);
    let words: Vec<&str> = table.split_whitespace().collect();
    let block = words.iter().rposition(|word| *word == "block").unwrap();
    let block: u64 = words[block + 1].trim_matches(',').parse().unwrap();
    // The low byte of a time: any value may be there.
    let at = (block * 1024 + 128 + 12) as usize;
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0xFF;
    std::fs::write(path, bytes).unwrap();
    assert_refused(&image, 256, "inode 2: the checksum does not match");
    // A volume that is not closed.
    let memory = in_a_volume(8 * MIB, 128, "extent");
    drop(Volume::open(device(&memory), None, quiet(DataMode::Ordered)).unwrap());
    let refused = apply(&device(&memory), None, &larger(256));
    assert!(matches!(refused, Err(Error::NotClean)), "{refused:?}");
}

/// Returns a volume with 32 groups, each of which has copies of superblock and descriptors.
fn in_small_groups() -> Image {
    let features = "^sparse_super,^resize_inode";
    let more = [
        "-I", "128", "-g", "2048", "-N", "2048", "-O", features, "-J", "size=1",
    ];
    Image::with_arguments("ext3", 1024, 64 * MIB, false, &more)
}

/// Offset of `s_maxlen` in a journal's superblock, in bytes.
const LENGTH: u64 = 16;

/// Sets the length of the journal to what its superblock says.
fn set_log_length(image: &Image, blocks: u32) {
    use std::os::unix::fs::FileExt;
    let bytes = std::fs::read(&image.path).unwrap();
    let magic = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 4];
    let found = bytes
        .chunks_exact(1024)
        .position(|block| block.starts_with(&magic));
    let file = std::fs::File::options()
        .write(true)
        .open(&image.path)
        .unwrap();
    let at = found.unwrap() as u64 * 1024 + LENGTH;
    file.write_all_at(&blocks.to_be_bytes(), at).unwrap();
}

/// The log has room for the transaction with all copies, or nothing changes.
#[test]
fn the_log_is_as_long_as_the_transaction() {
    let image = in_small_groups();
    for blocks in [33, 99] {
        set_log_length(&image, blocks);
        assert_refused(
            &image,
            256,
            &format!("a journal of {blocks} blocks is too short"),
        );
        assert_refused(&image, 256, "with one of 100 blocks it does");
        assert_refused(&image, 256, "tune -O ^has_journal, and then tune -J size=1");
    }
    for blocks in [100, 1024] {
        let image = image.copy();
        set_log_length(&image, blocks);
        apply(&image.device(), None, &larger(256)).unwrap();
        set_log_length(&image, 1024);
        assert_whole(&image, 256, "with copies");
        let path = image.path.to_str().unwrap();
        for copy in [2049, 2048 * 31 + 1] {
            let place = copy.to_string();
            let output = tool::run("e2fsck", &["-fn", "-b", &place, "-B", "1024", path]);
            let said = tool::said(&output);
            assert!(said.contains("11/2048 files"), "{blocks}, {copy}: {said}");
        }
    }
}

/// The journal's device has to be there.
#[test]
fn an_external_journal_has_to_be_named() {
    let memory = Arc::new(MemoryDevice::new(8 * MIB));
    let log = Arc::new(MemoryDevice::new(4 * MIB));
    mkfs::format_journal_device(&device(&log), 1024, [0x5A; 16]).unwrap();
    let options = Options {
        block_bytes: Some(1024),
        inode_bytes: Some(128),
        ..Options::default()
    };
    mkfs::format_with_journal(&device(&memory), &device(&log), &options).unwrap();
    let before = memory.snapshot();
    let error = apply(&device(&memory), None, &larger(256)).unwrap_err();
    assert!(
        error.to_string().contains("name it with --journal"),
        "{error}"
    );
    assert_eq!(memory.first_difference(&before), None);
}
