//! The checksums of `metadata_csum`, against images of e2fsprogs: every structure of an image must
//! have the checksum that our formula gives.

use layout::attribute::BlockHeader;
use layout::checksum::metadata;
use layout::directory::EntryTail;
use layout::extent;
use layout::feature::Incompatible;
use layout::group::{GroupDescriptor64, GroupFlags};
use layout::htree;
use layout::inode::{Inode, InodeFlags};
use zerocopy::{FromBytes, IntoBytes};

use crate::image::{Image, Volume, run};

/// Number of entries of the directory, enough for two levels of index blocks of 1 KiB.
const ENTRIES: u32 = 700;
/// Number of blocks of the fragmented file.
const FRAGMENTS: u32 = 700;

/// Creates a directory with a hash tree (inode 12), a file with an attribute block (13) and one
/// with a tree of extents (14).
fn image(options: &str) -> Image {
    let image = Image::make(16, options);
    let value = image.file("value", &[b'v'; 600]);
    let long = "with-a-name-that-is-long-".repeat(8);
    let mut commands = String::from("mkdir d\nwrite /dev/null f\nwrite /dev/null g\n");
    commands += &format!("ea_set -f {} f user.value\n", value.display());
    for index in 0..FRAGMENTS {
        commands += &format!("fallocate g {0} {0}\n", index * 2);
    }
    commands += "cd d\n";
    for index in 0..ENTRIES {
        commands += &format!("mknod {long}{index} p\n");
    }
    image.debugfs(&commands);
    let path = image.path_text();
    run("e2fsck", &["-fyD", &path], b"", &[0, 1]);
    run("e2fsck", &["-fn", &path], b"", &[0]);
    image
}

fn seed(volume: &Volume) -> u32 {
    metadata::seed(&volume.superblock)
}

fn owner(volume: &Volume, inode: u32) -> u32 {
    let generation = volume.inode(inode).generation.get();
    metadata::owner(seed(volume), inode, generation)
}

fn check_groups(volume: &Volume) {
    let superblock = &volume.superblock;
    let groups = superblock.inodes_count.get() / superblock.inodes_per_group.get();
    let is_long = superblock.descriptor_bytes() == 64;
    let (mut block_bitmaps, mut inode_bitmaps) = (0, 0);
    for group in 0..groups {
        let bytes = volume.descriptor(group);
        assert_eq!(bytes.len() == 64, is_long);
        let raw = GroupDescriptor64::read(bytes);
        let computed = metadata::group_descriptor(seed(volume), group, bytes);
        assert_eq!(raw.base.checksum.get(), computed, "group {group}");
        let whole = |crc: u32| if is_long { crc } else { crc & 0xFFFF };
        if !raw.flags().contains(GroupFlags::BLOCK_UNINIT) {
            let bits = superblock.blocks_per_group.get();
            let crc = metadata::bitmap(seed(volume), volume.block(raw.block_bitmap()), bits);
            assert_eq!(raw.block_bitmap_checksum(), whole(crc), "group {group}");
            block_bitmaps += 1;
        }
        if !raw.flags().contains(GroupFlags::INODE_UNINIT) {
            let bits = superblock.inodes_per_group.get();
            let crc = metadata::bitmap(seed(volume), volume.block(raw.inode_bitmap()), bits);
            assert_eq!(raw.inode_bitmap_checksum(), whole(crc), "group {group}");
            inode_bitmaps += 1;
        }
    }
    assert!(block_bitmaps > 0 && inode_bitmaps > 0);
}

fn check_inodes(volume: &Volume) {
    for inode in 1..=14 {
        let bytes = volume.inode_bytes(inode);
        assert!(metadata::is_inode_good(seed(volume), inode, bytes));
        let mut other = bytes.to_vec();
        other[4] ^= 1;
        assert!(!metadata::is_inode_good(seed(volume), inode, &other));
        assert!(!metadata::is_inode_good(seed(volume), inode + 1, bytes) || is_zero(bytes));
    }
    assert!(metadata::is_inode_good(seed(volume), 100, &[0; 256]));
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Checks all blocks of the directory, which has extents in the inode or one level below.
fn check_directory(volume: &Volume) {
    let (inode, owner) = (volume.inode(12), owner(volume, 12));
    assert!(inode.flags().contains(InodeFlags::INDEX));
    let (mut leaves, mut nodes) = (0, 0);
    for number in 0..inode.size(false) / volume.block_size() as u64 {
        let block = volume.block(leaf_block(volume, &inode, number));
        let offset = match number {
            0 => Some(htree::ROOT_ENTRIES_OFFSET),
            _ => is_node(block).then_some(htree::NODE_ENTRIES_OFFSET),
        };
        if let Some(offset) = offset {
            let (tail, computed) = metadata::index_block(owner, block, offset).unwrap();
            assert_eq!(tail.checksum.get(), computed, "index block {number}");
            nodes += 1;
        } else {
            let tail = EntryTail::of_block(block).unwrap();
            let computed = metadata::directory_leaf(owner, block);
            assert_eq!(tail.checksum.get(), computed, "leaf {number}");
            assert_eq!(tail.as_bytes(), EntryTail::new(computed).as_bytes());
            leaves += 1;
        }
    }
    assert!(leaves > 10 && nodes > 0, "{leaves} {nodes}");
}

fn is_node(block: &[u8]) -> bool {
    block[..4] == [0; 4] && u16::from_le_bytes([block[4], block[5]]) as usize == block.len()
}

/// Finds a block of a file through the leaves of its tree.
fn leaf_block(volume: &Volume, file: &Inode, number: u64) -> u64 {
    let all = extents(volume, file.map_words.as_bytes());
    let found = all.iter().find(|extent| {
        let start = u64::from(extent.file_block.get());
        (start..start + u64::from(extent.block_count())).contains(&number)
    });
    let extent = found.unwrap();
    extent.start() + number - u64::from(extent.file_block.get())
}

/// Returns all extents below a node.
fn extents(volume: &Volume, node: &[u8]) -> Vec<extent::Extent> {
    let (header, rest) = extent::Header::ref_from_prefix(node).unwrap();
    let count = usize::from(header.entry_count.get());
    if header.depth.get() == 0 {
        let (all, _) = <[extent::Extent]>::ref_from_prefix_with_elems(rest, count).unwrap();
        return all.to_vec();
    }
    let (all, _) = <[extent::Index]>::ref_from_prefix_with_elems(rest, count).unwrap();
    let below = all
        .iter()
        .flat_map(|index| extents(volume, volume.block(index.node())));
    below.collect()
}

fn check_extents(volume: &Volume) {
    let (inode, owner) = (volume.inode(14), owner(volume, 14));
    let root = inode.map_words;
    let (header, rest) = extent::Header::ref_from_prefix(root.as_bytes()).unwrap();
    assert_eq!(header.entry_max.get(), extent::ROOT_ENTRIES_MAX);
    assert!(header.depth.get() > 0);
    let count = usize::from(header.entry_count.get());
    let (indexes, _) = <[extent::Index]>::ref_from_prefix_with_elems(rest, count).unwrap();
    for index in indexes {
        let block = volume.block(index.node());
        let (tail, computed) = metadata::extent_block(owner, block).unwrap();
        assert_eq!(tail.checksum.get(), computed, "block {}", index.node());
        let (header, _) = extent::Header::ref_from_prefix(block).unwrap();
        assert_eq!(header.entry_max.get(), extent::capacity(block.len()));
    }
    let all = extents(volume, root.as_bytes());
    assert_eq!(all.len(), FRAGMENTS as usize);
    assert!(all.iter().all(extent::Extent::is_unwritten));
}

fn check_attributes(volume: &Volume) {
    let number = volume.inode(13).attribute_block(true);
    let block = volume.block(number);
    let (header, _) = BlockHeader::ref_from_prefix(block).unwrap();
    let computed = metadata::attribute_block(seed(volume), number, block);
    assert_eq!(header.checksum.get(), computed);
}

#[test]
fn every_structure_has_the_checksum_of_e2fsprogs() {
    for options in [
        "-t ext4 -b 1024 -I 256 -N 2048 -O metadata_csum,64bit",
        "-t ext4 -b 1024 -I 128 -N 2048 -O metadata_csum,^64bit",
        "-t ext4 -b 2048 -I 512 -N 2048 -g 2048 -O metadata_csum,64bit,metadata_csum_seed",
        "-t ext4 -b 4096 -I 256 -N 2048 -O metadata_csum,64bit",
    ] {
        let volume = image(options).read();
        let incompatible = volume.superblock.features().incompatible;
        let is_stored = incompatible.contains(Incompatible::METADATA_CSUM_SEED);
        assert_eq!(volume.superblock.checksum_seed.get() != 0, is_stored);
        check_groups(&volume);
        check_inodes(&volume);
        check_directory(&volume);
        check_extents(&volume);
        check_attributes(&volume);
    }
}
