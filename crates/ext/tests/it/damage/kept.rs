//! Blocks that damage keeps from being freed stay in use, with their current contents: these are
//! neither dropped from the journal nor revoked.

use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::options::{DataMode, OnError};
use ext::volume::{OpenFlags, RangeChange, SetMode};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;

use super::{BLOCK_BYTES, INODE_MAP, VOLUME_BYTES, assert_notices, populated, put};
use crate::rig::{Place, Rig, device, quiet};

const NAME: &[u8] = b"user.large";
const FILE_BYTES: usize = 8 * BLOCK_BYTES;
/// Number of direct pointers of an inode.
const DIRECT: usize = 12;

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize
}

fn file(volume: &Volume) -> InodeNr {
    volume.resolve("/file", true).expect("it is there")
}

/// Writes the file and its attribute block, in place if they exist, durably.
fn write(volume: &Volume, byte: u8) {
    let open = volume.open_file("/file", OpenFlags::READ_WRITE);
    let open = open.expect("open");
    open.write_at(0, &[byte; FILE_BYTES]).expect("write");
    open.close().expect("close");
    volume
        .set_attribute(file(volume), NAME, &[byte; 1000], SetMode::Any)
        .expect("set");
    volume.sync().expect("sync");
}

fn assert_newest(volume: &Volume, what: &str) {
    let value = volume.get_attribute(file(volume), NAME).expect(what);
    assert!(value == [2; 1000], "the attribute, {what}");
    let bytes = volume.read_file("/file").expect(what);
    assert!(bytes == [2; FILE_BYTES], "the file, {what}");
}

/// Checks blocks that cannot be freed because the descriptor of the only group counts one free
/// block too many.
fn keep_what_cannot_be_freed(place: Place, free: fn(&Volume) -> Result<(), Error>) {
    let options = || match place {
        Place::None => quiet(DataMode::Ordered),
        _ => quiet(DataMode::Journal),
    };
    let rig = Rig::new(place, BLOCK_BYTES as u32, VOLUME_BYTES);
    let volume = rig.open(options());
    volume.write_file("/file", b"").expect("create");
    write(&volume, 1);
    volume.close().expect("close");
    let mut bytes = rig.home.to_bytes();
    let at = BLOCK_BYTES + 12;
    let count = u16::from_le_bytes([bytes[at], bytes[at + 1]]) + 1;
    put(&mut bytes, at, &count.to_le_bytes());
    let rig = Rig {
        home: Arc::new(MemoryDevice::from_bytes(&bytes)),
        ..rig
    };
    let volume = rig.open(options());
    write(&volume, 2);
    let freed = free(&volume);
    assert!(matches!(freed, Err(Error::Corrupt(_))), "{freed:?}");
    assert_newest(&volume, "after the error");
    volume.sync().expect("sync");
    let cut = rig.copy().open(options());
    assert_newest(&cut, "after a power cut");
}

fn remove_attribute(volume: &Volume) -> Result<(), Error> {
    volume.remove_attribute(file(volume), NAME)
}

fn punch(volume: &Volume) -> Result<(), Error> {
    let length = FILE_BYTES as u64;
    volume.change_range(file(volume), 0, length, RangeChange::PunchHole, true)
}

#[test]
fn attributes_and_journaled_data() {
    for place in [Place::Internal, Place::External] {
        keep_what_cannot_be_freed(place, remove_attribute);
        keep_what_cannot_be_freed(place, punch);
    }
    keep_what_cannot_be_freed(Place::None, remove_attribute);
    assert_notices("free/forgotten-before-freed", || {
        keep_what_cannot_be_freed(Place::Internal, remove_attribute);
    });
}

/// A punch that a damaged indirect block refuses leaves written pages that are not on the device
/// yet.
#[test]
fn pages_of_a_range_that_cannot_be_punched() {
    let image = populated();
    let (map, large) = (image.inode_at(image.large) + INODE_MAP, image.large);
    let indirect = word(&image.bytes, map + 4 * DIRECT) * BLOCK_BYTES;
    let mut bytes = image.bytes;
    put(&mut bytes, indirect + 4 * 20, &[0xFF; 4]);
    let memory = Arc::new(MemoryDevice::from_bytes(&bytes));
    let options = MountOptions {
        on_error: OnError::Continue,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(device(&memory), None, options).expect("it opens");
    let file = volume.open_file("/large", OpenFlags::READ_WRITE);
    let file = file.expect("open");
    let (offset, length) = (14 * BLOCK_BYTES as u64, 2 * BLOCK_BYTES as u64);
    let newest = [9; 2 * BLOCK_BYTES];
    file.write_at(offset, &newest)
        .expect("the map stays as it is");
    let punched = volume.change_range(large, offset, length, RangeChange::PunchHole, true);
    assert!(matches!(punched, Err(Error::Corrupt(_))), "{punched:?}");
    let mut found = [0; 2 * BLOCK_BYTES];
    file.read_at(offset, &mut found).expect("read");
    assert!(found == newest, "the pages are kept");
    file.close().expect("close");
    volume.close().expect("close");
}
