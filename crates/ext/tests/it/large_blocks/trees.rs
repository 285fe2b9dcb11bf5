//! Whole trees: every size of file around the limits of a block map, links, attributes, large
//! directories, which e2fsck indexes.

use std::fmt::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use ext::census::{BlockUse, census};
use layout::BlockNr;
use layout::superblock::{OFFSET, Superblock};
use zerocopy::FromBytes;

use super::*;
use crate::oracle::assert_fsck_clean;
use crate::tree::{Tree, assert_same, of_folder};

/// Number of names in the large directory: several blocks of 64 KiB.
const NAMES: usize = 2500;

fn name(number: usize) -> String {
    format!("{number:05}-{}", "a-name-of-some-length-".repeat(3))
}

/// Makes a tree whose files end around the limits of blocks of this size.
fn fill(root: &Path, block_bytes: usize) {
    let (block, single) = (block_bytes, 12 * block_bytes);
    std::fs::create_dir_all(root.join("a/b/c")).unwrap();
    for bytes in [
        0,
        1,
        60,
        100,
        block - 1,
        block,
        block + 1,
        single,
        single + 5,
        3 << 20,
    ] {
        let contents: Vec<u8> = (0..bytes).map(|at| (at / 7 % 251) as u8).collect();
        std::fs::write(root.join("a").join(format!("{bytes}")), contents).unwrap();
    }
    for bytes in [1, 59, 60, 200, 1000, 4095] {
        let target: String = "t/".chars().cycle().take(bytes).collect();
        symlink(target, root.join(format!("link-{bytes}"))).unwrap();
    }
    std::fs::hard_link(root.join("a/100"), root.join("a/b/other-name")).unwrap();
    let many = root.join("many");
    std::fs::create_dir(&many).unwrap();
    for number in 0..NAMES {
        std::fs::hard_link(root.join("a/60"), many.join(name(number))).unwrap();
    }
}

/// The attributes that are set: file, name, value.
fn attributes(block_bytes: u32) -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let most = block_bytes as usize - 4096;
    vec![
        ("/a/100", "user.in", vec![b'i'; 8]),
        ("/a/1", "user.block", vec![b'b'; 600]),
        ("/a/1", "user.largest", vec![b'l'; most]),
        ("/a/b", "user.directory", vec![b'd'; 1500]),
    ]
}

fn set_attributes(image: &Image) {
    let mut requests = String::new();
    for (index, (path, name, value)) in attributes(image.block_bytes).iter().enumerate() {
        let file = image.path.with_file_name(format!("value-{index}"));
        std::fs::write(&file, value).unwrap();
        writeln!(requests, "ea_set -f {} {path} {name}", file.display()).unwrap();
    }
    debugfs(image, &requests);
}

/// Drops from a tree what `mke2fs -d` does not copy or adds: the root, and `lost+found`; and the
/// links of directories, which depend on the source's file system.
fn comparable(mut tree: Tree) -> Tree {
    tree.remove(&b""[..]);
    tree.remove(&b"/lost+found"[..]);
    for node in tree.values_mut().filter(|node| node.kind == 'd') {
        node.links = None;
    }
    tree
}

/// Returns the tree that debugfs reads. It has no links, and other times.
fn dumped(image: &Image) -> Tree {
    let folder = tempfile::tempdir().unwrap();
    debugfs(image, &format!("rdump / {}", folder.path().display()));
    let mut tree = comparable(of_folder(folder.path()));
    for node in tree.values_mut() {
        (node.links, node.mtime) = (None, None);
    }
    tree
}

fn check(image: &Image, expected: &Tree) {
    look_at(image, |memory, volume| {
        let own = comparable(image.own_tree(volume));
        assert_same(expected, &own, "the volume itself");
        assert_names(volume);
        for (path, name, value) in attributes(image.block_bytes) {
            let found = volume.get_attribute_at(path, true, name.as_bytes());
            assert!(found.unwrap() == value, "{path}: {name}");
        }
        assert_counts(memory, volume);
    });
}

/// Looks for names that are there, and for some that are not.
fn assert_names(volume: &Volume) {
    let inode = volume.resolve("/a/60", true).unwrap();
    for number in (0..NAMES).step_by(7) {
        let path = format!("/many/{}", name(number));
        assert_eq!(volume.resolve(&path, true).unwrap(), inode, "{path}");
    }
    // The second block of lost+found is one unused entry.
    for path in ["/many/absent", "/lost+found/absent", "/a/absent"] {
        let found = volume.resolve(path, true);
        assert!(matches!(found, Err(Error::NotFound)), "{path}: {found:?}");
    }
    assert_eq!(volume.list("/lost+found").unwrap().len(), 0);
}

/// Asserts that counts are those of the superblock, and that the census knows every block.
fn assert_counts(memory: &Arc<MemoryDevice>, volume: &Volume) {
    let bytes = device(memory).read_block(OFFSET, 1024).unwrap();
    let (raw, _) = Superblock::read_from_prefix(&bytes).unwrap();
    let (usage, geometry) = (volume.usage(), &volume.superblock().geometry);
    assert_eq!(usage.blocks_free, raw.free_blocks_count());
    assert_eq!(usage.inodes_free, raw.free_inodes_count.get());
    let blocks = (geometry.first_data_block.get()..geometry.block_count).map(BlockNr::new);
    let uses = census(&device(memory), blocks).unwrap();
    let count = |wanted| uses.values().filter(|found| **found == wanted).count();
    assert_eq!(count(BlockUse::Free) as u64, raw.free_blocks_count());
    // The rest of a cluster has no owner.
    assert!(count(BlockUse::Unknown) == 0 || geometry.cluster_log > 0);
}

/// Compares a tree on an image of this kind, made with more arguments of mke2fs, with its source
/// and with debugfs; first with linear directories, then with indexed ones.
fn compare(kind: &'static str, block_bytes: u32, more: &str) {
    let source = tempfile::tempdir().unwrap();
    fill(source.path(), block_bytes as usize);
    let expected = comparable(of_folder(source.path()));
    let from = source.path().to_str().unwrap();
    let image = image(kind, block_bytes, &format!("{more} -d {from}"));
    set_attributes(&image);
    let path = image.path.to_str().unwrap();
    // mke2fs and debugfs do not count what files use.
    if more.contains("quota") {
        tool::run("e2fsck", &["-fy", path]);
    }
    assert_fsck_clean(&image, "new");
    check(&image, &expected);
    // debugfs reads 60 bytes of an empty file within its inode.
    if !more.contains("inline_data") {
        assert_same(&expected, &dumped(&image), "debugfs");
    }
    tool::run("e2fsck", &["-fyD", path]);
    assert!(debugfs(&image, "htree /many").contains("Root node dump"));
    assert_fsck_clean(&image, "indexed");
    check(&image, &expected);
}

/// One test for each image, so that they run in parallel.
macro_rules! images {
    ($($name:ident: $kind:expr, $block_bytes:expr, $more:expr;)*) => {
        $(
            #[test]
            fn $name() {
                compare($kind, $block_bytes, $more);
            }
        )*
    };
}

images! {
    ext2_with_blocks_of_8k: "ext2", 8192, "";
    ext2_with_blocks_of_16k: "ext2", 16_384, "";
    ext2_with_blocks_of_32k: "ext2", 32_768, "";
    ext2_with_blocks_of_64k: "ext2", 65_536, "";
    ext3_with_blocks_of_8k: "ext3", 8192, "";
    ext3_with_blocks_of_16k: "ext3", 16_384, "";
    ext3_with_blocks_of_32k: "ext3", 32_768, "";
    ext3_with_blocks_of_64k: "ext3", 65_536, "";
    ext4_with_blocks_of_8k: "ext4", 8192, "";
    ext4_with_blocks_of_16k: "ext4", 16_384, "";
    ext4_with_blocks_of_32k: "ext4", 32_768, "";
    ext4_with_blocks_of_64k: "ext4", 65_536, "";
    small_inodes_and_rigid_groups: "ext4", 16_384, "-I 128 -O ^flex_bg";
    short_descriptors_with_crc16: "ext4", 32_768, "-O ^metadata_csum,uninit_bg,^64bit";
    block_maps_with_checksums: "ext4", 65_536, "-O ^extent,^64bit";
    many_features: "ext4", 65_536, "-O inline_data,ea_inode,quota,project,orphan_file,mmp";
    many_small_groups: "ext4", 8192, "-g 256 -N 8192 -O meta_bg,^resize_inode,metadata_csum_seed";
    clusters: "ext4", 8192, "-O bigalloc -C 65536";
    clusters_of_the_largest_blocks: "ext4", 65_536, "-O bigalloc -C 262144 -J size=64";
}
