//! The writer daemon in virtual time: unsynced data is written when it has become old, and not long
//! before.
//!
//! The bound of the loss of unsynced changes: the expiry and one interval of the writer for data;
//! the commit interval for names and sizes. On devices that take no time, these are exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::meter::MeterDevice;
use ext::options::{DataMode, Memory};
use ext::tuning::{MemoryAccounting, Writers};
use ext::volume::{NewInode, OpenFlags};
use ext::{MountOptions, Volume};
use jbd2::LogPolicy;
use layout::InodeNr;
use rt::Nanos;
use testkit::{Behaviour, UnreliableDevice};

use crate::damage::assert_notices;
use crate::durability::Recorded;
use crate::rig::{Place, Rig, device, quiet};

const VOLUME_BYTES: u64 = 12 << 20;
const COMMIT: Nanos = Nanos::from_secs(5);
const WAKE: Nanos = Nanos::from_secs(5);
const EXPIRY: Nanos = Nanos::from_secs(30);
/// Interval between two looks of a test.
const LOOK: Nanos = Nanos::from_millis(250);
/// Additional time for waking up, writing and committing.
const SLACK: Nanos = Nanos::from_millis(250);

fn options(data: DataMode) -> MountOptions {
    MountOptions {
        data,
        commit_interval: COMMIT,
        memory: Memory {
            writer_interval: WAKE,
            dirty_expiry: EXPIRY,
            ..Memory::default()
        },
        ..MountOptions::default()
    }
}

/// Returns the age of a change at which it first survives the loss of all unflushed data; none
/// within a limit.
fn age_when(limit: Nanos, is_there: impl Fn() -> bool) -> Option<Nanos> {
    let start = rt::monotonic();
    loop {
        let age = rt::monotonic().saturating_sub(start);
        if is_there() {
            return Some(age);
        }
        if age > limit {
            return None;
        }
        rt::sleep(LOOK);
    }
}

fn in_world(work: impl FnOnce() + 'static) {
    sim::run(sim::Config::fair(2), work).unwrap_or_else(|error| panic!("{error}"));
}

/// F5: a name is durable after a commit interval, in every mode, on internal and external journals.
#[test]
fn names_are_durable_after_a_commit_interval() {
    for place in [Place::Internal, Place::External] {
        for data in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
            let made = Rig::new(place, 1024, VOLUME_BYTES);
            in_world(move || {
                let recorded = Recorded::new(&made, true);
                let volume = recorded.open(options(data));
                // Not in step with the daemons.
                rt::sleep(Nanos::from_millis(1700));
                volume.create_directory("/d").expect("mkdir");
                let survives = || {
                    let rig = recorded.without_caches();
                    let after = rig.open(options(data));
                    after.resolve("/d", true).is_ok()
                };
                let age = age_when(COMMIT + COMMIT, survives);
                let age = age.unwrap_or_else(|| panic!("{place:?}, {data:?}: never"));
                assert!(age <= COMMIT + LOOK + SLACK, "{place:?}, {data:?}: {age:?}");
                volume.close().expect("close");
            });
        }
    }
}

/// Each round of the writer commits, with the policy of a kernel of 2002.
#[test]
fn a_round_of_the_writer_commits_as_in_linux24() {
    for (tick, expect) in [("age", false), ("commit", true)] {
        let made = Rig::new(Place::Internal, 1024, VOLUME_BYTES);
        in_world(move || {
            let log_policy = LogPolicy::LINUX24.with("tick", tick).expect("a word");
            let mut options = options(DataMode::Ordered);
            options.commit_interval = EXPIRY;
            options.tuning.log_policy = log_policy;
            let volume = Volume::open(device(&made.home), made.log_device(), options);
            let volume = volume.expect("it opens");
            volume.create_directory("/d").expect("mkdir");
            rt::sleep(WAKE + SLACK);
            let commits = volume.journal_stats().expect("it has one").commits;
            assert_eq!(commits > 0, expect, "{tick}");
            volume.close().expect("close");
        });
    }
}

/// Above the dirty limit a writer waits for writes, or only submits them.
#[test]
fn a_throttled_writer_waits_for_writes_or_submits_them() {
    for (writers, expect) in [(Writers::Wait, true), (Writers::Submit, false)] {
        let made = Rig::new(Place::None, 1024, VOLUME_BYTES);
        in_world(move || {
            let mut options = options(DataMode::Ordered);
            options.memory.budget_bytes = 8 << 20;
            options.tuning.memory_accounting = MemoryAccounting::Contents;
            options.tuning.writeback.writers = writers;
            let late = UnreliableDevice::new(device(&made.home));
            late.set(Behaviour::slow(WRITE_TIME));
            let volume = Volume::open(late, None, options).expect("it opens");
            for name in ["/1", "/2", "/3", "/4", "/5", "/6"] {
                volume.write_file(name, &vec![1; 1 << 20]).expect("write");
            }
            let stalled = volume.cache_stalls().dirty_limit;
            assert_eq!(stalled >= WRITE_TIME, expect, "{writers:?}: {stalled:?}");
            volume.sync().expect("sync");
            assert_eq!(volume.read_file("/1").expect("read"), vec![1; 1 << 20]);
            volume.close().expect("close");
        });
    }
}

/// The time of a slow write.
const WRITE_TIME: Nanos = Nanos::from_millis(100);

/// F5: overwritten data is written back after the expiry and at most one more interval of the
/// writer, and not before the expiry. In ordered mode with every block ordered, the commit is
/// earlier.
#[test]
fn overwritten_data_is_written_when_it_is_old() {
    for place in [Place::None, Place::Internal, Place::External] {
        let made = Rig::new(place, 1024, VOLUME_BYTES);
        in_world(move || {
            let meter = Arc::new(MeterDevice::new(device(&made.home)));
            let home = Arc::<MeterDevice>::clone(&meter);
            let volume = Volume::open(home, made.log_device(), options(DataMode::Writeback));
            let volume = volume.expect("it opens");
            volume.write_file("/f", &[1; 20_000]).expect("write");
            volume.sync().expect("sync");
            // The earlier log blocks and inode times have reached their final locations.
            rt::sleep(EXPIRY + EXPIRY + Nanos::from_millis(1700));
            let block = data_block(&volume, "/f");
            let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
            file.write_at(0, &[2; 20_000]).expect("write");
            let is_home = || {
                let read = device(&made.home).read_block(block * 1024, 1024);
                read.expect("memory does not fail")[0] == 2
            };
            let age = age_when(EXPIRY + WAKE + WAKE, is_home);
            let age = age.unwrap_or_else(|| panic!("{place:?}: never"));
            assert!(age + LOOK >= EXPIRY, "{place:?}: {age:?} is early");
            assert!(age <= EXPIRY + WAKE + LOOK + SLACK, "{place:?}: {age:?}");
            file.close().expect("close");
            volume.close().expect("close");
        });
    }
}

fn data_block(volume: &Volume, path: &str) -> u64 {
    let nr = volume.resolve(path, true).expect("it is there");
    volume.blocks_of(nr).expect("blocks")[0].first.get()
}

/// Committed metadata, and metadata of a volume without a journal, is written back by age, too.
#[test]
fn metadata_goes_home_when_it_is_old() {
    for place in [Place::None, Place::Internal, Place::External] {
        let made = Rig::new(place, 1024, VOLUME_BYTES);
        in_world(move || {
            let volume = made.open(options(DataMode::Ordered));
            let root = data_block(&volume, "/");
            rt::sleep(Nanos::from_millis(1700));
            let name = b"a-name-to-look-for";
            let new = NewInode::default();
            volume.create(InodeNr::ROOT, name, &new).expect("create");
            let is_home = || {
                let read = device(&made.home).read_block(root * 1024, 1024);
                let bytes = read.expect("memory does not fail");
                bytes.windows(name.len()).any(|part| part == name)
            };
            let age = age_when(COMMIT + EXPIRY + WAKE + WAKE, is_home);
            let age = age.unwrap_or_else(|| panic!("{place:?}: never"));
            assert!(
                age <= COMMIT + EXPIRY + WAKE + LOOK + SLACK,
                "{place:?}: {age:?}"
            );
            volume.close().expect("close");
        });
    }
}

/// `sync` writes data that is dirty when it starts, and ends while other tasks continue to write:
/// to files that it has written already, and beyond the end of one that it is writing.
#[test]
fn sync_does_not_follow_writers() {
    assert_notices("sync/follows-writers", sync_beside_writers);
}

fn sync_beside_writers() {
    const SYNC_MAX: Nanos = Nanos::from_secs(1);
    const FILES: usize = 4;
    for place in [Place::None, Place::External] {
        let made = Rig::new(place, 1024, VOLUME_BYTES);
        let home = UnreliableDevice::new(device(&made.home));
        // A request takes longer than a writer needs to make the next page dirty.
        home.set(Behaviour {
            of: |_| true,
            submission: Nanos::from_millis(3),
            ..Behaviour::default()
        });
        let volume = Volume::open(home, made.log_device(), quiet(DataMode::Writeback));
        let volume = Arc::new(volume.expect("it opens"));
        for file in 0..FILES {
            let path = format!("/f{file}");
            volume.write_file(&path, &[1; 20_000]).expect("write");
        }
        volume.sync().expect("sync");
        let is_over = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..FILES)
            .map(|file| {
                let (volume, is_over) = (Arc::clone(&volume), Arc::clone(&is_over));
                rt::spawn("writer", move || write_until(&volume, file, &is_over))
            })
            .collect();
        rt::sleep(Nanos::from_millis(10));
        let begin = rt::monotonic();
        volume.sync().expect("sync");
        let took = rt::monotonic().saturating_sub(begin);
        is_over.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().expect("it ends well");
        }
        assert!(took < SYNC_MAX, "{place:?}: {took:?}");
    }
}

/// Writes to a file until the test is over, at most for some seconds: the first file grows, the
/// others are overwritten.
fn write_until(volume: &Volume, file: usize, is_over: &AtomicBool) {
    let path = format!("/f{file}");
    let opened = volume.open_file(&path, OpenFlags::READ_WRITE);
    let opened = opened.expect("it is there");
    for step in 0..5000 {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let at = if file == 0 { step * 1024 } else { 0 };
        opened.write_at(at, &[2; 1024]).expect("write");
        rt::sleep(Nanos::from_millis(1));
    }
    opened.close().expect("close");
}
