//! Writes that their submitter does not wait for (`writers=submit`), in virtual time: the threads
//! that need their results, and devices that fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use block::BlockDevice;
use ext::options::DataMode;
use ext::tuning::{MemoryAccounting, Writers};
use ext::volume::OpenFlags;
use ext::{Error, MountOptions, Volume};
use rt::Nanos;
use testkit::{Behaviour, UnreliableDevice};

use crate::rig::{Place, Rig, device, quiet};

const MEBIBYTE: usize = 1 << 20;
const BUDGET: u64 = 8 << 20;
/// Number of batches that a device fails before a test does: writes are repeated without a pause.
const BATCHES_MAX: u64 = 10_000;

/// Returns options of a volume that only submits writes, with no periodic daemon. Writers submit
/// above 60 % of 8 MiB.
fn options() -> MountOptions {
    let mut options = quiet(DataMode::Ordered);
    options.memory.budget_bytes = BUDGET;
    options.tuning.memory_accounting = MemoryAccounting::Contents;
    options.tuning.writeback.writers = Writers::Submit;
    options
}

fn in_world(work: impl FnOnce() + 'static) {
    sim::run(sim::Config::fair(3), work).unwrap_or_else(|error| panic!("{error}"));
}

/// Opens a volume on a device whose writes can be changed.
fn open(options: MountOptions) -> (Arc<UnreliableDevice>, Arc<Volume>) {
    let made = Rig::new(Place::None, 1024, 24 << 20);
    let home = UnreliableDevice::new(device(&made.home));
    let volume = Volume::open(Arc::<UnreliableDevice>::clone(&home), None, options);
    (home, Arc::new(volume.expect("it opens")))
}

/// Returns the behaviour of a device that fails all writes.
fn failing() -> Behaviour {
    Behaviour {
        panic_after: Some(BATCHES_MAX),
        ..Behaviour::failing()
    }
}

/// Returns the time that some work takes.
fn time(work: impl FnOnce()) -> Nanos {
    let begin = rt::monotonic();
    work();
    rt::monotonic().saturating_sub(begin)
}

/// A device that fails does not keep the flusher running: the volume is closed, with an error.
#[test]
fn the_flusher_gives_up_on_a_device_that_fails() {
    in_world(|| {
        let (home, volume) = open(options());
        volume.write_file("/before", &[1; 1024]).expect("write");
        volume.sync().expect("sync");
        home.set(failing());
        // More than the background limit, and less than the limit of writers.
        let big = vec![2; 7 * MEBIBYTE / 2];
        volume.write_file("/big", &big).expect("cached");
        rt::sleep(Nanos::from_secs(10));
        let batches = home.batches();
        assert!((1..BATCHES_MAX).contains(&batches), "{batches} batches");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect_err("its data is lost");
    });
}

/// Writers are refused when nothing can be written, before memory is used up.
#[test]
fn writers_are_refused_by_a_device_that_fails() {
    in_world(|| {
        let (home, volume) = open(options());
        home.set(failing());
        let mut written = 0;
        let refused = (0..64).find_map(|file| {
            let result = volume.write_file(&format!("/{file}"), &vec![3; MEBIBYTE / 4]);
            written += MEBIBYTE / 4;
            // A file whose data was taken into the cache reports failed writes when it is closed.
            let is_refused = |error: &Error| !matches!(error, Error::DataLost { .. });
            result.err().filter(is_refused)
        });
        let error = refused.expect("a writer is refused");
        assert!(matches!(error, Error::Device(_)), "{error:?}");
        assert!(written as u64 <= BUDGET, "{written} bytes were taken");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect_err("its data is lost");
    });
}

/// A thread that needs pages whose submission has not returned waits for their write, and not until
/// another thread happens to record its results.
#[test]
fn a_write_under_submission_is_waited_for() {
    in_world(|| {
        let (submission, completion) = (Nanos::from_millis(200), Nanos::from_millis(100));
        let mut options = options();
        options.memory.writer_interval = Nanos::from_secs(60);
        options.memory.dirty_expiry = Nanos::from_millis(1);
        let (home, volume) = open(options);
        volume.write_file("/f", &[4; 4096]).expect("write");
        home.set(Behaviour {
            submission,
            ..Behaviour::slow(completion)
        });
        // The writer daemon is within the submission of the file.
        rt::sleep(Nanos::from_secs(60) + Nanos::from_millis(100));
        assert!(home.batches() >= 1);
        let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
        let took = time(|| file.set_len(0).expect("truncate"));
        assert!(took <= submission + completion, "{took:?}");
        file.close().expect("close");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}

/// `fsync` does not follow a writer whose pages are submitted again and again.
#[test]
fn fsync_does_not_follow_a_writer() {
    in_world(|| {
        let mut options = options();
        // Each new dirty page is submitted.
        options.memory.dirty_background_percent = 0;
        options.memory.dirty_percent = 0;
        let (home, volume) = open(options);
        volume.write_file("/f", &[5; 1024]).expect("write");
        home.set(Behaviour::slow(Nanos::from_millis(100)));
        let shared = Arc::clone(&volume);
        let writer = rt::spawn("writer", move || {
            let file = shared.open_file("/f", OpenFlags::READ_WRITE);
            let file = file.expect("open");
            for step in 0..400 {
                file.write_at(step * 1024, &[6; 1024]).expect("write");
                rt::sleep(Nanos::from_millis(10));
            }
            file.close().expect("close");
        });
        rt::sleep(Nanos::from_millis(500));
        let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
        let took = time(|| file.sync_data().expect("fsync"));
        assert!(took <= Nanos::from_millis(500), "{took:?}");
        file.close().expect("close");
        writer.join().expect("it ends well");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}

/// A panic of the device while the pages of several files are submitted leaves no page in flight.
#[test]
fn a_panic_of_the_device_leaves_nothing_in_flight() {
    in_world(|| {
        let (home, volume) = open(options());
        for file in 0..4 {
            let written = volume.write_file(&format!("/{file}"), &[7; 4096]);
            written.expect("write");
        }
        home.set(Behaviour {
            panic_after: Some(1),
            ..Behaviour::default()
        });
        let synced = catch_unwind(AssertUnwindSafe(|| volume.sync()));
        synced.expect_err("the device panics");
        home.set(Behaviour::default());
        for file in 0..4 {
            let file = volume.open_file(&format!("/{file}"), OpenFlags::READ);
            let file = file.expect("open");
            file.sync_data().expect("it is written now");
            file.close().expect("close");
        }
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}

/// A page that cannot be written does not keep the flusher from writing those of other files.
#[test]
fn a_bad_page_does_not_end_the_round_of_the_flusher() {
    in_world(|| {
        let mut options = options();
        options.tuning.writeback.stop_percent = 0;
        let (home, volume) = open(options);
        volume.write_file("/bad", &[1; 1024]).expect("write");
        volume.sync().expect("sync");
        let first_block = |path: &str| {
            let nr = volume.resolve(path, true).expect("it is there");
            volume.blocks_of(nr).expect("blocks")[0].first.get()
        };
        let bad = first_block("/bad") * 2;
        home.set(Behaviour {
            bad_sectors: bad..bad + 2,
            ..Behaviour::default()
        });
        let file = volume.open_file("/bad", OpenFlags::READ_WRITE);
        let file = file.expect("open");
        file.write_at(0, &[2; 1024]).expect("write");
        // More than the background limit, and less than the limit of writers.
        let others: Vec<String> = (0..14).map(|number| format!("/{number}")).collect();
        for path in &others {
            let written = volume.write_file(path, &vec![3; MEBIBYTE / 4]);
            written.expect("cached");
        }
        rt::sleep(Nanos::from_secs(10));
        let is_written = |path: &&String| {
            let shared: &dyn BlockDevice = &*home;
            let read = shared.read_block(first_block(path) * 1024, 1024);
            read.expect("reads work")[0] == 3
        };
        let left: Vec<_> = others.iter().filter(|path| !is_written(path)).collect();
        assert!(left.is_empty(), "not written: {left:?}");
        home.set(Behaviour::default());
        file.close().expect_err("its page was not written");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}

/// A device that breaks its contract makes the caller panic, and leaves no page and no block in
/// flight.
#[test]
fn a_wrong_number_of_results_leaves_nothing_in_flight() {
    for (writers, surplus, bytes) in [
        (Writers::Wait, -1, 4096),
        (Writers::Wait, 1, 4096),
        (Writers::Submit, -1, 4096),
        (Writers::Submit, 1, 4096),
        // Metadata only.
        (Writers::Wait, -1, 0),
        (Writers::Wait, 1, 0),
    ] {
        in_world(move || {
            let mut options = options();
            options.tuning.writeback.writers = writers;
            let (home, volume) = open(options);
            volume.write_file("/f", &vec![7; bytes]).expect("write");
            home.set(Behaviour {
                surplus,
                ..Behaviour::default()
            });
            let synced = catch_unwind(AssertUnwindSafe(|| volume.sync()));
            synced.expect_err("the device breaks its contract");
            home.set(Behaviour::default());
            volume.sync().expect("it is written now");
            let volume = Arc::into_inner(volume).expect("no other thread has it");
            volume.close().expect("close");
        });
    }
}
