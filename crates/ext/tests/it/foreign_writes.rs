//! Calls that make data durable while other threads write the same blocks: they wait for those
//! writes and learn of their failures. In virtual time.

use std::sync::Arc;

use block::device::{Geometry, Request};
use block::memory::MemoryDevice;
use block::ticket::Ticket;
use block::{BlockDevice, DeviceError};
use ext::options::DataMode;
use ext::volume::{OpenFlags, SetAttributes};
use ext::{MountOptions, Volume};
use layout::InodeNr;
use rt::atomic::{AtomicU64, Ordering};
use rt::{JoinHandle, Nanos};

use crate::rig::{Place, Rig, device, quiet};

/// The time of a write of [`Slow`].
const WRITE: Nanos = Nanos::from_millis(100);
const BLOCK_BYTES: u64 = 1024;
/// Number of schedules of each test.
const WORLDS: u64 = 200;

/// A device whose writes take a time, and fail if they touch a block.
struct Slow {
    memory: Arc<MemoryDevice>,
    bad_block: AtomicU64,
    write_nanoseconds: AtomicU64,
}

impl BlockDevice for Slow {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let time = Nanos::new(self.write_nanoseconds.load(Ordering::Relaxed));
        if time == Nanos::ZERO || !batch.iter().any(Request::is_write) {
            return self.memory.submit(batch);
        }
        let bad = self.bad_block.load(Ordering::Relaxed) * BLOCK_BYTES / 512;
        let is_bad = |request: &Request| {
            let (first, count) = request.range();
            (first.get()..first.get() + count).contains(&bad)
        };
        let are_bad: Vec<bool> = batch.iter().map(is_bad).collect();
        let memory = Arc::clone(&self.memory);
        let (ticket, completer) = Ticket::pending();
        rt::spawn_daemon("write", move || {
            rt::sleep(time);
            let results = memory.submit(batch).wait().into_iter().zip(are_bad);
            let or_failed = |(result, is_bad)| match is_bad {
                true => Err(DeviceError::Gone),
                false => result,
            };
            completer.complete(results.map(or_failed).collect());
        });
        ticket
    }

    fn name(&self) -> String {
        "slow".to_owned()
    }
}

fn open(options: MountOptions) -> (Arc<Slow>, Arc<Volume>) {
    let made = Rig::new(Place::None, BLOCK_BYTES as u32, 2 << 20);
    let slow = Arc::new(Slow {
        memory: Arc::clone(&made.home),
        bad_block: AtomicU64::new(u64::MAX / BLOCK_BYTES),
        write_nanoseconds: AtomicU64::new(0),
    });
    let volume = Volume::open(Arc::<Slow>::clone(&slow), None, options);
    (slow, Arc::new(volume.expect("it opens")))
}

/// Runs work in worlds that switch tasks at random.
fn in_worlds(work: impl Fn() + Copy + 'static) {
    for seed in 0..WORLDS {
        sim::run(sim::Config::random(seed), work)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Returns the permissions of an inode on a device.
fn permissions(memory: MemoryDevice, nr: InodeNr) -> u16 {
    let options = MountOptions {
        read_only: true,
        ..quiet(DataMode::Ordered)
    };
    let volume = Volume::open(Arc::new(memory), None, options).expect("it opens");
    let found = volume.attributes(nr).expect("it is there");
    volume.close().expect("close");
    found.permissions
}

/// Runs work on a thread of its own at a time after now.
fn at<T: Send + 'static>(
    volume: &Arc<Volume>,
    milliseconds: u64,
    work: impl FnOnce(&Volume) -> T + Send + 'static,
) -> JoinHandle<T> {
    let volume = Arc::clone(volume);
    rt::spawn("caller", move || {
        rt::sleep(Nanos::from_millis(milliseconds));
        work(&volume)
    })
}

/// Three threads make inodes of one block durable: each call ends when its change is on the device,
/// whichever thread writes it.
#[test]
fn fsync_waits_for_the_inode_that_another_thread_writes() {
    in_worlds(|| {
        let (slow, volume) = open(quiet(DataMode::Ordered));
        // The inodes of the last three files, 13 to 15, are in one block.
        for path in ["/0", "/1", "/2", "/3"] {
            volume.write_file(path, b"").expect("write");
        }
        volume.sync().expect("sync");
        let write = WRITE.get();
        slow.write_nanoseconds.store(write, Ordering::Relaxed);
        let calls = [("/1", 0), ("/2", 10), ("/3", 20)].map(|(path, milliseconds)| {
            let memory = Arc::clone(&slow.memory);
            at(&volume, milliseconds, move |volume| {
                let nr = volume.resolve(path, true).expect("it is there");
                let change = SetAttributes {
                    permissions: Some(0o600),
                    ..SetAttributes::default()
                };
                volume.set_attributes(nr, &change).expect("chmod");
                let file = volume.open_file(path, OpenFlags::READ_WRITE).expect("open");
                file.sync_all().expect("fsync");
                let on_device = memory.snapshot();
                file.close().expect("close");
                assert_eq!(permissions(on_device, nr), 0o600, "{path}");
            })
        });
        for call in calls {
            call.join().expect("it ends well");
        }
        slow.write_nanoseconds.store(0, Ordering::Relaxed);
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}

/// A sync that finds a page in flight twice learns that its second write failed, although another
/// page of the file is changed all the time.
#[test]
fn sync_learns_of_a_failure_beside_a_busy_page() {
    in_worlds(|| {
        let (slow, volume) = open(quiet(DataMode::Ordered));
        volume.write_file("/f", &[1; 20 << 10]).expect("write");
        volume.write_file("/g", &[1; 1 << 10]).expect("write");
        volume.sync().expect("sync");
        let nr = volume.resolve("/f", true).expect("it is there");
        let first = volume.blocks_of(nr).expect("blocks")[0].first.get();
        slow.bad_block.store(first, Ordering::Relaxed);
        slow.write_nanoseconds.store(WRITE.get(), Ordering::Relaxed);
        let sync = |milliseconds| {
            at(&volume, milliseconds, |volume| {
                let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
                file.sync_data().expect_err("its block is bad");
                file.close().expect("close");
            })
        };
        let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
        let change = |block: u64| {
            file.write_at(block * BLOCK_BYTES, &[2; 1 << 10])
                .expect("write");
        };
        change(0);
        change(10);
        let others = [sync(0), sync(15)];
        let whole = at(&volume, 60, |volume| {
            volume.write_file("/g", &[3; 1 << 10]).expect("write");
            volume.sync()
        });
        for _ in 0..9 {
            rt::sleep(Nanos::from_millis(10));
            change(10);
            rt::sleep(Nanos::from_millis(10));
        }
        let synced = whole.join().expect("no panic");
        synced.expect_err("a block of the file is not written");
        for other in others {
            other.join().expect("it ends well");
        }
        slow.write_nanoseconds.store(0, Ordering::Relaxed);
        file.close().expect_err("it reports the failed writes");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}

/// A sync finds a file whose oldest pages the writer daemon is taking.
#[test]
fn sync_finds_a_file_that_changes_its_place_in_the_list() {
    in_worlds(|| {
        let mut options = quiet(DataMode::Ordered);
        options.memory.writer_interval = Nanos::from_millis(100);
        options.memory.dirty_expiry = Nanos::from_millis(50);
        let (slow, volume) = open(options);
        volume.write_file("/f", &[1; 20 << 10]).expect("write");
        volume.sync().expect("sync");
        let nr = volume.resolve("/f", true).expect("it is there");
        let blocks = volume.blocks_of(nr).expect("blocks");
        let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
        // The daemon takes the first page and leaves the other, at 100 ms.
        rt::sleep(Nanos::from_millis(20));
        file.write_at(0, &[2; 1 << 10]).expect("write");
        rt::sleep(Nanos::from_millis(60));
        file.write_at(10 << 10, &[2; 1 << 10]).expect("write");
        rt::sleep_until(Nanos::from_millis(100));
        volume.sync().expect("sync");
        let block = blocks[0].first.get() + 10;
        let read = device(&slow.memory).read_block(block * BLOCK_BYTES, BLOCK_BYTES as u32);
        let read = read.expect("memory does not fail");
        assert_eq!(read[0], 2, "the page is not written");
        file.close().expect("close");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}
