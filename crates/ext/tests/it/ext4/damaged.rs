//! Checksums that do not match: the error names the structure, and everything else stays readable.

use std::path::Path;

use ext::{Corrupt, Sealed};
use layout::{FileBlock, GroupNr, InodeNr};
use testkit::{privilege, tool};

use super::*;

const BLOCK_BYTES: usize = 1024;
const GROUP_BLOCKS: u64 = 8192;

fn fill(root: &Path) {
    for name in ["linear", "indexed"] {
        std::fs::create_dir(root.join(name)).unwrap();
    }
    for number in 0..10 {
        std::fs::write(root.join(format!("linear/{number}")), b"contents").unwrap();
    }
    for number in 0..6000 {
        let name = root.join(format!("indexed/a-name-of-some-length-{number}"));
        std::fs::hard_link(root.join("linear/0"), name).unwrap();
    }
    let file = std::fs::File::create(root.join("deep")).unwrap();
    for number in 0..1000 {
        std::os::unix::fs::FileExt::write_all_at(&file, &[7; 1024], number * 2048).unwrap();
    }
    let path = root.join("linear/1").display().to_string();
    tool::run_well(
        "setfattr",
        &["-n", "user.long", "-v", &"v".repeat(600), &path],
    );
}

/// A filled image, its bytes, and the places of its structures.
struct Sound {
    image: Image,
    bytes: Vec<u8>,
}

impl Sound {
    fn new() -> Self {
        let image = filled(BLOCK_BYTES as u32, 64 * MIB, "", fill);
        let bytes = std::fs::read(&image.path).unwrap();
        Self { image, bytes }
    }

    fn volume(&self) -> Volume {
        open(&Arc::new(MemoryDevice::from_bytes(&self.bytes))).unwrap()
    }

    /// Opens the volume with one bit changed.
    fn damaged(&self, offset: usize) -> Result<Volume> {
        let mut bytes = self.bytes.clone();
        bytes[offset] ^= 0x10;
        open(&Arc::new(MemoryDevice::from_bytes(&bytes)))
    }

    fn inode(&self, path: &str) -> InodeNr {
        let volume = self.volume();
        let inode = volume.resolve(path, true).unwrap();
        volume.close().unwrap();
        inode
    }

    /// Returns the byte offset of an inode in the image, by `debugfs`.
    fn place_of(&self, inode: InodeNr) -> usize {
        let request = format!("imap <{inode}>");
        let path = self.image.path.to_str().unwrap();
        let text = tool::run_well("debugfs", &["-R", &request, path]);
        let after = |word: &str| text.split(word).nth(1).unwrap().trim().to_owned();
        let block: usize = after("located at block ")
            .split(',')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let offset = usize::from_str_radix(after("offset 0x").trim(), 16).unwrap();
        block * BLOCK_BYTES + offset
    }

    /// Returns the block of a directory or of an extent tree.
    fn block_of(&self, inode: InodeNr, file_block: Option<u64>) -> u64 {
        let volume = self.volume();
        let blocks = volume.blocks_of(inode).unwrap();
        let wanted = file_block.map(FileBlock::new);
        let found = blocks
            .iter()
            .find_map(|extent| match (extent.file_block, wanted) {
                (None, None) => Some(extent.first.get()),
                (Some(first), Some(wanted)) => {
                    let index = wanted.get().checked_sub(first.get())?;
                    (index < u64::from(extent.count)).then(|| extent.first.get() + index)
                }
                _ => None,
            });
        volume.close().unwrap();
        found.expect("there is such a block")
    }
}

/// Asserts that an error is a checksum of a structure, with the number of Linux's `EFSBADCRC`.
#[track_caller]
fn assert_sealed<T>(result: Result<T>, expected: Sealed) {
    let Err(error) = result else {
        panic!("{expected} is accepted")
    };
    assert_eq!(error.raw_os_error(), 74, "{error}");
    match error {
        Error::Corrupt(Corrupt::Checksum(sealed)) => assert_eq!(sealed, expected),
        error => panic!("{error}"),
    }
}

#[test]
fn each_checksum_is_verified_and_spoils_its_structure_only() {
    if !privilege::is_granted() {
        return;
    }
    let sound = Sound::new();
    assert_sealed(sound.damaged(1024 + 0x78), Sealed::Superblock);
    inodes_and_descriptors(&sound);
    directories(&sound);
    extents(&sound);
    attributes(&sound);
}

fn inodes_and_descriptors(sound: &Sound) {
    let inode = sound.inode("linear/3");
    let place = sound.place_of(inode);
    for offset in [0x10, 0x90, 0xF0] {
        let volume = sound.damaged(place + offset).unwrap();
        assert_sealed(volume.attributes(inode), Sealed::Inode { inode });
        assert_sealed(volume.read_file("linear/3"), Sealed::Inode { inode });
        assert_eq!(volume.read_file("linear/4").unwrap(), b"contents");
        assert_eq!(volume.list("linear").unwrap().len(), 10);
        volume.close().unwrap();
    }
    let indexed = sound.inode("indexed");
    let per_group = sound.volume().superblock().geometry.inodes_per_group;
    let group = GroupNr::new((indexed.get() - 1) / per_group);
    assert!(group.get() > 0, "the kernel spreads directories");
    // The flags of the descriptor, the free blocks, the upper half of the table's place.
    for offset in [0x12, 0x0C, 0x28] {
        let descriptors = 2 * BLOCK_BYTES + group.index() * 64;
        let volume = sound.damaged(descriptors + offset).unwrap();
        assert_sealed(volume.attributes(indexed), Sealed::Descriptor { group });
        let names = volume.list("/").unwrap();
        assert!(names.iter().any(|entry| entry.name == b"indexed"));
        assert_eq!(volume.read_file("deep").unwrap().len(), 999 * 2048 + 1024);
        volume.close().unwrap();
    }
    assert!(sound.bytes.len() as u64 / 1024 > GROUP_BLOCKS);
}

fn directories(sound: &Sound) {
    let inode = sound.inode("linear");
    let block = sound.block_of(inode, Some(0));
    let sealed = Sealed::Directory {
        inode,
        block: BlockNr::new(block),
    };
    // A name, the free room, the tail's form, the checksum.
    for offset in [20, 900, 1019, 1021] {
        let volume = sound
            .damaged(block as usize * BLOCK_BYTES + offset)
            .unwrap();
        assert_sealed(volume.list("linear"), sealed);
        assert_sealed(volume.resolve("linear/3", true), sealed);
        let name = "indexed/a-name-of-some-length-7";
        assert_eq!(volume.read_file(name).unwrap(), b"contents");
        volume.close().unwrap();
    }
    let inode = sound.inode("indexed");
    let root = sound.block_of(inode, Some(0)) as usize * BLOCK_BYTES;
    let number = |at: usize| {
        let bytes = sound.bytes[at..at + 4].try_into().unwrap();
        u64::from(u32::from_le_bytes(bytes))
    };
    assert_eq!(sound.bytes[root + 30], 1, "the index has two levels");
    let node = sound.block_of(inode, Some(number(root + 36)));
    let leaf = sound.block_of(inode, Some(number(node as usize * BLOCK_BYTES + 12)));
    let root = root as u64 / BLOCK_BYTES as u64;
    for (block, offset) in [
        (root, 40),
        (root, 1021),
        (node, 24),
        (node, 1021),
        (leaf, 30),
    ] {
        let volume = sound
            .damaged(block as usize * BLOCK_BYTES + offset)
            .unwrap();
        let sealed = Sealed::Directory {
            inode,
            block: BlockNr::new(block),
        };
        let mut names = 0;
        let mut count = |_, _| {
            names += 1;
            true
        };
        assert_sealed(volume.read_directory(inode, 0, &mut count), sealed);
        // A leaf spoils its own names only.
        assert_eq!(names > 5900, block == leaf, "{names} names");
        assert_eq!(volume.read_file("linear/3").unwrap(), b"contents");
        volume.close().unwrap();
    }
}

fn extents(sound: &Sound) {
    let inode = sound.inode("deep");
    let index = sound.block_of(inode, None);
    let at = index as usize * BLOCK_BYTES;
    let leaf = u64::from(u32::from_le_bytes(
        sound.bytes[at + 16..at + 20].try_into().unwrap(),
    ));
    for (block, offset) in [(index, 20), (index, 1021), (leaf, 3), (leaf, 500)] {
        let volume = sound
            .damaged(block as usize * BLOCK_BYTES + offset)
            .unwrap();
        let sealed = Sealed::Extents {
            inode,
            block: BlockNr::new(block),
        };
        assert_sealed(volume.read_file("deep"), sealed);
        let file = volume
            .open_file("deep", ext::volume::OpenFlags::READ)
            .unwrap();
        let behind = file.read_at(998 * 2048, &mut [0; 10]);
        assert_eq!(behind.is_ok(), block == leaf, "{behind:?}");
        file.close().unwrap();
        assert_eq!(volume.read_file("linear/3").unwrap(), b"contents");
        volume.close().unwrap();
    }
}

fn attributes(sound: &Sound) {
    let volume = sound.volume();
    let inode = volume.resolve("linear/1", true).unwrap();
    let block = volume.attribute_block(inode).unwrap().expect("a block");
    volume.close().unwrap();
    for offset in [16, 33, 1000] {
        let volume = sound
            .damaged(block as usize * BLOCK_BYTES + offset)
            .unwrap();
        let sealed = Sealed::Attributes {
            block: BlockNr::new(block),
        };
        assert_sealed(volume.get_attribute(inode, b"user.long"), sealed);
        assert_eq!(volume.read_file("linear/1").unwrap(), b"contents");
        volume.close().unwrap();
    }
}
