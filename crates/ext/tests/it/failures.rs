//! Devices that fail on demand: the callers that get the error, the operations that continue to
//! work, and the contents of the image afterwards. `faults.rs` fails every request of a script
//! once.

use std::sync::Arc;

use block::DeviceError;
use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use layout::superblock::State;

use crate::rig::{Place, Rig, device, quiet};

mod no_room;
mod transient;

/// A volume whose writes fail on demand.
struct OnDemand {
    rig: Rig,
    device: Arc<FaultDevice>,
    volume: Volume,
}

impl OnDemand {
    fn new(place: Place, operations: Operations, when: When, options: MountOptions) -> Self {
        let rig = Rig::new(place, 4096, 16 << 20);
        let rule = FaultRule {
            operations,
            when,
            effect: Effect::Fail,
        };
        let plan = FaultPlan {
            seed: 1,
            rules: vec![rule],
            bad_sectors: Vec::new(),
        };
        let faulty = Arc::new(FaultDevice::new(device(&rig.home), plan));
        faulty.set_armed(false);
        let home = Arc::<FaultDevice>::clone(&faulty);
        let volume = Volume::open(home, rig.log_device(), options).expect("the volume opens");
        Self {
            rig,
            device: faulty,
            volume,
        }
    }

    fn open(&self, path: &str) -> ext::volume::FileId {
        let nr = self.volume.resolve(path, true).expect("it is there");
        self.volume
            .open_inode(nr, OpenFlags::READ_WRITE)
            .expect("open")
    }

    fn fill(&self, path: &str, byte: u8) -> ext::volume::FileId {
        self.volume
            .write_file(path, &[byte; 10_000])
            .expect("write");
        self.volume.sync().expect("sync");
        self.open(path)
    }
}

fn is_data_lost(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::DataLost { .. }))
}

/// E1, E0: every open file reports a failed write once, others not at all; the page stays dirty, so
/// that a later successful fsync has written it.
#[test]
fn a_failed_data_write_is_told_once_to_every_open_file() {
    for data in [DataMode::Ordered, DataMode::Writeback] {
        let case = OnDemand::new(
            Place::External,
            Operations::WRITES,
            When::Nth(1),
            quiet(data),
        );
        let (one, other) = (case.fill("/f", 1), case.open("/f"));
        let unrelated = case.fill("/g", 1);
        case.volume.write(one, 0, &[2; 10_000]).expect("write");
        case.device.set_armed(true);
        assert!(
            is_data_lost(&case.volume.sync_file(one, true)),
            "the first learns"
        );
        assert_eq!(case.device.strikes(), 1);
        let bytes = case.volume.read_file("/f").expect("reads work");
        assert!(bytes == [2; 10_000], "the page has the new contents");
        case.volume
            .sync_file(unrelated, false)
            .expect("the other file is not affected");
        let late = case.open("/f");
        case.volume
            .sync_file(late, true)
            .expect("who came later learns nothing, and the data is written now");
        assert!(
            is_data_lost(&case.volume.sync_file(other, true)),
            "the second learns"
        );
        for file in [one, other, late] {
            case.volume
                .sync_file(file, true)
                .expect("nobody learns twice");
        }
        // A power cut now: acknowledged data is there.
        let rig = case.rig.copy();
        assert!(rig.open(quiet(data)).read_file("/f").expect("read") == [2; 10_000]);
        case.volume.close().expect("close");
        case.rig.assert_fsck_clean("after a failed write");
    }
}

/// An O_SYNC writer gets the error at once.
#[test]
fn a_failed_synchronous_write_fails() {
    let case = OnDemand::new(
        Place::External,
        Operations::WRITES,
        When::Nth(1),
        quiet(DataMode::Ordered),
    );
    let file = case.fill("/f", 1);
    case.volume.release(file).expect("close");
    let nr = case.volume.resolve("/f", true).expect("it is there");
    let flags = OpenFlags {
        data_sync: true,
        ..OpenFlags::READ_WRITE
    };
    let file = case.volume.open_inode(nr, flags).expect("open");
    case.device.set_armed(true);
    assert!(case.volume.write(file, 0, &[2; 4096]).is_err());
    assert!(!case.volume.is_read_only());
    case.volume
        .close()
        .expect_err("the file was open and had not been told by a sync");
}

/// `data_err=abort`: ordered data that cannot be written stops the journal; by default it does not.
#[test]
fn data_errors_abort_if_asked() {
    for abort_on_data_error in [false, true] {
        let options = MountOptions {
            abort_on_data_error,
            ..quiet(DataMode::Ordered)
        };
        let case = OnDemand::new(Place::External, Operations::WRITES, When::From(1), options);
        case.volume.write_file("/f", &[1; 5000]).expect("write");
        let nr = case
            .volume
            .create(InodeNr::ROOT, b"g", &NewInode::default())
            .expect("create");
        case.device.set_armed(true);
        let file = case
            .volume
            .open_inode(nr, OpenFlags::READ_WRITE)
            .expect("open");
        let synced = case.volume.sync_file(file, false);
        assert_eq!(synced.is_err(), abort_on_data_error, "{synced:?}");
        assert_eq!(case.volume.is_read_only(), abort_on_data_error);
        assert!(case.volume.sync().is_err(), "the data is still not written");
    }
}

/// E2, E4: a failed write of the log, or a failed flush, stops everything but reads, permanently.
#[test]
fn an_aborted_journal_stays_aborted() {
    for operations in [Operations::WRITES, Operations::FLUSHES] {
        let case = OnDemand::new(
            Place::Internal,
            operations,
            When::Nth(1),
            quiet(DataMode::Ordered),
        );
        let file = case.fill("/f", 1);
        case.volume
            .create(InodeNr::ROOT, b"g", &NewInode::default())
            .expect("create");
        case.device.set_armed(true);
        assert!(case.volume.sync().is_err());
        assert!(case.volume.is_read_only());
        for _ in 0..3 {
            let refused = case
                .volume
                .create(InodeNr::ROOT, b"h", &NewInode::default());
            assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
            assert!(case.volume.sync().is_err(), "sync never says yes again");
            assert!(
                case.volume.sync_file(file, false).is_err(),
                "nor does fsync"
            );
            assert!(
                case.volume.sync_file(file, true).is_err(),
                "nor does fdatasync"
            );
        }
        assert!(case.volume.read_file("/f").expect("reads work") == [1; 10_000]);
        assert!(case.volume.close().is_err());
        let volume = case.rig.open(quiet(DataMode::Ordered));
        assert!(volume.read_file("/f").expect("read") == [1; 10_000]);
        volume.close().expect("close");
        case.rig.assert_fsck_clean("after an abort");
        // The journal's error stays an error of the volume until a check.
        let volume = case.rig.open(quiet(DataMode::Ordered));
        let state = volume.superblock().raw.state();
        assert!(state.contains(State::ERROR), "{state:?}");
        volume.close().expect("close");
    }
}

/// E3: the tail never passes a transaction whose blocks could not be checkpointed.
#[test]
fn a_failed_checkpoint_keeps_the_log() {
    let case = OnDemand::new(
        Place::External,
        Operations::WRITES,
        When::From(1),
        quiet(DataMode::Journal),
    );
    for number in 0..20 {
        case.volume
            .write_file(&format!("/f{number}"), &[number; 9000])
            .expect("write");
    }
    case.volume.sync().expect("the log is another device");
    case.device.set_armed(true);
    assert!(case.volume.close().is_err(), "nothing can be written home");
    let volume = case.rig.open(quiet(DataMode::Journal));
    for number in 0..20 {
        let bytes = volume.read_file(&format!("/f{number}")).expect("read");
        assert!(bytes == [number; 9000], "file {number} comes from the log");
    }
    volume.close().expect("close");
    case.rig.assert_fsck_clean("after a failed checkpoint");
}

/// E5: unreadable metadata or data fails the operation that needs it and nothing else.
#[test]
fn bad_sectors_fail_what_needs_them() {
    let rig = Rig::new(Place::Internal, 4096, 16 << 20);
    let volume = rig.open(quiet(DataMode::Ordered));
    volume.create_directory("/bad").expect("mkdir");
    volume.write_file("/bad/f", &[1; 100]).expect("write");
    volume.write_file("/good", &[2; 9000]).expect("write");
    volume.write_file("/half", &[3; 12_288]).expect("write");
    let first_block = |path: &str| {
        let nr = volume.resolve(path, true).expect("it is there");
        volume.blocks_of(nr).expect("blocks")[0].first.get()
    };
    let (directory, half) = (first_block("/bad"), first_block("/half"));
    volume.close().expect("close");
    let sectors =
        |block: u64| layout::SectorNr::new(block * 8)..layout::SectorNr::new(block * 8 + 8);
    let plan = FaultPlan {
        seed: 1,
        rules: Vec::new(),
        bad_sectors: vec![sectors(directory), sectors(half)],
    };
    let faulty = Arc::new(FaultDevice::new(device(&rig.home), plan));
    let volume = Volume::open(faulty, None, quiet(DataMode::Ordered)).expect("the volume opens");
    let is_device = |error: Error| matches!(error, Error::Device(DeviceError::Failed { .. }));
    assert!(volume.list("/bad").is_err_and(is_device));
    assert!(volume.create_directory("/bad/new").is_err_and(is_device));
    assert!(
        volume
            .rename_path("/good", "/bad/good")
            .is_err_and(is_device)
    );
    assert!(volume.remove_directory_at("/bad").is_err_and(is_device));
    assert!(volume.read_file("/good").expect("read") == [2; 9000]);
    let file = volume
        .open_file("/half", OpenFlags::READ_WRITE)
        .expect("open");
    let mut bytes = [0; 4096];
    assert!(file.read_at(0, &mut bytes).is_err_and(is_device));
    assert_eq!(file.read_at(4096, &mut bytes).expect("read"), 4096);
    assert!(bytes == [3; 4096]);
    file.write_at(0, &[4; 4096])
        .expect("a whole block needs no old contents");
    file.sync_all().expect("a write makes the sectors good");
    file.close().expect("close");
    assert!(!volume.is_read_only());
    volume
        .write_file("/new", &[5; 100])
        .expect("the rest works");
    volume.close().expect("close");
    rig.assert_fsck_clean("after reads failed");
}

/// The part of a write before an error stays written and is counted; a call that fails at its first
/// block changes nothing.
#[test]
fn a_write_that_fails_on_its_way_is_short() {
    const BLOCK: usize = 4096;
    const LAST: usize = 99;
    let rig = Rig::new(Place::Internal, BLOCK as u32, 16 << 20);
    let volume = rig.open(quiet(DataMode::Ordered));
    volume
        .write_file("/f", &[1; (LAST + 1) * BLOCK])
        .expect("write");
    let nr = volume.resolve("/f", true).expect("it is there");
    let blocks = volume.blocks_of(nr).expect("blocks");
    let bad = blocks.into_iter().find_map(|extent| {
        let index = LAST.checked_sub(extent.file_block?.get() as usize)?;
        extent.blocks().nth(index)
    });
    let bad = bad.expect("the file has all its blocks");
    volume.close().expect("close");
    let plan = FaultPlan {
        seed: 1,
        rules: Vec::new(),
        bad_sectors: vec![layout::SectorNr::new(bad * 8)..layout::SectorNr::new(bad * 8 + 8)],
    };
    let faulty = Arc::new(FaultDevice::new(device(&rig.home), plan));
    let volume = Volume::open(faulty, None, quiet(DataMode::Ordered)).expect("the volume opens");
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
    // The last block is written in part, so that its old contents are needed.
    let bytes = vec![2; LAST * BLOCK + 100];
    let done = volume.write(file, 0, &bytes).expect("its beginning");
    assert!(
        (1..LAST * BLOCK).contains(&done) && done.is_multiple_of(BLOCK),
        "{done}"
    );
    let before = volume.attributes(nr).expect("attributes");
    let failed = volume.write(file, done as u64, &bytes[done..]);
    assert!(matches!(
        failed,
        Err(Error::Device(DeviceError::Failed { .. }))
    ));
    assert_eq!(volume.attributes(nr).expect("attributes"), before);
    let mut found = vec![0; LAST * BLOCK];
    assert_eq!(volume.read(file, 0, &mut found).expect("read"), found.len());
    assert!(found[..done].iter().all(|byte| *byte == 2));
    assert!(found[done..].iter().all(|byte| *byte == 1));
    volume.release(file).expect("release");
    volume.close().expect("close");
    rig.assert_fsck_clean("after a write that was short");
}

/// E6: a log that cannot be read is not replayed in part, and the volume opens again after the log
/// is readable.
#[test]
fn recovery_that_cannot_read_changes_nothing() {
    let rig = Rig::new(Place::External, 4096, 16 << 20);
    let volume = rig.open(quiet(DataMode::Ordered));
    for number in 0..5 {
        volume
            .write_file(&format!("/f{number}"), &[number; 5000])
            .expect("write");
        volume.sync().expect("sync");
    }
    drop(volume);
    let before = rig.copy();
    let log = rig.log_device().expect("there is one");
    for sector in (0..200).map(|block| block * 8) {
        let bad = layout::SectorNr::new(sector)..layout::SectorNr::new(sector + 1);
        let plan = FaultPlan {
            seed: 1,
            rules: Vec::new(),
            bad_sectors: vec![bad],
        };
        let faulty = Arc::new(FaultDevice::new(Arc::clone(&log), plan));
        let failing = Arc::<FaultDevice>::clone(&faulty);
        if let Err(error) = Volume::open(device(&rig.home), Some(failing), quiet(DataMode::Ordered))
        {
            assert!(faulty.strikes() > 0, "{error}");
            assert_eq!(
                rig.home.first_difference(&before.home),
                None,
                "nothing was written"
            );
        } else {
            rig.home.restore(&before.home);
            let memory = rig.log.as_ref().expect("there is one");
            memory.restore(before.log.as_ref().expect("there is one"));
        }
    }
    let volume = rig.open(quiet(DataMode::Ordered));
    for number in 0..5 {
        assert!(volume.read_file(&format!("/f{number}")).expect("read") == [number; 5000]);
    }
    volume.close().expect("close");
    rig.assert_fsck_clean("after recovery");
}

/// The device disappears in the middle: nothing hangs, and acknowledged data is on it.
#[test]
fn a_device_that_goes_away() {
    let case = OnDemand::new(
        Place::Internal,
        Operations::NONE,
        When::Always,
        quiet(DataMode::Ordered),
    );
    let file = case.fill("/f", 1);
    case.volume.write(file, 0, &[2; 10]).expect("write");
    case.device.remove();
    assert!(case.volume.sync_file(file, false).is_err());
    assert!(case.volume.sync().is_err());
    assert!(case.volume.close().is_err());
    let volume = case.rig.open(quiet(DataMode::Ordered));
    assert_eq!(volume.read_file("/f").expect("read").len(), 10_000);
    volume.close().expect("close");
}
