//! Power cuts: after each of many instants of a scripted run, one possible content of the devices
//! is recovered and compared with the states of the script. Internal and external journals lose
//! their caches independently.
//!
//! | mode | names and sizes | contents |
//! |---|---|---|
//! | `data=journal` | of one state | of the same state |
//! | `data=ordered` | of one state | no older than it; never foreign bytes |
//! | `data=writeback` | of one state | those synced and not written since |
//!
//! The state is no older than a completed sync call covers, nor newer than the last operation
//! started.

use std::sync::Arc;

use block::BlockDevice;
use block::trace::{Event, Replay, Trace, TraceDevice};
use ext::options::DataMode;
use ext::volume::{InodeFlags, NewInode, OpenFlags, SetAttributes};
use ext::{MountOptions, Volume};
use layout::InodeNr;

use crate::history::{Bound, History, Op, Rule, SCRIPT, read_tree};
use crate::rig::{Place, Rig, device, quiet};

const VOLUME_BYTES: u64 = 8 << 20;
/// Size of the volumes with blocks of 4 KiB, whose journals are longer.
const LARGE_VOLUME_BYTES: u64 = 24 << 20;
/// Number of cuts in each run. `JEXT_TEST_CUTS` overrides it.
const CUTS: usize = 24;
/// Interval of recovered images that `e2fsck` checks, too.
const FSCK_ONE_IN: usize = 6;

fn cuts() -> usize {
    match std::env::var("JEXT_TEST_CUTS") {
        Ok(count) => count.parse().expect("JEXT_TEST_CUTS is a number"),
        Err(_) => CUTS,
    }
}

/// The guarantees of the mount beyond the sync calls of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Promise {
    /// None.
    None,
    /// `sync`: every operation is durable when it returns.
    Sync,
    /// `dirsync`: every change of a directory is durable when it returns.
    DirSync,
}

impl Promise {
    fn options(self, data: DataMode) -> MountOptions {
        let sync = self == Self::Sync;
        MountOptions {
            sync,
            directory_sync: self == Self::DirSync,
            ..quiet(data)
        }
    }

    fn covers(self, op: Op) -> bool {
        match self {
            Self::None => false,
            Self::Sync => true,
            Self::DirSync => !op.is_sync() && !matches!(op, Op::Write(..) | Op::Truncate(..)),
        }
    }
}

/// Media with volatile caches whose requests are recorded.
pub struct Recorded {
    pub initial: Rig,
    pub trace: Arc<Trace>,
    home: Arc<TraceDevice>,
    log: Option<Arc<TraceDevice>>,
}

impl Recorded {
    pub fn new(made: &Rig, can_force: bool) -> Self {
        let (initial, used) = (made.copy(), made.copy());
        let trace = Trace::new();
        let record = |memory| Arc::new(trace.attach(device(memory)).with_volatile_cache(can_force));
        let home = record(&used.home);
        let log = used.log.as_ref().map(record);
        Self {
            initial,
            trace,
            home,
            log,
        }
    }

    pub fn open(&self, options: MountOptions) -> Volume {
        let home = Arc::<TraceDevice>::clone(&self.home);
        let log = self
            .log
            .as_ref()
            .map(|log| Arc::<TraceDevice>::clone(log) as Arc<dyn BlockDevice>);
        Volume::open(home, log, options).expect("the volume opens")
    }

    pub fn replays(&self) -> (Replay, Option<Replay>) {
        let home = Replay::new(0, self.home.geometry(), &self.initial.home);
        let log = self.log.as_ref().zip(self.initial.log.as_ref());
        (
            home,
            log.map(|(log, initial)| Replay::new(1, log.geometry(), initial)),
        )
    }

    /// Returns the media after the loss of everything that no flush covers.
    pub fn without_caches(&self) -> Rig {
        let (mut home, mut log) = self.replays();
        for event in self.trace.events() {
            home.apply(&event);
            if let Some(log) = &mut log {
                log.apply(&event);
            }
        }
        Rig {
            home: Arc::new(home.durable().snapshot()),
            log: log.map(|log| Arc::new(log.durable().snapshot())),
            block_bytes: self.initial.block_bytes,
        }
    }
}

fn record_script(recorded: &Recorded, history: &History, options: MountOptions) {
    let volume = recorded.open(options);
    for (number, op) in history.ops.iter().enumerate() {
        recorded.trace.mark(2 * number as u64);
        op.run(&volume, number)
            .unwrap_or_else(|error| panic!("{op:?}: {error}"));
        recorded.trace.mark(2 * number as u64 + 1);
    }
    volume.close().expect("close");
}

/// Recovers an image and compares it.
fn check(rig: &Rig, history: &History, bound: &Bound, most: usize, rule: Rule, when: &str) {
    let volume = rig.open(quiet(DataMode::Ordered));
    let found = read_tree(&volume).unwrap_or_else(|error| panic!("{when}: {error}"));
    if let Err(why) = history.check(&found, bound, most, rule) {
        panic!("{when}: bound {bound:?}: {why}");
    }
    volume
        .write_file("/afterwards", &[1; 5000])
        .expect("the recovered volume works");
    volume
        .remove_file("/afterwards")
        .expect("the recovered volume works");
    volume.close().expect("close");
}

/// Returns an image after cache losses: by a seed, all, none, or only those of the journal's or the
/// file-system device.
pub fn cut_image(home: &Replay, log: Option<&Replay>, block_bytes: u32, seed: u64) -> Rig {
    let lose = |replay: &Replay, loses: Option<bool>, seed| match loses {
        None => replay.image(seed),
        Some(true) => replay.image_with(&mut |_, _| 0),
        Some(false) => replay.image_with(&mut |_, count| count),
    };
    let (first, second) = match seed % 6 {
        0 => (Some(true), Some(true)),
        1 => (Some(true), Some(false)),
        2 => (Some(false), Some(true)),
        _ => (None, None),
    };
    Rig {
        home: Arc::new(lose(home, first, seed)),
        log: log.map(|log| Arc::new(lose(log, second, seed + 1000))),
        block_bytes,
    }
}

fn cut_everywhere(place: Place, data: DataMode, promise: Promise, can_force: bool) {
    let made = Rig::new(place, 1024, VOLUME_BYTES);
    let rule = match data {
        DataMode::Journal => Rule::Exact,
        DataMode::Ordered => Rule::Ordered,
        DataMode::Writeback => Rule::Synced,
    };
    let world = sim::run(sim::Config::fair(3), move || {
        let history = History::new(SCRIPT);
        let recorded = Recorded::new(&made, can_force);
        record_script(&recorded, &history, promise.options(data));
        let events = recorded.trace.events();
        let (mut home, mut log) = recorded.replays();
        let (mut bound, mut most) = (Bound::default(), 0);
        let mut done = 0;
        for (index, event) in events.iter().enumerate() {
            home.apply(event);
            if let Some(log) = &mut log {
                log.apply(event);
            }
            if let Event::Mark(mark) = event {
                let number = (mark / 2) as usize;
                most = number + 1;
                if mark % 2 == 1 && promise.covers(history.ops[number]) {
                    history.bind_state(&mut bound, number + 1, promise == Promise::Sync);
                } else if mark % 2 == 1 {
                    history.bind(&mut bound, number);
                }
            }
            if index * cuts() / events.len() < done {
                continue;
            }
            let rig = cut_image(&home, log.as_ref(), made.block_bytes, done as u64);
            let when = format!("{place:?}, {data:?}, {promise:?}, cut {done} after event {index}");
            check(&rig, &history, &bound, most, rule, &when);
            if done % FSCK_ONE_IN == 0 {
                rig.assert_fsck_clean(&when);
            }
            done += 1;
        }
    });
    world.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn internal() {
    cut_everywhere(Place::Internal, DataMode::Ordered, Promise::None, true);
    cut_everywhere(Place::Internal, DataMode::Writeback, Promise::None, true);
    cut_everywhere(Place::Internal, DataMode::Journal, Promise::None, true);
    cut_everywhere(Place::Internal, DataMode::Ordered, Promise::None, false);
}

#[test]
fn external() {
    cut_everywhere(Place::External, DataMode::Ordered, Promise::None, true);
    cut_everywhere(Place::External, DataMode::Writeback, Promise::None, true);
    cut_everywhere(Place::External, DataMode::Journal, Promise::None, true);
    cut_everywhere(Place::External, DataMode::Journal, Promise::None, false);
}

#[test]
fn sync_and_dirsync_mounts() {
    for place in [Place::Internal, Place::External] {
        cut_everywhere(place, DataMode::Ordered, Promise::Sync, true);
        cut_everywhere(place, DataMode::Ordered, Promise::DirSync, true);
    }
}

fn set_flag(volume: &Volume, nr: InodeNr, flag: InodeFlags) {
    let flags = volume.attributes(nr).expect("attributes").flags | flag;
    let change = SetAttributes {
        flags: Some(flags),
        ..Default::default()
    };
    volume.set_attributes(nr, &change).expect("chattr");
    assert!(
        volume
            .attributes(nr)
            .expect("attributes")
            .flags
            .contains(flag)
    );
}

/// Opens the volume after the loss of everything that was not flushed.
fn survivors(recorded: &Recorded, data: DataMode) -> Volume {
    recorded.without_caches().open(quiet(data))
}

#[test]
fn synchronous_files_and_directories() {
    for place in [Place::Internal, Place::External] {
        let recorded = Recorded::new(&Rig::new(place, 4096, LARGE_VOLUME_BYTES), true);
        let volume = recorded.open(quiet(DataMode::Ordered));
        let create = |parent, name: &[u8]| {
            volume
                .create(parent, name, &NewInode::default())
                .expect("create")
        };
        let (plain, synced) = (
            create(InodeNr::ROOT, b"plain"),
            create(InodeNr::ROOT, b"synced"),
        );
        let directory = volume.create_directory("/d").expect("mkdir");
        set_flag(&volume, synced, InodeFlags::SYNC);
        set_flag(&volume, directory, InodeFlags::DIRSYNC);
        volume.sync().expect("sync");
        let write = |nr, byte: u8, flags| {
            let file = volume.open_inode(nr, flags).expect("open");
            volume.write_all(file, 0, &[byte; 6000]).expect("write");
            volume.release(file).expect("close");
        };
        write(synced, 1, OpenFlags::READ_WRITE);
        write(plain, 2, OpenFlags::READ_WRITE);
        let after = survivors(&recorded, DataMode::Ordered);
        assert!(
            after.read_file("/synced").expect("read") == [1; 6000],
            "chattr +S"
        );
        assert_eq!(
            after.read_file("/plain").expect("read").len(),
            0,
            "nothing made it durable"
        );
        write(
            plain,
            3,
            OpenFlags {
                sync: true,
                ..OpenFlags::READ_WRITE
            },
        );
        let after = survivors(&recorded, DataMode::Ordered);
        assert!(
            after.read_file("/plain").expect("read") == [3; 6000],
            "O_SYNC"
        );
        write(
            plain,
            4,
            OpenFlags {
                data_sync: true,
                ..OpenFlags::READ_WRITE
            },
        );
        let after = survivors(&recorded, DataMode::Ordered);
        assert!(
            after.read_file("/plain").expect("read") == [4; 6000],
            "O_DSYNC"
        );
        create(InodeNr::ROOT, b"lost");
        assert!(
            survivors(&recorded, DataMode::Ordered)
                .resolve("/lost", true)
                .is_err()
        );
        create(directory, b"kept");
        let after = survivors(&recorded, DataMode::Ordered);
        after.resolve("/d/kept", true).expect("chattr +D");
        volume.rename_path("/d/kept", "/d/moved").expect("rename");
        survivors(&recorded, DataMode::Ordered)
            .resolve("/d/moved", true)
            .expect("chattr +D, rename");
        create(directory, b"leaves");
        volume.rename_path("/d/leaves", "/left").expect("rename");
        let after = survivors(&recorded, DataMode::Ordered);
        after.resolve("/left", true).expect("chattr +D, moved away");
        assert!(after.resolve("/d/leaves", true).is_err(), "both names");
        volume.remove_file("/d/moved").expect("unlink");
        let after = survivors(&recorded, DataMode::Ordered);
        assert!(
            after.resolve("/d/moved", true).is_err(),
            "chattr +D, unlink"
        );
        volume.close().expect("close");
    }
}

/// `chattr +j`: the file's data, including its earlier contents, goes through the log under
/// `data=ordered`, and back again.
#[test]
fn journaled_files() {
    for place in [Place::Internal, Place::External] {
        let recorded = Recorded::new(&Rig::new(place, 4096, LARGE_VOLUME_BYTES), true);
        let volume = recorded.open(quiet(DataMode::Ordered));
        volume.write_file("/f", &[1; 20_000]).expect("write");
        let nr = volume.resolve("/f", true).expect("it is there");
        set_flag(&volume, nr, InodeFlags::JOURNAL_DATA);
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        let logged = || {
            volume
                .journal_stats()
                .expect("there is a journal")
                .logged_blocks
        };
        let before = logged();
        volume.write_all(file, 0, &[2; 20_000]).expect("write");
        volume.sync_file(file, true).expect("fdatasync");
        assert!(logged() - before >= 5, "the data is in the log");
        let after = survivors(&recorded, DataMode::Ordered);
        assert!(after.read_file("/f").expect("read") == [2; 20_000]);
        let change = SetAttributes {
            flags: Some(InodeFlags::empty()),
            ..Default::default()
        };
        volume.set_attributes(nr, &change).expect("chattr -j");
        let before = logged();
        volume.write_all(file, 0, &[3; 20_000]).expect("write");
        volume.sync_file(file, true).expect("fdatasync");
        assert_eq!(logged(), before, "an overwrite needs no log now");
        let rig = recorded.without_caches();
        let after = rig.open(quiet(DataMode::Ordered));
        let bytes = after.read_file("/f").expect("read");
        assert!(
            bytes == [3; 20_000],
            "no older image comes back from the log"
        );
        after.close().expect("close");
        rig.assert_fsck_clean("after chattr -j");
        volume.release(file).expect("close");
        volume.close().expect("close");
    }
}
