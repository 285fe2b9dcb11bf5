//! One damaged block of each kind: the error, what can still be read, and what is not changed.

use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::error::Corrupt;
use ext::options::{DataMode, OnError};
use ext::volume::{NewInode, OpenFlags, SetMode};
use ext::{Error, MountOptions, Volume};
use layout::{FileBlock, InodeNr};

use super::{BLOCK_BYTES, INODE_MAP, Populated, VOLUME_BYTES, populated, put};
use crate::rig::{Place, Rig, device, quiet};

/// Index of the word of an inode with the indirect block.
const INDIRECT: usize = 12;
const NAMES: [&str; 3] = ["first", "second", "third"];
/// Bytes of an entry with a name of at most eight bytes.
const ENTRY_BYTES: usize = 16;

/// Opens a damaged image that goes on after damage.
fn open(bytes: &[u8]) -> (Volume, Arc<MemoryDevice>) {
    let memory = Arc::new(MemoryDevice::from_bytes(bytes));
    let options = MountOptions {
        on_error: OnError::Continue,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(device(&memory), None, options).expect("it opens");
    (volume, memory)
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize
}

/// Returns a volume with a directory of three names, and the offset of the entry of the second.
fn with_names() -> (Vec<u8>, InodeNr, usize) {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(quiet(DataMode::Ordered));
    let directory = volume.create_directory("/d").expect("mkdir");
    for name in NAMES {
        let path = format!("/d/{name}");
        volume.write_file(&path, name.as_bytes()).expect("write");
    }
    let block = volume.blocks_of(directory).expect("blocks")[0].first.get() as usize;
    volume.close().expect("close");
    let dots = 24;
    let second = block * BLOCK_BYTES + dots + ENTRY_BYTES;
    (rig.home.to_bytes(), directory, second)
}

#[test]
fn a_directory_is_read_up_to_the_damage_and_not_changed() {
    let (mut bytes, directory, second) = with_names();
    put(&mut bytes, second + 4, &[0, 0]);
    let (volume, memory) = open(&bytes);
    let damage = |result: Result<(), Error>| match result {
        Err(Error::Corrupt(Corrupt::Directory {
            inode,
            file_block,
            offset,
            why,
        })) => {
            assert_eq!((inode, file_block), (directory, FileBlock::new(0)));
            assert_eq!(offset as usize, second % BLOCK_BYTES);
            assert_eq!(why, "an entry is too short");
        }
        other => panic!("{other:?}"),
    };
    for _ in 0..2 {
        assert_eq!(volume.read_file("/d/first").expect("before"), b"first");
        damage(volume.read_file("/d/third").map(drop));
        damage(volume.list("/d").map(drop));
    }
    let new = NewInode::default();
    damage(volume.create(directory, b"fourth", &new).map(drop));
    damage(volume.remove_file("/d/first"));
    damage(volume.rename_path("/d/first", "/moved"));
    volume.write_file("/rest", b"rest").expect("the rest works");
    volume.close().expect("close");
    let block =
        second / BLOCK_BYTES * BLOCK_BYTES..second / BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES;
    assert!(
        memory.to_bytes()[block.clone()] == bytes[block],
        "it is as it was"
    );
}

/// Damages a pointer of the indirect block of `/large`. Returns the block's offset, too.
fn with_pointer(index: usize, value: u32) -> (Vec<u8>, Populated, usize) {
    let image = populated();
    let map = word(
        &image.bytes,
        image.inode_at(image.large) + INODE_MAP + 4 * INDIRECT,
    );
    let mut bytes = image.bytes.clone();
    let at = map * BLOCK_BYTES;
    put(&mut bytes, at + 4 * index, &value.to_le_bytes());
    (bytes, image, at)
}

#[test]
fn an_indirect_block_is_read_beside_the_damage_and_not_changed() {
    let (bytes, image, at) = with_pointer(20, u32::MAX);
    let (volume, memory) = open(&bytes);
    let damage = |result: Result<(), Error>| match result {
        Err(Error::Corrupt(Corrupt::Mapping {
            inode,
            file_block,
            block,
        })) => {
            assert_eq!((inode, file_block.get()), (image.large, 12 + 20));
            assert_eq!(block.get(), u64::from(u32::MAX));
        }
        other => panic!("{other:?}"),
    };
    let file = volume
        .open_file("/large", OpenFlags::READ_WRITE)
        .expect("open");
    let mut sector = [0; 512];
    for block in [0, 12, 31, 33, 48] {
        let offset = (block * BLOCK_BYTES) as u64;
        file.read_at(offset, &mut sector)
            .expect("beside the damage");
        assert_eq!(sector, [2; 512]);
        file.write_at(offset, &[2; 512])
            .expect("the map stays as it is");
    }
    damage(file.read_at(32 * BLOCK_BYTES as u64, &mut sector).map(drop));
    damage(file.write_at(100 * BLOCK_BYTES as u64, b"x").map(drop));
    file.close().expect("close");
    damage(volume.create_file("/large", &NewInode::default()).map(drop));
    drop(volume.close());
    let after = memory.to_bytes();
    assert!(after[at..at + BLOCK_BYTES] == bytes[at..at + BLOCK_BYTES]);
}

#[test]
fn an_attribute_block_is_refused() {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(quiet(DataMode::Ordered));
    volume.write_file("/file", b"x").expect("write");
    let nr = volume.resolve("/file", true).expect("there");
    let set = |volume: &Volume| volume.set_attribute(nr, b"user.a", &[7; 1000], SetMode::Any);
    set(&volume).expect("set");
    let block = volume.attribute_block(nr).expect("there").expect("a block");
    volume.close().expect("close");
    for (offset, value) in [(0, [0; 4]), (4, [0; 4]), (8, [2, 0, 0, 0])] {
        let mut bytes = rig.home.to_bytes();
        put(&mut bytes, block as usize * BLOCK_BYTES + offset, &value);
        let (volume, _) = open(&bytes);
        let read = volume.get_attribute(nr, b"user.a").map(drop);
        for result in [read, set(&volume)] {
            let Err(Error::Corrupt(Corrupt::Attributes { inode, .. })) = result else {
                panic!("{offset}: {result:?}")
            };
            assert_eq!(inode, nr);
        }
        let removed = volume.remove_file("/file");
        let is_refused = matches!(
            removed,
            Err(Error::Corrupt(Corrupt::Inode {
                field: "i_file_acl",
                ..
            }))
        );
        assert!(is_refused, "{offset}: {removed:?}");
        drop(volume.close());
    }
}

#[test]
fn bitmaps_that_disagree_are_refused() {
    let image = populated();
    let bitmaps = [0, 4].map(|field| word(&image.bytes, BLOCK_BYTES + field) * BLOCK_BYTES);
    for at in bitmaps {
        let mut bytes = image.bytes.clone();
        bytes[at] = 0;
        let (volume, memory) = open(&bytes);
        let made = volume.write_file("/new", &[1; 5000]);
        let is_refused = matches!(made, Err(Error::Corrupt(Corrupt::Bitmap { .. })));
        assert!(is_refused, "{made:?}");
        drop(volume.close());
        assert_eq!(memory.to_bytes()[at], 0, "it is as it was");
    }
}

/// A group counts no more directories than it has inodes: the next open would refuse it.
#[test]
fn a_full_count_of_directories_takes_no_directory() {
    let mut bytes = populated().bytes;
    let inodes = word(&bytes, super::SUPERBLOCK + 0x28) as u16;
    put(&mut bytes, BLOCK_BYTES + 16, &inodes.to_le_bytes());
    let (volume, memory) = open(&bytes);
    let made = volume.create_directory("/new").map(drop);
    let is_refused = matches!(made, Err(Error::Corrupt(Corrupt::Bitmap { .. })));
    assert!(is_refused, "{made:?}");
    volume.close().expect("close");
    let opened = Volume::open(device(&memory), None, quiet(DataMode::Ordered));
    opened.expect("it opens again").close().expect("close");
}
