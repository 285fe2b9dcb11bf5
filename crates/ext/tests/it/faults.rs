//! Devices that fail: every read, write and flush of a scripted run fails once, for a moment or for good, on the device
//! of the file system and on that of the journal.
//!
//! Whatever happens: no panic, no hang (the runs are simulated worlds, which report both), no sync call that says yes and
//! is not true, nothing but errors once the journal has aborted, reads that still work, and an image that recovers to a
//! state that there was, no older than the last sync call that said yes, clean to `e2fsck`.

use std::sync::Arc;

use block::fault::{Effect, FaultDevice, FaultPlan, FaultRule, Operations, When};
use block::{BlockDevice, DeviceError};
use ext::options::DataMode;
use ext::volume::{NewInode, OpenFlags};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use layout::superblock::State;

use crate::history::{Bound, History, Op, Rule, SCRIPT, read_tree};
use crate::rig::{Place, Rig, device, quiet};

const VOLUME_BYTES: u64 = 8 << 20;
/// One failed run in so many is checked by `e2fsck`, too.
const FSCK_ONE_IN: u64 = 25;

/// Which requests fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    on_log: bool,
    operations: Operations,
    when: When,
    effect: Effect,
}

fn plan(fault: Option<Fault>, on_log: bool) -> FaultPlan {
    let counting = |operations| FaultRule {
        operations,
        when: When::Nth(0),
        effect: Effect::Fail,
    };
    let mut rules = vec![
        counting(Operations::READS),
        counting(Operations::WRITES),
        counting(Operations::FLUSHES),
    ];
    if let Some(fault) = fault
        && fault.on_log == on_log
    {
        rules.push(FaultRule {
            operations: fault.operations,
            when: fault.when,
            effect: fault.effect,
        });
    }
    FaultPlan {
        seed: 5,
        rules,
        bad_sectors: Vec::new(),
    }
}

/// The media of a run, each behind a device that fails as planned.
struct Failing {
    home: Arc<FaultDevice>,
    log: Option<Arc<FaultDevice>>,
}

impl Failing {
    fn new(rig: &Rig, fault: Option<Fault>) -> Self {
        let behind =
            |memory, on_log| Arc::new(FaultDevice::new(device(memory), plan(fault, on_log)));
        Self {
            home: behind(&rig.home, false),
            log: rig.log.as_ref().map(|log| behind(log, true)),
        }
    }

    fn open(&self, options: MountOptions) -> Result<Volume, Error> {
        let home = Arc::<FaultDevice>::clone(&self.home);
        let log = self
            .log
            .as_ref()
            .map(|log| Arc::<FaultDevice>::clone(log) as Arc<dyn BlockDevice>);
        Volume::open(home, log, options)
    }

    /// How many reads, writes and flushes each device has seen.
    fn seen(&self) -> [[u64; 3]; 2] {
        let of = |device: &FaultDevice| [device.seen(0), device.seen(1), device.seen(2)];
        [
            of(&self.home),
            self.log.as_ref().map(|log| of(log)).unwrap_or_default(),
        ]
    }
}

/// What a run came to.
struct Outcome {
    bound: Bound,
    /// No state after this one can be there.
    most: usize,
    seen: [[u64; 3]; 2],
}

fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::ReadOnly | Error::Journal(_) | Error::Device(_) | Error::DataLost { .. }
    )
}

/// Runs the script. An operation that fails may be tried once more; when that fails, too, nothing after it can be expected
/// to work, and only what must not be said is checked.
fn run_script(volume: &Volume, history: &History) -> (Bound, usize) {
    let mut bound = Bound::default();
    for (number, op) in history.ops.iter().enumerate() {
        let was_read_only = volume.is_read_only();
        let mut result = op.run(volume, number);
        if was_read_only {
            let error = result
                .as_ref()
                .expect_err("nothing is done on a volume that has failed");
            assert!(is_refusal(error), "{op:?} on a failed volume: {error}");
        }
        if result.is_err() && !volume.is_read_only() {
            result = op.run(volume, number);
            if matches!(result, Err(Error::Exists | Error::NotFound)) {
                // It was done after all, but not to its end: deleting the inode failed, say.
                result = Ok(());
            }
        }
        match result {
            Ok(()) => history.bind(&mut bound, number),
            Err(error) => {
                assert!(is_refusal(&error), "{op:?} fails with {error}");
                check_after_failure(volume, history, number);
                return (bound, number + 1);
            }
        }
    }
    (bound, history.ops.len())
}

/// After a failure for good, reads do no harm, and what has aborted stays so.
fn check_after_failure(volume: &Volume, history: &History, number: usize) {
    drop(read_tree(volume));
    if !volume.is_read_only() {
        drop(volume.sync());
        return;
    }
    for (later, op) in history.ops.iter().enumerate().skip(number + 1) {
        assert!(
            op.run(volume, later).is_err(),
            "{op:?} works on a volume that has failed"
        );
    }
}

fn run(rig: &Rig, history: &History, fault: Option<Fault>, options: &MountOptions) -> Outcome {
    let failing = Failing::new(rig, fault);
    let (bound, most) = match failing.open(options.clone()) {
        Ok(volume) => {
            let (mut bound, most) = run_script(&volume, history);
            if volume.close().is_ok() && most == history.ops.len() {
                history.bind_all(&mut bound, history.ops.len());
            }
            (bound, most)
        }
        Err(error) => {
            assert!(is_refusal(&error), "opening fails with {error}");
            (Bound::default(), 0)
        }
    };
    Outcome {
        bound,
        most,
        seen: failing.seen(),
    }
}

/// Opens the image without failures and compares it with the states that may be there.
fn check_image(rig: &Rig, history: &History, outcome: &Outcome, rule: Rule, when: &str) {
    let volume = rig.open(quiet(DataMode::Ordered));
    let found = read_tree(&volume).unwrap_or_else(|error| panic!("{when}: {error}"));
    if let Err(why) = history.check(&found, &outcome.bound, outcome.most, rule) {
        panic!("{when}: bound {:?}: {why}", outcome.bound);
    }
    volume
        .write_file("/afterwards", &[1; 5000])
        .expect("the recovered volume works");
    volume
        .remove_file("/afterwards")
        .expect("the recovered volume works");
    volume.close().expect("close");
}

fn fail_once(
    made: &Rig,
    history: &Arc<History>,
    fault: Option<Fault>,
    data: DataMode,
) -> [[u64; 3]; 2] {
    let rig = made.copy();
    let inside = Rig {
        home: Arc::clone(&rig.home),
        log: rig.log.clone(),
        block_bytes: rig.block_bytes,
    };
    let history = Arc::clone(history);
    let when = format!("{data:?}, {fault:?}");
    let what = when.clone();
    let world = sim::run(sim::Config::fair(1), move || {
        let outcome = run(&inside, &history, fault, &quiet(data));
        // What was not synced may be lost by a write that failed, whatever the mode.
        check_image(&inside, &history, &outcome, Rule::Synced, &what);
        outcome.seen
    });
    let seen = world
        .unwrap_or_else(|error| panic!("{when}: {error}"))
        .value;
    let number = match fault.map(|fault| fault.when) {
        Some(When::Nth(number) | When::From(number)) => number,
        _ => 0,
    };
    if number % FSCK_ONE_IN == 0 {
        rig.copy().assert_fsck_clean(&when);
    }
    seen
}

/// Every request of a kind fails, one after another.
fn fail_each(place: Place, data: DataMode) {
    let made = Rig::new(place, 1024, VOLUME_BYTES);
    let history = Arc::new(History::new(SCRIPT));
    let seen = fail_once(&made, &history, None, data);
    let kinds = [Operations::READS, Operations::WRITES, Operations::FLUSHES];
    for (on_log, counts) in [false, true].into_iter().zip(seen) {
        for (operations, count) in kinds.into_iter().zip(counts) {
            for number in 1..=count {
                let mut faults = vec![
                    (When::Nth(number), Effect::Fail),
                    (When::From(number), Effect::Fail),
                ];
                if operations == Operations::WRITES {
                    faults.push((When::Nth(number), Effect::Torn));
                }
                for (when, effect) in faults {
                    let fault = Fault {
                        on_log,
                        operations,
                        when,
                        effect,
                    };
                    fail_once(&made, &history, Some(fault), data);
                }
            }
        }
    }
}

#[test]
fn internal_ordered() {
    fail_each(Place::Internal, DataMode::Ordered);
}

#[test]
fn internal_writeback() {
    fail_each(Place::Internal, DataMode::Writeback);
}

#[test]
fn internal_journal() {
    fail_each(Place::Internal, DataMode::Journal);
}

#[test]
fn external_ordered() {
    fail_each(Place::External, DataMode::Ordered);
}

#[test]
fn external_journal() {
    fail_each(Place::External, DataMode::Journal);
}

/// A volume whose writes fail when the test says so.
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

/// E1, E0: every open file learns of a failed write once, others not at all; the page stays dirty, so that a later fsync
/// that says yes has written it.
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
        // A power cut now: what was promised is there.
        let rig = case.rig.copy();
        assert!(rig.open(quiet(data)).read_file("/f").expect("read") == [2; 10_000]);
        case.volume.close().expect("close");
        case.rig.assert_fsck_clean("after a failed write");
    }
}

/// An O_SYNC writer learns at once.
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

/// E2, E4: a failed write of the log, or a failed flush, stops everything but reads, for good.
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
        // The journal's error is the volume's, until somebody has checked it.
        let volume = case.rig.open(quiet(DataMode::Ordered));
        let state = volume.superblock().raw.state();
        assert!(state.contains(State::ERROR), "{state:?}");
        volume.close().expect("close");
    }
}

/// E3: the tail never passes a transaction whose blocks could not be written home.
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
        volume.blocks_of(nr).expect("blocks")[0].1
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

/// What a write has done when it meets an error stays done and is counted; the call that meets it at once changes nothing.
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
    let bad = blocks.iter().find_map(|(first, block, count)| {
        let index = (LAST as u64).checked_sub((*first)?)?;
        (index < u64::from(*count)).then_some(block + index)
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

/// E6: a log that cannot be read is not replayed in part, and the volume opens again when it can be.
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

/// The device goes away in the middle: nothing hangs, and what was promised is on it.
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

#[test]
fn the_script_is_what_it_says() {
    assert!(SCRIPT.iter().filter(|op| op.is_sync()).count() >= 10);
    assert!(SCRIPT.iter().any(|op| matches!(op, Op::Fdatasync(_))));
}
