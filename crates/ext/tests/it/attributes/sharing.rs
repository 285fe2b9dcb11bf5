//! Blocks that inodes with equal attributes share: their number, their reference counts, and the
//! end of the sharing.

use ext::options::DataMode;
use ext::volume::{NewInode, SetMode};
use ext::{Error, Volume};
use layout::InodeNr;

use crate::rig::{Place, Rig, quiet};

const BLOCK_BYTES: u32 = 1024;
const VOLUME_BYTES: u64 = 12 << 20;
/// Largest reference count of a block.
const USERS_MAX: usize = 1024;
/// A value too long for an inode.
const LONG: &[u8] = &[7; 300];

fn files(volume: &Volume, count: usize) -> Vec<InodeNr> {
    let new = NewInode::default();
    let make = |number| volume.create(InodeNr::ROOT, format!("f{number}").as_bytes(), &new);
    (0..count)
        .map(|number| make(number).expect("create"))
        .collect()
}

fn set(volume: &Volume, nr: InodeNr, value: &[u8]) {
    volume
        .set_attribute(nr, b"user.a", value, SetMode::Any)
        .expect("it fits");
}

fn free(volume: &Volume) -> u64 {
    volume.usage().blocks_free
}

fn rig() -> Rig {
    Rig::with_inodes(Place::Internal, BLOCK_BYTES, VOLUME_BYTES, Some(4096))
}

#[test]
fn equal_attributes_take_one_block_until_it_is_full() {
    let rig = rig();
    let volume = rig.open(quiet(DataMode::Ordered));
    let files = files(&volume, USERS_MAX + 2);
    let before = free(&volume);
    let (full, rest) = files.split_at(USERS_MAX);
    full.iter().for_each(|nr| set(&volume, *nr, LONG));
    assert_eq!(before - free(&volume), 1);
    rest.iter().for_each(|nr| set(&volume, *nr, LONG));
    assert_eq!(before - free(&volume), 2, "1025 users need a second block");
    volume
        .remove_attribute(full[0], b"user.a")
        .expect("it has one");
    set(&volume, full[0], LONG);
    assert_eq!(before - free(&volume), 2, "either has room");
    volume.close().expect("close");
    rig.assert_fsck_clean("with two blocks");
    // A volume that has just been opened knows a block after it has read it.
    let volume = rig.open(quiet(DataMode::Ordered));
    assert_eq!(
        volume
            .get_attribute(rest[0], b"user.a")
            .expect("it has one"),
        LONG
    );
    set(&volume, InodeNr::ROOT, LONG);
    assert_eq!(before - free(&volume), 2);
    for nr in files.iter().chain([&InodeNr::ROOT]) {
        volume.remove_attribute(*nr, b"user.a").expect("it has one");
    }
    assert_eq!(free(&volume), before);
    volume.close().expect("close");
    rig.assert_fsck_clean("without attributes");
}

#[test]
fn who_wants_other_attributes_takes_another_block() {
    let rig = rig();
    let volume = rig.open(quiet(DataMode::Ordered));
    let files = files(&volume, 3);
    let before = free(&volume);
    files.iter().for_each(|nr| set(&volume, *nr, LONG));
    let other = [9; 300];
    set(&volume, files[0], &other);
    assert_eq!(before - free(&volume), 2);
    for (nr, value) in files.iter().zip([&other, LONG, LONG]) {
        assert_eq!(volume.get_attribute(*nr, b"user.a").expect("set"), value);
    }
    set(&volume, files[0], LONG);
    assert_eq!(before - free(&volume), 1, "and comes back");
    for number in 0..3 {
        volume.remove_file(&format!("/f{number}")).expect("unlink");
    }
    assert_eq!(free(&volume), before, "the last one frees the block");
    volume.close().expect("close");
    rig.assert_fsck_clean("after the files are gone");
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let rig = rig();
    let volume = rig.open(quiet(DataMode::Ordered));
    let nr = files(&volume, 1)[0];
    set(&volume, nr, b"small");
    let error = |name: &[u8], value: &[u8], mode| {
        let result = volume.set_attribute(nr, name, value, mode);
        result.expect_err("it is refused")
    };
    let too_long = vec![1; BLOCK_BYTES as usize];
    assert!(matches!(
        error(b"user.a", &too_long, SetMode::Any),
        Error::AttributeTooLarge
    ));
    assert!(matches!(
        error(b"user.a", &[1; 70_000], SetMode::Any),
        Error::AttributeTooLarge
    ));
    assert!(matches!(
        error(b"user.a", b"", SetMode::Create),
        Error::Exists
    ));
    assert!(matches!(
        error(b"user.b", b"", SetMode::Replace),
        Error::NoAttribute
    ));
    assert!(matches!(
        error(b"user.", b"", SetMode::Any),
        Error::Invalid(_)
    ));
    assert!(matches!(
        error(b"other.a", b"", SetMode::Any),
        Error::Unsupported(_)
    ));
    assert!(matches!(
        error(&[b'u'; 256], b"", SetMode::Any),
        Error::AttributeName
    ));
    assert!(matches!(
        volume.get_attribute(nr, b"user.b"),
        Err(Error::NoAttribute)
    ));
    assert_eq!(
        volume.list_attributes(nr).expect("list"),
        [b"user.a".to_vec()]
    );
    assert_eq!(volume.get_attribute(nr, b"user.a").expect("set"), b"small");
    volume.close().expect("close");
    rig.assert_fsck_clean("after refusals");
}

#[test]
fn on_a_full_volume_the_block_is_missing_and_nothing_has_changed() {
    let rig = rig();
    let volume = rig.open(quiet(DataMode::Ordered));
    let nr = files(&volume, 1)[0];
    let filler = volume.write_file("/filler", &vec![1; VOLUME_BYTES as usize]);
    assert!(matches!(filler, Err(Error::NoSpace)));
    let result = volume.set_attribute(nr, b"user.a", LONG, SetMode::Any);
    assert!(matches!(result, Err(Error::NoSpace)), "{result:?}");
    assert_eq!(volume.list_attributes(nr).expect("list").len(), 0);
    volume.remove_file("/filler").expect("unlink");
    set(&volume, nr, LONG);
    volume.close().expect("close");
    rig.assert_fsck_clean("after the volume was full");
}
