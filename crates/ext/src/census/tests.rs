//! Tests that a census agrees, for every block, with the volume itself.

#![expect(clippy::unwrap_used, reason = "tests stop at what they do not expect")]

use block::MemoryDevice;

use super::*;
use crate::format::mkfs::{self, FileSystemType, Options};
use crate::volume::{FileKind, SetMode, Volume};
use crate::{Error, MountOptions};

const KIB: u64 = 1024;

/// Returns a volume with files whose block maps have three levels, an indexed directory, links and
/// attributes.
fn volume(block_bytes: u32) -> (Arc<dyn BlockDevice>, Superblock) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(48 << 20));
    let options = Options {
        file_system: FileSystemType::Ext3,
        block_bytes: Some(block_bytes),
        ..Options::default()
    };
    mkfs::format(&device, &options).unwrap();
    let volume = Volume::open(Arc::clone(&device), None, MountOptions::default()).unwrap();
    volume.create_directory_all("/a/b").unwrap();
    for number in 0..600 {
        let name = format!("/a/b/a-name-of-some-length-{number}");
        volume.write_file(&name, b"x").unwrap();
    }
    for (path, blocks) in [("/sparse", [0, 12, 268, 65804]), ("/dense", [0, 1, 2, 3])] {
        let mut file = volume.create_file(path, &Default::default()).unwrap();
        for block in blocks {
            file.set_position(block * KIB);
            file.write_all(&[7; 5000]).unwrap();
        }
        file.close().unwrap();
        let nr = volume.resolve(path, true).unwrap();
        let mode = SetMode::default();
        volume
            .set_attribute(nr, b"user.x", &[1; 700], mode)
            .unwrap();
    }
    for (name, bytes) in [(b"fast", 20), (b"slow", 200)] {
        let target = vec![b't'; bytes];
        let new = Default::default();
        volume.symlink(InodeNr::ROOT, name, &target, &new).unwrap();
    }
    let superblock = volume.superblock().clone();
    volume.close().unwrap();
    (device, superblock)
}

/// Returns the use of each block by the block maps of all inodes, and the number of free blocks.
fn by_volume(device: &Arc<dyn BlockDevice>) -> (BTreeMap<u64, BlockUse>, u64) {
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let volume = Volume::open(Arc::clone(device), None, options).unwrap();
    let mut uses = BTreeMap::new();
    for nr in 1..=volume.superblock().geometry.inode_count {
        let inode = InodeNr::new(nr);
        let kind = match volume.attributes(inode) {
            Ok(attributes) => attributes.kind,
            Err(Error::NotFound) => continue,
            Err(error) => panic!("{error}"),
        };
        let Ok(blocks) = volume.blocks_of(inode) else {
            assert_eq!(inode, InodeNr::RESIZE, "it has what lies at fixed places");
            continue;
        };
        for extent in blocks {
            for (index, block) in (0..).zip(extent.blocks()) {
                let file_block = extent.file_block.map(|first| first + index);
                let found = match (file_block, kind) {
                    // The volume does not report the depth of an indirect block.
                    (None, _) => BlockUse::Map { inode, depth: 0 },
                    (Some(file_block), FileKind::Directory) => {
                        BlockUse::Directory { inode, file_block }
                    }
                    (Some(_), FileKind::Symlink) => BlockUse::LinkTarget { inode },
                    (Some(file_block), _) => BlockUse::Data { inode, file_block },
                };
                uses.insert(block, found);
            }
        }
        if let Some(block) = volume.attribute_block(inode).unwrap() {
            uses.entry(block).or_insert(BlockUse::Attributes { inode });
        }
    }
    let free = volume.usage().blocks_free;
    volume.close().unwrap();
    (uses, free)
}

#[test]
fn every_block_is_what_the_volume_says() {
    for block_bytes in [1024, 2048, 4096] {
        let (device, superblock) = volume(block_bytes);
        let geometry = &superblock.geometry;
        let (expected, free) = by_volume(&device);
        let all = geometry.first_data_block.get()..geometry.block_count;
        let found = census(&device, all.clone().map(BlockNr::new)).unwrap();
        assert_eq!(found.len() as u64, all.end - all.start);
        let mut counts = [0_u64; 4];
        for (block, found) in &found {
            let (place, said) = match *found {
                BlockUse::Free => (0, None),
                BlockUse::Unknown => (1, None),
                BlockUse::Map { inode, depth } if inode == InodeNr::RESIZE => {
                    assert_eq!(depth, 2);
                    continue;
                }
                BlockUse::Map { inode, .. } => (2, Some(BlockUse::Map { inode, depth: 0 })),
                BlockUse::Directory { .. }
                | BlockUse::Data { .. }
                | BlockUse::LinkTarget { .. }
                | BlockUse::Attributes { .. } => (2, Some(*found)),
                // A block of the resize inode counts as a reserved GDT block before anything else.
                BlockUse::DescriptorRoom { .. } => {
                    counts[3] += 1;
                    continue;
                }
                _ => (3, None),
            };
            counts[place] += 1;
            let expected = expected.get(&block.get()).copied();
            assert_eq!(said, expected, "{block}");
        }
        let metadata: u64 = geometry
            .groups()
            .map(|group| {
                u64::from(geometry.super_blocks(group) + 2 + geometry.inode_table_blocks())
            })
            .sum();
        assert_eq!((counts[0], counts[1], counts[3]), (free, 0, metadata));
    }
}
