//! Changes of damaged volumes: the damage is detected or harmless, and acknowledged data stays.

use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::options::DataMode;
use ext::volume::{RenameMode, SetMode};
use ext::{Error, Volume};

use super::{BLOCK_BYTES, Populated, VOLUME_BYTES, put};
use crate::rig::{Place, Rig, device, quiet};

/// Asserts that a test fails with the mutant, and passes without it.
pub fn assert_notices(mutant: &'static str, test: fn()) {
    let run = |mutant| {
        let config = sim::Config {
            mutant,
            ..sim::Config::fair(1)
        };
        sim::run(config, test)
    };
    run(None).unwrap_or_else(|error| panic!("with nothing broken: {error}"));
    if rt::mutant::IS_POSSIBLE {
        assert!(run(Some(mutant)).is_err(), "{mutant} is not noticed");
    }
}

#[test]
fn descriptors_that_count_no_directories() {
    assert_notices("space/directories-below-zero", no_directories_counted);
}

fn no_directories_counted() {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(quiet(DataMode::Ordered));
    volume.create_directory("/d").expect("mkdir");
    volume.create_directory("/e").expect("mkdir");
    volume.close().expect("close");
    let mut bytes = rig.home.to_bytes();
    for group in 0..VOLUME_BYTES as usize / BLOCK_BYTES / (8 * BLOCK_BYTES) + 1 {
        put(&mut bytes, BLOCK_BYTES + group * 32 + 16, &[0, 0]);
    }
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let volume = Volume::open(device(&memory), None, quiet(DataMode::Ordered)).expect("it opens");
    drop(volume.remove_directory_at("/d"));
    drop(volume.create_directory("/e/f"));
    assert!(volume.is_read_only(), "the damage is noticed");
    drop(volume.close());
}

#[test]
fn a_leaf_of_unused_entries_takes_names() {
    assert_notices("directory/scattered-leaf-split", names_for_scattered_leaf);
}

fn names_for_scattered_leaf() {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(quiet(DataMode::Ordered));
    let directory = volume.create_directory("/d").expect("mkdir");
    let new = Default::default();
    let create = |volume: &Volume, name: String| volume.create(directory, name.as_bytes(), &new);
    for number in 0..400 {
        create(&volume, format!("some-longer-name-{number:05}")).expect("create");
    }
    let blocks = volume.blocks_of(directory).expect("blocks");
    let in_order = blocks.iter().filter(|extent| extent.file_block.is_some());
    let mut in_order = in_order.flat_map(|extent| extent.blocks());
    let leaf = in_order.nth(1).expect("a leaf") as usize;
    volume.close().expect("close");
    let mut bytes = rig.home.to_bytes();
    let leaf = &mut bytes[leaf * BLOCK_BYTES..][..BLOCK_BYTES];
    leaf.fill(0);
    let mut at = 0;
    while at < BLOCK_BYTES {
        let left = BLOCK_BYTES - at;
        let length = if left < 24 { left } else { 12 };
        leaf[at + 4..at + 6].copy_from_slice(&(length as u16).to_le_bytes());
        at += length;
    }
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let volume = Volume::open(device(&memory), None, quiet(DataMode::Ordered)).expect("it opens");
    for number in 0..400 {
        let name = format!("another-longer-name-{number:05}");
        create(&volume, name.clone()).expect("create");
        volume
            .lookup(directory, name.as_bytes())
            .expect("it is there");
    }
    volume.close().expect("close");
}

#[test]
fn a_link_count_that_is_too_small_keeps_its_directory() {
    assert_notices("names/damaged-links-reach-zero", small_link_counts);
}

fn small_link_counts() {
    for links in [1, 2, 3] {
        let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
        let volume = rig.open(quiet(DataMode::Ordered));
        for path in ["/p", "/p/a", "/p/b", "/p/c", "/p/c/e", "/q", "/q/old"] {
            volume.create_directory(path).expect("mkdir");
        }
        volume.write_file("/q/file", b"x").expect("write");
        let nr = |path| volume.resolve(path, true).expect("there");
        let (parent, other, nested) = (nr("/p"), nr("/q"), nr("/p/c"));
        volume.close().expect("close");
        let mut image = Populated {
            bytes: rig.home.to_bytes(),
            file: parent,
            large: parent,
            directory: parent,
            directory_block: 0,
        };
        for damaged in [parent, nested] {
            // `i_links_count`
            let at = image.inode_at(damaged) + 26;
            put(&mut image.bytes, at, &u16::to_le_bytes(links));
        }
        let memory = Arc::new(MemoryDevice::from_bytes(&image.bytes));
        let open = || Volume::open(device(&memory), None, quiet(DataMode::Ordered));
        let volume = open().expect("it opens");
        let moves: [(&[u8], &[u8], RenameMode); 2] = [
            (b"a", b"old", RenameMode::Replace),
            (b"b", b"file", RenameMode::Exchange),
        ];
        for (name, new_name, mode) in moves {
            let moved = volume.rename(parent, name, other, new_name, mode);
            moved.unwrap_or_else(|error| panic!("{links} links: {error}"));
        }
        volume.remove_directory(nested, b"e").expect("rmdir");
        volume.lookup(parent, b"c").expect("the rest is there");
        volume.close().expect("close");
        let volume = open().expect("it opens again");
        assert_eq!(
            volume.read_file("/p/b").expect("read"),
            b"x",
            "{links} links"
        );
        volume.list("/p/c").expect("the emptied one is there");
        volume.close().expect("close");
    }
}

/// An exchange gives a directory no more links than the limit, as mkdir and rename: otherwise
/// repeated exchanges would increment the count until it overflows.
#[test]
fn a_full_link_count_takes_no_exchange() {
    for links in [32_000, u16::MAX] {
        let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
        let volume = rig.open(quiet(DataMode::Ordered));
        for path in ["/p", "/p/a", "/q"] {
            volume.create_directory(path).expect("mkdir");
        }
        volume.write_file("/q/file", b"x").expect("write");
        let nr = |path| volume.resolve(path, true).expect("there");
        let (parent, other) = (nr("/p"), nr("/q"));
        volume.close().expect("close");
        let mut image = Populated {
            bytes: rig.home.to_bytes(),
            file: parent,
            large: parent,
            directory: parent,
            directory_block: 0,
        };
        let at = image.inode_at(other) + 26;
        put(&mut image.bytes, at, &u16::to_le_bytes(links));
        let memory = Arc::new(MemoryDevice::from_bytes(&image.bytes));
        let volume = Volume::open(device(&memory), None, quiet(DataMode::Ordered));
        let volume = volume.expect("it opens");
        let sides = [(parent, b"a".as_slice()), (other, b"file")];
        for ((from, name), (to, new_name)) in [(sides[0], sides[1]), (sides[1], sides[0])] {
            let moved = volume.rename(from, name, to, new_name, RenameMode::Exchange);
            assert!(matches!(moved, Err(Error::TooManyLinks)), "{moved:?}");
        }
        volume.close().expect("close");
    }
}

#[test]
fn what_was_synced_when_the_volume_became_read_only_is_there() {
    assert_notices("sync/nothing-written-after-damage", sync_after_damage);
}

fn sync_after_damage() {
    for syncs in [false, true] {
        let rig = Rig::new(Place::None, BLOCK_BYTES as u32, VOLUME_BYTES);
        let volume = rig.open(quiet(DataMode::Ordered));
        volume.create_directory("/d").expect("mkdir");
        volume.close().expect("close");
        let mut bytes = rig.home.to_bytes();
        for group in 0..VOLUME_BYTES as usize / BLOCK_BYTES / (8 * BLOCK_BYTES) + 1 {
            put(&mut bytes, BLOCK_BYTES + group * 32 + 16, &[0, 0]);
        }
        let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
        let open = || Volume::open(device(&memory), None, quiet(DataMode::Ordered));
        let volume = open().expect("it opens");
        volume.write_file("/kept", &[7; 10_000]).expect("write");
        drop(volume.remove_directory_at("/d"));
        assert!(volume.is_read_only(), "the damage is noticed");
        if syncs {
            volume.sync().expect("sync");
            // A power cut: nothing is closed.
            drop(volume);
        } else {
            volume.close().expect("close");
        }
        let volume = open().expect("it opens again");
        assert_eq!(volume.read_file("/kept").expect("there"), [7; 10_000]);
        drop(volume.close());
    }
}

#[test]
fn bitmaps_in_the_inode_table_are_refused() {
    let rig = Rig::new(Place::Internal, BLOCK_BYTES as u32, VOLUME_BYTES);
    let bytes = rig.home.to_bytes();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let table = word(BLOCK_BYTES + 8);
    for at in [BLOCK_BYTES, BLOCK_BYTES + 4] {
        let mut bytes = bytes.clone();
        put(&mut bytes, at, &(table + 1).to_le_bytes());
        super::refusal(&Arc::new(MemoryDevice::from_bytes(&bytes)), "an overlap");
    }
}

/// A block for attributes would overflow the block count: the inode could not be stored any more.
#[test]
fn a_full_block_count_takes_no_attribute_block() {
    let image = super::populated();
    let mut bytes = image.bytes.clone();
    put(&mut bytes, image.inode_at(image.file) + 28, &[0xFF; 4]);
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let volume = Volume::open(device(&memory), None, quiet(DataMode::Ordered)).expect("it opens");
    let set = volume.set_attribute(image.file, b"user.a", &[7; 1000], SetMode::Any);
    assert!(matches!(set, Err(Error::FileTooLarge)), "{set:?}");
    volume.write_file("/rest", b"rest").expect("the rest works");
    volume.sync().expect("the journal goes on");
    volume.close().expect("close");
}
