//! Multiple mount protection: two volumes on one device in simulated worlds, and the kernel in the
//! real one.

mod lease;
mod shared;

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::mkfs::FeatureEdits;
use ext::multi_mount::{Status, status};
use ext::options::DataMode;
use ext::tune::{self, Changes, Word};
use ext::{Corrupt, Error, MountOptions, OtherUser, Volume};
use layout::feature::Incompatible;
use layout::multi_mount::{SEQUENCE_CHECKED, SEQUENCE_CLEAN};
use rt::Nanos;
use testkit::{Shutdown, privilege, tool};

use crate::damage::assert_notices;
use crate::image::{Image, look_at};
use crate::oracle;
use crate::rig::{Place, Rig, device, quiet};

const BLOCK_BYTES: u32 = 1024;
const MIB: u64 = 1 << 20;
/// Offsets in the block.
const SEQUENCE: usize = 4;
const NODE: usize = 0x10;
/// Seconds that a node waits for one that has renewed its number at least once, and for others.
const LONG_WAIT: u64 = 21;
const WAIT: u64 = 11;
const MMP: (Word, u32) = (Word::Incompatible, Incompatible::MMP.bits());

fn rig(place: Place, features: &str) -> Rig {
    let features = FeatureEdits::parse(features).expect("known features");
    Rig::with_features(place, BLOCK_BYTES, 16 * MIB, features)
}

fn try_open(rig: &Rig) -> Result<Volume, Error> {
    Volume::open(
        device(&rig.home),
        rig.log_device(),
        quiet(DataMode::Ordered),
    )
}

fn open(rig: &Rig) -> Volume {
    try_open(rig).expect("the volume opens")
}

fn state(memory: &Arc<MemoryDevice>) -> Status {
    let found = status(&device(memory)).expect("the block is sound");
    found.expect("the volume is protected")
}

/// Changes bytes of the block, as another node does.
fn poke(memory: &Arc<MemoryDevice>, at: usize, bytes: &[u8]) {
    let home = device(memory);
    let raw = home.read_block(1024, 1024).expect("memory");
    let block = raw[0x168..0x170].try_into().expect("8 bytes");
    let offset = u64::from_le_bytes(block) * u64::from(BLOCK_BYTES);
    let mut block = home.read_block(offset, BLOCK_BYTES).expect("memory");
    Arc::make_mut(&mut block)[at..at + bytes.len()].copy_from_slice(bytes);
    home.write_blocks(offset, vec![block]).expect("memory");
}

fn in_world(work: impl FnOnce() + 'static) {
    sim::run(sim::Config::fair(1), work).unwrap_or_else(|error| panic!("{error}"));
}

fn seconds() -> u64 {
    rt::monotonic().as_secs()
}

fn in_use(result: Result<Volume, Error>) -> OtherUser {
    match result {
        Err(Error::InUse(user)) => user,
        other => panic!("the volume is in use: {other:?}"),
    }
}

#[test]
fn a_released_volume_opens_at_once() {
    in_world(|| {
        for place in [Place::None, Place::Internal, Place::External] {
            let rig = rig(place, "mmp");
            let start = seconds();
            let volume = open(&rig);
            assert!(!state(&rig.home).is_clean());
            volume.create_directory("/d").expect("mkdir");
            volume.close().expect("close");
            assert!(state(&rig.home).is_clean());
            assert_eq!(seconds(), start);
            rig.assert_fsck_clean("released");
        }
    });
}

fn the_second_is_refused() {
    let rig = rig(Place::Internal, "mmp");
    let volume = open(&rig);
    let start = seconds();
    let user = in_use(try_open(&rig));
    assert_eq!(user.node, "simulated");
    assert_eq!(seconds() - start, WAIT);
    assert!(volume.create_directory("/d").is_ok(), "the first goes on");
    let number = state(&rig.home).sequence;
    rt::sleep(Nanos::from_secs(60));
    assert_ne!(state(&rig.home).sequence, number);
    let start = seconds();
    in_use(try_open(&rig));
    assert_eq!(seconds() - start, LONG_WAIT);
    volume.close().expect("close");
    open(&rig).close().expect("close");
    rig.assert_fsck_clean("released");
}

#[test]
fn a_volume_in_use_is_refused() {
    for mutant in [
        "multi-mount/taken-at-once",
        "multi-mount/number-not-renewed",
    ] {
        assert_notices(mutant, the_second_is_refused);
    }
}

/// Two nodes that start at once after a third was cut off: one of them gets the volume.
#[test]
fn one_of_two_that_wait_gets_the_volume() {
    for seed in 0..34 {
        let work = move || {
            let rig = rig(Place::Internal, "mmp");
            drop(open(&rig));
            rt::sleep(Nanos::from_secs(1));
            let home = Arc::clone(&rig.home);
            let other = rt::spawn("other", move || {
                rt::sleep(Nanos::from_millis(seed * 500));
                Volume::open(device(&home), None, quiet(DataMode::Ordered))
            });
            let results = [try_open(&rig), other.join().expect("no panic")];
            let opened = results.iter().filter(|result| result.is_ok()).count();
            assert_eq!(opened, 1, "{results:?}");
            for result in results {
                match result {
                    Ok(volume) => volume.close().expect("close"),
                    refused => drop(in_use(refused)),
                }
            }
        };
        sim::run(sim::Config::random(seed), work).unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}

#[test]
fn a_volume_that_was_cut_off_is_waited_for() {
    in_world(|| {
        let rig = rig(Place::Internal, "mmp");
        let volume = open(&rig);
        volume.create_directory("/d").expect("mkdir");
        volume.sync().expect("sync");
        drop(volume);
        rt::sleep(Nanos::from_secs(1));
        let start = seconds();
        let volume = open(&rig);
        assert_eq!(seconds() - start, 2 * WAIT);
        volume.resolve("/d", false).expect("it was durable");
        volume.close().expect("close");
        rig.assert_fsck_clean("released");
    });
}

/// A renewal or a release whose second sector did not reach the disk: the volume may be in use.
fn the_power_fails_during_a_write() {
    for sequence in [[1, 2, 3, 4], SEQUENCE_CLEAN.to_le_bytes()] {
        let rig = rig(Place::Internal, "mmp,metadata_csum");
        drop(open(&rig));
        poke(&rig.home, SEQUENCE, &sequence);
        let start = seconds();
        open(&rig).close().expect("close");
        assert_eq!(seconds() - start, 2 * WAIT);
        assert!(state(&rig.home).is_clean());
        rig.assert_fsck_clean("released");
    }
}

#[test]
fn a_torn_write_is_no_damage() {
    assert_notices(
        "multi-mount/torn-taken-as-released",
        the_power_fails_during_a_write,
    );
}

fn a_node_stops_when_another_has_taken_the_volume() {
    for place in [Place::None, Place::Internal, Place::External] {
        let rig = rig(place, "mmp");
        let volume = open(&rig);
        volume.create_directory("/d").expect("mkdir");
        volume.sync().expect("sync");
        let file = volume
            .create_file("/f", &Default::default())
            .expect("create");
        file.write_at(0, &[7; 5000]).expect("write");
        poke(&rig.home, SEQUENCE, &[1, 2, 3, 4]);
        poke(&rig.home, NODE, b"thief\0");
        let log = rig.log.as_ref().map(|log| log.snapshot());
        let before = rig.home.snapshot();
        rt::sleep(Nanos::from_secs(6));
        assert!(volume.is_read_only());
        let made = volume.create_directory("/e");
        assert!(matches!(made, Err(Error::ReadOnly)), "{made:?}");
        drop(volume.sync());
        drop(file.close());
        let closed = volume.close().expect_err("its data is lost").to_string();
        assert!(!closed.is_empty());
        assert_eq!(rig.home.first_difference(&before), None, "{place:?}");
        if let (Some(memory), Some(before)) = (&rig.log, &log) {
            assert_eq!(memory.first_difference(before), None, "{place:?}");
        }
    }
}

#[test]
fn nothing_is_written_after_another_node_has_taken_the_volume() {
    assert_notices(
        "multi-mount/not-rechecked",
        a_node_stops_when_another_has_taken_the_volume,
    );
}

/// The volume was taken between the last renewal and the close: it is not released.
#[test]
fn a_close_does_not_release_what_another_has_taken() {
    in_world(|| {
        let rig = rig(Place::Internal, "mmp");
        let volume = open(&rig);
        poke(&rig.home, SEQUENCE, &[1, 2, 3, 4]);
        let closed = volume.close().expect_err("it is taken");
        assert!(matches!(closed, Error::InUse(_)), "{closed}");
        assert_eq!(state(&rig.home).sequence, 0x0403_0201);
    });
}

fn a_checker_is_not_waited_for() {
    let rig = rig(Place::Internal, "mmp");
    poke(&rig.home, SEQUENCE, &SEQUENCE_CHECKED.to_le_bytes());
    let start = seconds();
    let user = in_use(try_open(&rig));
    assert!(user.is_checking);
    assert!(user.to_string().contains("clear_multi_mount"), "{user}");
    let changes = Changes {
        label: Some("new".to_owned()),
        ..Changes::default()
    };
    let tuned = tune::apply(&device(&rig.home), None, &changes);
    assert!(matches!(tuned, Err(Error::InUse(_))), "{tuned:?}");
    assert_eq!(seconds(), start);
    tune::clear_multi_mount(&device(&rig.home)).expect("it is cleared");
    open(&rig).close().expect("close");
}

#[test]
fn a_volume_that_is_checked_is_refused_at_once() {
    assert_notices("multi-mount/checker-ignored", a_checker_is_not_waited_for);
}

#[test]
fn a_read_only_open_neither_waits_nor_writes() {
    in_world(|| {
        let rig = rig(Place::Internal, "mmp");
        let volume = open(&rig);
        let options = MountOptions {
            read_only: true,
            no_recovery: true,
            ..quiet(DataMode::Ordered)
        };
        let before = rig.home.snapshot();
        let start = seconds();
        let reader = Volume::open(device(&rig.home), None, options.clone()).expect("it opens");
        reader.close().expect("close");
        assert_eq!(rig.home.first_difference(&before), None);
        let replaying = MountOptions {
            no_recovery: false,
            ..options
        };
        assert_eq!(seconds(), start);
        in_use(Volume::open(device(&rig.home), None, replaying.clone()));
        drop(volume);
        rt::sleep(Nanos::from_secs(1));
        // The replay writes, and so has to wait.
        let start = seconds();
        let reader = Volume::open(device(&rig.home), None, replaying).expect("it opens");
        assert!(seconds() - start >= 2 * WAIT);
        assert!(state(&rig.home).is_clean());
        reader.close().expect("close");
    });
}

#[test]
fn damage_of_the_block_is_named() {
    in_world(|| {
        let rig = rig(Place::Internal, "mmp");
        poke(&rig.home, 0, &[0]);
        let error = try_open(&rig).expect_err("the magic is wrong");
        let block = match &error {
            Error::Corrupt(Corrupt::MultiMount { block, .. }) => *block,
            error => panic!("{error}"),
        };
        assert!(error.to_string().contains(&block.to_string()), "{error}");
        // It may be a block of a file.
        let before = rig.home.snapshot();
        let error = tune::clear_multi_mount(&device(&rig.home)).expect_err("it is refused");
        assert!(error.to_string().contains("e2fsck"), "{error}");
        assert_eq!(rig.home.first_difference(&before), None);
    });
}

#[test]
fn tuning_makes_and_frees_the_block() {
    in_world(|| {
        for features in ["", "metadata_csum", "uninit_bg"] {
            let rig = rig(Place::Internal, features);
            let home = device(&rig.home);
            let free = || {
                let volume = open(&rig);
                let free = volume.usage().blocks_free;
                volume.close().expect("close");
                free
            };
            let before = free();
            let make = Changes {
                features: vec![MMP],
                mmp_update_seconds: Some(7),
                ..Changes::default()
            };
            tune::apply(&home, None, &make).expect("it is made");
            assert_eq!(state(&rig.home).sequence, SEQUENCE_CLEAN);
            assert_eq!(state(&rig.home).update_seconds, 7);
            rig.assert_fsck_clean("released");
            let volume = open(&rig);
            assert_eq!(volume.usage().blocks_free, before - 1);
            volume.close().expect("close");
            let remove = Changes {
                features_removed: vec![MMP],
                ..Changes::default()
            };
            tune::apply(&home, None, &remove).expect("it is removed");
            assert_eq!(status(&home).expect("the superblock is sound"), None);
            rig.assert_fsck_clean("released");
            assert_eq!(free(), before);
            let renew = Changes {
                mmp_update_seconds: Some(7),
                ..Changes::default()
            };
            let error = tune::apply(&home, None, &renew).expect_err("there is none");
            assert!(error.to_string().contains("mmp"), "{error}");
        }
    });
}

/// Returns the contents of the block at each write of the primary superblock.
fn tune_step_by_step(rig: &Rig, changes: &Changes) -> Vec<(bool, u32)> {
    let watched = Arc::new(shared::Watched::new(&rig.home));
    let device: Arc<dyn BlockDevice> = Arc::<shared::Watched>::clone(&watched);
    tune::apply(&device, None, changes).expect("it is changed");
    watched.seen()
}

#[test]
fn the_protection_covers_all_other_changes() {
    in_world(|| {
        let rig = rig(Place::Internal, "");
        let make = Changes {
            features: vec![MMP],
            label: Some("one".to_owned()),
            ..Changes::default()
        };
        let labelled = tune_step_by_step(&rig, &make);
        let is_held =
            |(is_labelled, sequence): &(bool, u32)| !is_labelled || *sequence == SEQUENCE_CHECKED;
        assert!(labelled.iter().any(|(is_labelled, _)| *is_labelled));
        assert!(labelled.iter().all(is_held), "{labelled:x?}");
        let remove = Changes {
            features_removed: vec![MMP],
            label: Some("two".to_owned()),
            ..Changes::default()
        };
        let removed = tune_step_by_step(&rig, &remove);
        let first = removed.first().expect("the superblock is written");
        assert_eq!(*first, (true, SEQUENCE_CHECKED));
        assert_eq!(status(&device(&rig.home)).expect("it is sound"), None);
        rig.assert_fsck_clean("tuned");
    });
}

fn kernel_image(options: &str) -> Option<Image> {
    privilege::is_granted().then(|| {
        let more = ["-O", "mmp", "-O", options];
        Image::with_arguments("ext4", BLOCK_BYTES, 16 * MIB, false, &more)
    })
}

#[test]
fn the_kernel_refuses_a_volume_that_is_open_here() {
    let Some(image) = kernel_image("metadata_csum") else {
        return;
    };
    let volume = Volume::open(look_at(&image.path), None, MountOptions::default()).unwrap();
    let why = image.mount("rw").expect_err("the volume is in use");
    assert!(why.contains("busy"), "{why}");
    volume.create_directory("/d").unwrap();
    volume.close().unwrap();
    let start = seconds();
    let mount = image.mount("rw").unwrap();
    assert!(seconds() - start < 5, "it was released");
    assert!(mount.at("d").is_dir());
    drop(mount);
    oracle::assert_fsck_clean(&image, "after both");
}

#[test]
fn a_volume_that_the_kernel_has_mounted_is_refused_here() {
    let Some(image) = kernel_image("^metadata_csum") else {
        return;
    };
    // A device that is attached already does not open.
    let device = look_at(&image.path);
    let mount = image.mount("rw").unwrap();
    let user = in_use(Volume::open(device, None, MountOptions::default()));
    assert_eq!(user.node, rt::node_name());
    assert!(user.device.starts_with("loop"), "{user}");
    std::fs::create_dir(mount.at("d")).unwrap();
    drop(mount);
    let start = seconds();
    let volume = Volume::open(look_at(&image.path), None, MountOptions::default()).unwrap();
    assert!(seconds() - start < 5, "it was released");
    volume.resolve("/d", false).unwrap();
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after both");
}

/// Each takes a volume that the other has left without releasing it.
#[test]
fn the_kernel_and_the_engine_take_what_the_other_has_left() {
    let Some(image) = kernel_image("metadata_csum") else {
        return;
    };
    let volume = Volume::open(look_at(&image.path), None, MountOptions::default()).unwrap();
    volume.create_directory("/d").unwrap();
    volume.sync().unwrap();
    drop(volume);
    let mount = image.mount("rw").unwrap();
    assert!(mount.at("d").is_dir());
    std::fs::create_dir(mount.at("e")).unwrap();
    mount.sync();
    mount.shut_down(Shutdown::FlushesLog);
    let copy = image.copy();
    drop(mount);
    let volume = Volume::open(look_at(&copy.path), None, MountOptions::default()).unwrap();
    volume.resolve("/e", false).unwrap();
    volume.close().unwrap();
    oracle::assert_fsck_clean(&copy, "after both");
}

#[test]
fn programs_of_others_read_what_is_made_here() {
    let rig = rig(Place::Internal, "mmp,metadata_csum");
    let image = Image::empty("ext3", BLOCK_BYTES, 16 * MIB, false);
    rig.home.write_to_file(&image.path).unwrap();
    let path = image.path.to_str().unwrap();
    let said = tool::run_well("debugfs", &["-R", "dump_mmp", path]);
    assert!(said.contains("magic: 0x4d4d50"), "{said}");
    assert!(said.contains("sequence: ff4d4d50"), "{said}");
    oracle::assert_fsck_clean(&image, "as made");
    tool::run_well("tune2fs", &["-O", "^mmp", path]);
    oracle::assert_fsck_clean(&image, "without");
}
