//! Whole trees: every kind of file, large directories, attributes.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use ext::census::{BlockUse, census};
use ext::mkfs::{FileSystemType, Options};
use testkit::{privilege, tool};

use super::*;
use crate::oracle;
use crate::tree::assert_same;

/// Names in the large directory: with blocks of 1 KiB its index has two levels.
const NAMES: usize = 6000;

/// Makes files of every kind.
fn fill(root: &Path) {
    std::fs::create_dir_all(root.join("a/b/c")).unwrap();
    for (name, bytes) in [
        ("empty", 0),
        ("small", 100),
        ("large", 3 << 20),
        ("odd", 70_001),
    ] {
        let contents: Vec<u8> = (0..bytes).map(|at| (at / 7 % 251) as u8).collect();
        std::fs::write(root.join("a").join(name), contents).unwrap();
    }
    for bytes in [1, 59, 60, 200, 1000] {
        let target: String = "t/".chars().cycle().take(bytes).collect();
        symlink(target, root.join(format!("link-{bytes}"))).unwrap();
    }
    std::fs::hard_link(root.join("a/small"), root.join("a/b/other-name")).unwrap();
    std::fs::set_permissions(root.join("a/small"), PermissionsExt::from_mode(0o4751)).unwrap();
    for (name, kind) in [
        ("character", "c 300 70000"),
        ("block", "b 7 1"),
        ("pipe", "p"),
    ] {
        let path = root.join(name).display().to_string();
        let words: Vec<&str> = std::iter::once(path.as_str())
            .chain(kind.split(' '))
            .collect();
        tool::run_well("mknod", &words);
    }
    let many = root.join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..NAMES {
        let name = many.join(format!("a-name-of-some-length-{number}"));
        std::fs::hard_link(root.join("a/odd"), name).unwrap();
    }
    for number in (0..NAMES).step_by(3) {
        std::fs::remove_file(many.join(format!("a-name-of-some-length-{number}"))).unwrap();
    }
    for (file, name, bytes) in [("a/small", "user.in", 8), ("a/odd", "user.block", 600)] {
        let (path, value) = (root.join(file).display().to_string(), "v".repeat(bytes));
        tool::run_well("setfattr", &["-n", name, "-v", &value, &path]);
    }
}

/// Compares a tree that the kernel makes on an image of this block size and this size in MiB, made
/// with more arguments of mke2fs.
fn compare(block_bytes: u32, size: u64, more: &str) {
    if !privilege::is_granted() {
        return;
    }
    let image = filled(block_bytes, size * MIB, more, fill);
    oracle::assert_fsck_clean(&image, "after the kernel");
    let expected = oracle::kernel_tree(&image).expect("it was mounted before");
    let device = in_memory(&image);
    let before = device.snapshot();
    let volume = open(&device).unwrap();
    assert_same(&expected, &image.own_tree(&volume), "the volume itself");
    // ext4-view does not read inodes of 128 bytes.
    if !more.contains("-I 128") {
        assert_same(&expected, &oracle::view_tree(&image), "ext4-view");
    }
    for (file, name, bytes) in [("/a/small", "user.in", 8), ("/a/odd", "user.block", 600)] {
        let value = volume
            .get_attribute_at(file, true, name.as_bytes())
            .unwrap();
        assert_eq!(value, vec![b'v'; bytes], "{file}");
    }
    assert!(volume.is_read_only());
    assert!(matches!(
        volume.create_directory("/new"),
        Err(Error::ReadOnly)
    ));
    assert_counts(&image, &device, &volume);
    volume.close().unwrap();
    assert_eq!(device.first_difference(&before), None, "nothing is written");
}

/// One test for each image, so that they run in parallel.
macro_rules! images {
    ($($name:ident: $block_bytes:expr, $size:expr, $more:expr;)*) => {
        $(
            #[test]
            fn $name() {
                compare($block_bytes, $size, $more);
            }
        )*
    };
}

images! {
    defaults_with_blocks_of_4k: 4096, 160, "";
    defaults_with_blocks_of_1k: 1024, 64, "";
    seed_and_orphan_file: 2048, 64, "-O metadata_csum_seed,orphan_file";
    small_inodes_and_rigid_groups: 1024, 64, "-I 128 -O ^flex_bg";
    short_descriptors: 1024, 40, "-O ^64bit";
    without_checksums: 4096, 64, "-O ^metadata_csum";
    short_descriptors_with_crc16: 1024, 64, "-O ^metadata_csum,uninit_bg,^64bit";
    long_descriptors_with_crc16: 1024, 40, "-O ^metadata_csum,uninit_bg,^resize_inode -E desc_size=128";
    without_a_journal: 4096, 64, "-O ^has_journal,^huge_file,^dir_nlink,^extra_isize";
    block_maps_with_checksums: 1024, 40, "-O ^extent,^64bit";
}

/// Asserts that counts are those of the superblock, and that the census knows every block.
fn assert_counts(image: &Image, device: &Arc<MemoryDevice>, volume: &Volume) {
    let (raw, usage) = (superblock(image), volume.usage());
    assert_eq!(usage.blocks_free, raw.free_blocks_count());
    assert_eq!(usage.inodes_free, raw.free_inodes_count.get());
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(device);
    let uses = census(&device, all_blocks(volume)).unwrap();
    let count = |wanted| uses.values().filter(|found| **found == wanted).count();
    assert_eq!(count(BlockUse::Free) as u64, raw.free_blocks_count());
    assert_eq!(count(BlockUse::Unknown), 0);
    for path in ["/a/large", "/many", "/a/odd"] {
        let inode = volume.resolve(path, true).unwrap();
        for extent in volume.blocks_of(inode).unwrap() {
            for (index, block) in (0..).zip(extent.blocks()) {
                let found = uses[&BlockNr::new(block)];
                match (extent.file_block.map(|first| first + index), found) {
                    (
                        Some(first),
                        BlockUse::Data {
                            inode: owner,
                            file_block,
                        },
                    )
                    | (
                        Some(first),
                        BlockUse::Directory {
                            inode: owner,
                            file_block,
                        },
                    ) => {
                        assert_eq!((owner, file_block), (inode, first));
                    }
                    (
                        None,
                        BlockUse::ExtentNode { inode: owner, .. }
                        | BlockUse::Map { inode: owner, .. },
                    ) => {
                        assert_eq!(owner, inode);
                    }
                    found => panic!("{path}: block {block}: {found:?}"),
                }
            }
        }
    }
}

/// The volume that `mkfs` makes, after the kernel has filled it.
#[test]
fn a_volume_of_this_crate_is_read() {
    if !privilege::is_granted() {
        return;
    }
    for block_bytes in [1024, 4096] {
        let image = image(block_bytes, 64 * MIB, "");
        let options = Options {
            file_system: FileSystemType::Ext4,
            block_bytes: Some(block_bytes),
            ..Options::default()
        };
        ext::mkfs::format(&image.device(), &options).unwrap();
        let device = in_memory(&image);
        let volume = open(&device).unwrap();
        let names = volume.list("/").unwrap();
        assert_eq!(
            names
                .iter()
                .filter(|entry| entry.name == b"lost+found")
                .count(),
            1
        );
        volume.close().unwrap();
        let mounted = mount(&image);
        fill(mounted.path());
        drop(mounted);
        let expected = oracle::kernel_tree(&image).expect("it was mounted before");
        let volume = open(&in_memory(&image)).unwrap();
        assert_same(&expected, &image.own_tree(&volume), "the volume itself");
        volume.close().unwrap();
    }
}
