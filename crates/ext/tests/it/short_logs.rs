//! The shortest logs: those with room for the largest step of an operation are used, and shorter
//! ones refused before anything is changed, because an operation would fail in the middle.
//!
//! Linux and e2fsprogs neither create nor accept logs of fewer than 1,024 blocks; other programs
//! do.

use block::memory::MemoryDevice;
use ext::options::DataMode;
use ext::volume::{RangeChange, SetAttributes};
use ext::{Error, Volume};
use layout::InodeNr;

use crate::rig::{Place, Rig, device, quiet};

const BLOCK_BYTES: u32 = 1024;
const VOLUME_BYTES: u64 = 8 << 20;
/// Length of the shortest log accepted, including the superblock: a step of 32 blocks and one of
/// revokes is a quarter of it.
const SHORTEST: u32 = 4 * (32 + 1);
/// Length of a log that is long enough for everything.
const LONG: u32 = 240;
/// Size of a file with a double indirect block, which takes several transactions of data=journal.
const FILE_BYTES: usize = 900 << 10;

fn rig(place: Place, length: u32) -> Rig {
    let rig = Rig::new(place, BLOCK_BYTES, VOLUME_BYTES);
    rig.set_log_length(length);
    rig
}

fn bytes(memory: &MemoryDevice) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    memory.write_to_file(&path).unwrap();
    std::fs::read(path).unwrap()
}

/// Makes every kind of change; the large ones take several steps.
fn use_it(volume: &Volume) {
    volume.create_directory("/a").unwrap();
    volume.create_directory("/b").unwrap();
    for round in 0..3 {
        volume
            .write_file("/a/large", &vec![round; FILE_BYTES])
            .unwrap();
        volume.sync().unwrap();
        let nr = volume.resolve("/a/large", false).unwrap();
        volume.link(nr, InodeNr::ROOT, b"link").unwrap();
        volume.remove_file("/link").unwrap();
        volume.rename_path("/a/large", "/b/large").unwrap();
        for (what, from, length) in [
            (RangeChange::PunchHole, 280 << 10, 100 << 10),
            (RangeChange::PunchHole, 5 << 10, 500 << 10),
            (RangeChange::Allocate, 0, 100 << 10),
            (RangeChange::Zero, 90 << 10, 100 << 10),
        ] {
            volume.change_range(nr, from, length, what, true).unwrap();
        }
        let cut = SetAttributes {
            size: Some(300 << 10),
            ..SetAttributes::default()
        };
        volume.set_attributes(nr, &cut).unwrap();
        volume.remove_file("/b/large").unwrap();
    }
    // More names than fit one block, so that directories grow and get an index.
    for number in 0..120 {
        volume
            .write_file(&format!("/a/{number:060}"), b"small")
            .unwrap();
    }
    for number in 0..120 {
        volume.remove_file(&format!("/a/{number:060}")).unwrap();
    }
    volume.remove_directory_at("/a").unwrap();
}

#[test]
fn all_operations_fit_the_shortest_log() {
    for place in [Place::Internal, Place::External] {
        for data in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
            for length in (SHORTEST..LONG).step_by(9) {
                let rig = rig(place, length);
                let volume = rig.open(quiet(data));
                use_it(&volume);
                volume.close().unwrap();
                rig.assert_fsck_clean(&format!("{place:?}, {data:?}, {length} blocks"));
            }
        }
    }
}

#[test]
fn a_shorter_log_is_refused_before_anything_is_changed() {
    for place in [Place::Internal, Place::External] {
        for length in [20, 100, SHORTEST - 1] {
            let rig = rig(place, length);
            let before = rig.copy();
            let opened = Volume::open(
                device(&rig.home),
                rig.log_device(),
                quiet(DataMode::Ordered),
            );
            let Err(Error::Journal(jbd2::Error::TooSmall { blocks, least })) = opened else {
                panic!("{place:?}: a log of {length} blocks is not refused");
            };
            assert_eq!((blocks, least), (length, SHORTEST));
            assert!(
                bytes(&rig.home) == bytes(&before.home),
                "{place:?}, {length}"
            );
        }
    }
}
