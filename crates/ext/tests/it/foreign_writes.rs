//! Calls that make data durable while other threads write the same blocks: they wait for those
//! writes and learn of their failures. In virtual time.

use std::sync::Arc;

use block::memory::MemoryDevice;
use ext::options::DataMode;
use ext::volume::{OpenFlags, SetAttributes};
use ext::{MountOptions, Volume};
use layout::InodeNr;
use rt::{JoinHandle, Nanos};
use testkit::{Behaviour, UnreliableDevice};

use crate::rig::{Place, Rig, device, quiet};

/// The time of a slow write.
const WRITE: Nanos = Nanos::from_millis(100);
const BLOCK_BYTES: u64 = 1024;
/// Number of schedules of each test.
const WORLDS: u64 = 200;

/// A volume on a device whose writes can be changed, and its memory.
struct Opened {
    memory: Arc<MemoryDevice>,
    home: Arc<UnreliableDevice>,
    volume: Arc<Volume>,
}

fn open(options: MountOptions) -> Opened {
    let memory = Rig::new(Place::None, BLOCK_BYTES as u32, 2 << 20).home;
    let home = UnreliableDevice::new(device(&memory));
    let volume = Volume::open(Arc::<UnreliableDevice>::clone(&home), None, options);
    Opened {
        memory,
        home,
        volume: Arc::new(volume.expect("it opens")),
    }
}

/// Returns the behaviour of slow writes that fail if they touch a block.
fn slow_with_bad(block: u64) -> Behaviour {
    let sectors = BLOCK_BYTES / 512;
    Behaviour {
        bad_sectors: block * sectors..(block + 1) * sectors,
        ..Behaviour::slow(WRITE)
    }
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
        let Opened {
            memory,
            home,
            volume,
        } = open(quiet(DataMode::Ordered));
        // The inodes of the last three files, 13 to 15, are in one block.
        for path in ["/0", "/1", "/2", "/3"] {
            volume.write_file(path, b"").expect("write");
        }
        volume.sync().expect("sync");
        home.set(Behaviour::slow(WRITE));
        let calls = [("/1", 0), ("/2", 10), ("/3", 20)].map(|(path, milliseconds)| {
            let memory = Arc::clone(&memory);
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
        home.set(Behaviour::default());
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}

/// A sync that finds a page in flight twice learns that its second write failed, although another
/// page of the file is changed all the time.
#[test]
fn sync_learns_of_a_failure_beside_a_busy_page() {
    in_worlds(|| {
        let Opened { home, volume, .. } = open(quiet(DataMode::Ordered));
        volume.write_file("/f", &[1; 20 << 10]).expect("write");
        volume.write_file("/g", &[1; 1 << 10]).expect("write");
        volume.sync().expect("sync");
        let nr = volume.resolve("/f", true).expect("it is there");
        let first = volume.blocks_of(nr).expect("blocks")[0].first.get();
        home.set(slow_with_bad(first));
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
        home.set(Behaviour::default());
        file.close().expect_err("it reports the failed writes");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}

/// A sync whose first write of a page fails, and which writes the page again because another page
/// of the file was in flight, has written everything.
#[test]
fn sync_does_not_report_a_failure_that_it_repaired() {
    // Random schedules may start a thread late, so that nothing fails.
    let run = || {
        let Opened { home, volume, .. } = open(quiet(DataMode::Ordered));
        volume.write_file("/f", &[1; 20 << 10]).expect("write");
        volume.sync().expect("sync");
        let nr = volume.resolve("/f", true).expect("it is there");
        let first = volume.blocks_of(nr).expect("blocks")[0].first.get();
        let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
        let change = |block: u64| {
            let written = file.write_at(block * BLOCK_BYTES, &[2; 1 << 10]);
            written.expect("write");
        };
        home.set(Behaviour::slow(WRITE));
        change(10);
        let other = at(&volume, 0, |volume| {
            let file = volume.open_file("/f", OpenFlags::READ_WRITE).expect("open");
            // It learns of the failed write, as all handles do.
            drop(file.sync_data());
            drop(file.close());
        });
        rt::sleep(Nanos::from_millis(10));
        change(0);
        change(10);
        home.set(slow_with_bad(first));
        let whole = at(&volume, 10, Volume::sync);
        rt::sleep(Nanos::from_millis(40));
        home.set(Behaviour::slow(WRITE));
        let synced = whole.join().expect("no panic");
        synced.expect("everything is written");
        other.join().expect("no panic");
        home.set(Behaviour::default());
        file.close().expect_err("it learns of the failed write");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    };
    sim::run(sim::Config::fair(1), run).unwrap_or_else(|error| panic!("{error}"));
}

/// A sync finds a file whose oldest pages the writer daemon is taking.
#[test]
fn sync_finds_a_file_that_changes_its_place_in_the_list() {
    in_worlds(|| {
        let mut options = quiet(DataMode::Ordered);
        options.memory.writer_interval = Nanos::from_millis(100);
        options.memory.dirty_expiry = Nanos::from_millis(50);
        let Opened { memory, volume, .. } = open(options);
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
        let read = device(&memory).read_block(block * BLOCK_BYTES, BLOCK_BYTES as u32);
        let read = read.expect("memory does not fail");
        assert_eq!(read[0], 2, "the page is not written");
        file.close().expect("close");
        let volume = Arc::into_inner(volume).expect("no other thread has it");
        volume.close().expect("close");
    });
}
