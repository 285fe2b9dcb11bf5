//! Freed blocks and the inode that claimed them change together, whatever fails in between and
//! wherever a handle restarts.

use ext::options::{DataMode, OnError};
use ext::volume::{NewInode, SetAttributes, SetMode};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;

use crate::damage::assert_notices;
use crate::rig::{Place, Rig, device, quiet};

/// Length of the shortest log accepted, in blocks.
const SHORTEST: u32 = 4 * (32 + 1);

fn with_attribute_block(volume: &Volume, path: &str, bytes: &[u8]) -> InodeNr {
    volume.write_file(path, bytes).unwrap();
    let nr = volume.resolve(path, true).unwrap();
    volume
        .set_attribute(nr, b"user.x", &[7; 600], SetMode::Any)
        .unwrap();
    nr
}

/// One flipped bit in an attribute block and one unlink: the file's blocks are free, and its inode,
/// which stays on the orphan list, no longer claims them. No other file loses a byte, now or after
/// the next mount.
#[test]
fn a_damaged_attribute_block_frees_no_block_twice() {
    assert_notices("delete/freed-blocks-not-stored", unlink_beside_damage);
}

fn unlink_beside_damage() {
    const BLOCK_BYTES: u32 = 4096;
    let rig = Rig::new(Place::Internal, BLOCK_BYTES, 16 << 20);
    let volume = rig.open(quiet(DataMode::Ordered));
    let nr = with_attribute_block(&volume, "/victim", &[b'V'; 100 * 4096]);
    let block = volume.attribute_block(nr).unwrap().unwrap();
    volume.close().unwrap();
    let at = block * u64::from(BLOCK_BYTES);
    let mut image = device(&rig.home).read_block(at, BLOCK_BYTES).unwrap();
    std::sync::Arc::make_mut(&mut image)[0] ^= 1;
    device(&rig.home).write_blocks(at, vec![image]).unwrap();

    let go_on = MountOptions {
        on_error: OnError::Continue,
        ..quiet(DataMode::Ordered)
    };
    let volume = rig.open(go_on.clone());
    let removed = volume.remove_file("/victim");
    assert!(matches!(removed, Err(Error::Corrupt(_))), "{removed:?}");
    let mut count = 0;
    while volume
        .write_file(&format!("/other{count}"), &[b'O'; 100 * 4096])
        .is_ok()
    {
        count += 1;
    }
    let _ = volume.remove_file(&format!("/other{count}"));
    assert!(count > 20, "the freed blocks are used again: {count}");
    volume.sync().unwrap();
    let _ = volume.close();

    let volume = rig.open(go_on);
    let _ = volume.write_file("/new", &[b'N'; 300 * 4096]);
    let _ = volume.sync();
    for number in 0..count {
        let bytes = volume.read_file(&format!("/other{number}")).unwrap();
        assert!(bytes.iter().all(|byte| *byte == b'O'), "/other{number}");
    }
}

/// Deleting a journaled file needs a revoke for each block and one for its attribute block: the
/// last is available wherever the handle restarted.
#[test]
fn the_revoke_of_the_attribute_block_survives_restarts() {
    assert_notices("truncate/kept-revoke-used", delete_many_sizes);
}

fn delete_many_sizes() {
    let rig = Rig::new(Place::Internal, 1024, 16 << 20);
    rig.set_log_length(SHORTEST);
    for blocks in (1250..1480).step_by(3) {
        let copy = rig.copy();
        let volume = copy.open(quiet(DataMode::Journal));
        with_attribute_block(&volume, "/victim", &vec![b'V'; blocks * 1024]);
        volume.sync().unwrap();
        let removed = volume.remove_file("/victim");
        assert!(removed.is_ok(), "{blocks} blocks: {removed:?}");
        volume.close().unwrap();
    }
}

/// An attribute that fits nowhere is refused at once, and not as a full volume: no commit would
/// make room for it.
#[test]
fn an_attribute_that_is_too_large_waits_for_no_commit() {
    let rig = Rig::new(Place::Internal, 1024, 16 << 20);
    let volume = rig.open(quiet(DataMode::Ordered));
    volume.write_file("/freed", &[1; 4096]).unwrap();
    volume.write_file("/file", b"").unwrap();
    volume.sync().unwrap();
    volume.remove_file("/freed").unwrap();
    let nr = volume.resolve("/file", true).unwrap();
    let before = format!("{:?}", volume.journal_stats());
    let result = volume.set_attribute(nr, b"user.x", &[7; 5000], SetMode::Any);
    assert!(
        matches!(result, Err(Error::AttributeTooLarge)),
        "{result:?}"
    );
    assert_eq!(format!("{:?}", volume.journal_stats()), before);
    volume.close().unwrap();
}

/// A directory that needs two blocks gets none if only one is left: the create fails, and the
/// volume continues to work.
#[test]
fn a_split_without_space_changes_nothing_and_stops_nothing() {
    let rig = Rig::new(Place::Internal, 1024, 8 << 20);
    let volume = rig.open(quiet(DataMode::Ordered));
    let parent = volume.create_directory("/d").unwrap();
    let name = |number: u32| format!("{number:0230}").into_bytes();
    // After "." and ".." and four names, a block of 1 KiB has no room for another name.
    for number in 0..4 {
        volume
            .create(parent, &name(number), &NewInode::default())
            .unwrap();
    }
    assert_eq!(volume.attributes(parent).unwrap().size, 1024);
    assert!(volume.write_file("/filler", &vec![1; 8 << 20]).is_err());
    let filler = volume.resolve("/filler", true).unwrap();
    volume.sync().unwrap();
    let size = volume.attributes(filler).unwrap().size;
    let mut refused = 0;
    for blocks in 0..3 {
        let cut = SetAttributes {
            size: Some(size - blocks * 1024),
            ..SetAttributes::default()
        };
        volume.set_attributes(filler, &cut).unwrap();
        volume.sync().unwrap();
        match volume.create(parent, &name(9), &NewInode::default()) {
            Ok(_) => break,
            Err(Error::NoSpace) => refused += 1,
            Err(error) => panic!("{blocks} blocks free: {error}"),
        }
        assert!(!volume.is_read_only(), "{blocks} blocks free");
        volume.sync().unwrap();
    }
    assert_eq!(refused, 2, "no block, one block, and then two are free");
    volume.close().unwrap();
    rig.assert_fsck_clean("at the end");
}
