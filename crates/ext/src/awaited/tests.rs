//! Panics while two threads want the same work: the thread that does not panic must not wait for
//! ever.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use block::memory::MemoryDevice;
use block::{BlockDevice, DeviceError, Geometry, Request, Ticket};
use layout::{BlockNr, InodeNr};
use rt::atomic::{AtomicBool, Ordering};
use rt::{Condvar, Mutex, Nanos};

use crate::cache::buffers::BufferCache;
use crate::disk::metadata::tests::checks;
use crate::disk::metadata::{Kind, Label};
use crate::file::testing::{Bench, check, image};
use crate::options::{Memory, MountOptions};
use crate::volume::close_core;
use crate::{Volume, writeback};

const LABEL: Label = Kind::Contents.of_volume();
const BYTES: u32 = 1024;
/// Time for the second thread to find that the first is at work.
const MOMENT: Nanos = Nanos::from_millis(50);
/// Number of moments to wait before the test fails.
const MOMENTS_MAX: u32 = 200;

/// A device that blocks one kind of request until it is set to panic.
struct Trap {
    inner: Arc<MemoryDevice>,
    catches: fn(&Request) -> bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Set,
    Occupied,
    Sprung,
}

impl Trap {
    fn new(inner: &Arc<MemoryDevice>, catches: fn(&Request) -> bool) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            catches,
            state: Mutex::new(State::Open),
            changed: Condvar::new(),
        })
    }

    fn turn(&self, to: State) {
        *self.state.lock() = to;
        self.changed.notify_all();
    }

    fn wait_for(&self, wanted: State) {
        let mut state = self.state.lock();
        while *state != wanted {
            self.changed.wait(&mut state);
        }
    }
}

impl BlockDevice for Trap {
    fn geometry(&self) -> Geometry {
        Geometry {
            has_volatile_cache: true,
            ..self.inner.geometry()
        }
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let is_caught = batch.iter().any(self.catches) && *self.state.lock() == State::Set;
        if is_caught {
            self.turn(State::Occupied);
            self.wait_for(State::Sprung);
            panic!("a panic on purpose");
        }
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        "trap".to_owned()
    }
}

fn is_read(request: &Request) -> bool {
    matches!(request, Request::Read { .. })
}

fn is_write(request: &Request) -> bool {
    matches!(request, Request::Write { .. })
}

fn is_flush(request: &Request) -> bool {
    matches!(request, Request::Flush)
}

/// Runs two threads: the second starts while the first is in the trap, and the first panics.
fn both_want(trap: &Arc<Trap>, want: impl Fn() + Clone + Send + 'static) {
    trap.turn(State::Set);
    let first = rt::spawn("first", want.clone());
    trap.wait_for(State::Occupied);
    let is_served = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&is_served);
    let second = rt::spawn("second", move || {
        want();
        tells.store(true, Ordering::Release);
    });
    rt::sleep(MOMENT);
    trap.turn(State::Sprung);
    assert!(first.join().is_err(), "it was in the trap");
    let is_served = || is_served.load(Ordering::Acquire);
    for _ in 0..MOMENTS_MAX {
        if is_served() {
            break;
        }
        rt::sleep(MOMENT);
    }
    assert!(is_served(), "the second one waits for ever");
    assert!(second.join().is_ok());
}

#[test]
fn a_block_whose_reading_panics_is_read_by_the_next() {
    let trap = Trap::new(&Arc::new(MemoryDevice::new(1 << 20)), is_read);
    let device: Arc<dyn BlockDevice> = Arc::<Trap>::clone(&trap);
    let cache = Arc::new(BufferCache::new(device, checks(BYTES), true));
    for prefetches in [false, true] {
        let block = BlockNr::new(7 + u64::from(prefetches));
        let cache = Arc::clone(&cache);
        both_want(&trap, move || {
            if prefetches {
                cache.prefetch(&[(block, LABEL)]).unwrap();
            }
            cache.get(block, LABEL).unwrap();
        });
    }
    assert_eq!(cache.bytes().0, 2 * u64::from(BYTES));
}

#[test]
fn an_inode_whose_reading_panics_is_read_by_the_next() {
    let device = image(16 << 20, &["-t", "ext3", "-b", "4096"]);
    let trap = Trap::new(&device, is_read);
    let bench = Bench::open(Arc::<Trap>::clone(&trap), MountOptions::default());
    let core = Arc::clone(&bench.core);
    both_want(&trap, move || {
        // The inode is in a block of the table that has not been read yet; whether it is in use
        // does not matter.
        drop(core.inode(InodeNr::new(900)));
    });
    trap.turn(State::Open);
    bench.close();
}

#[test]
fn pages_whose_writing_panics_are_still_to_be_written() {
    let device = image(16 << 20, &["-t", "ext2", "-b", "4096"]);
    let trap = Trap::new(&device, is_write);
    let bench = Bench::open(Arc::<Trap>::clone(&trap), MountOptions::default());
    let inode = bench.create("file");
    bench.write(&inode, 0, &[7; 100_000]);
    let (core, own) = (Arc::clone(&bench.core), Arc::clone(&inode));
    both_want(&trap, move || drop(writeback::sync(&core, &own, true)));
    assert_eq!(inode.pages.last_error().1, Some(DeviceError::Gone));
    writeback::sync(&bench.core, &inode, true).unwrap();
    assert!(inode.pages.is_idle());
    bench.close();
    check(&device);
}

#[test]
fn buffers_whose_writing_panics_are_written_by_the_next() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let trap = Trap::new(&device, is_write);
    let shared: Arc<dyn BlockDevice> = Arc::<Trap>::clone(&trap);
    let cache = Arc::new(BufferCache::new(shared, checks(BYTES), false));
    let block = BlockNr::new(9);
    cache.write_plain(&cache.get(block, LABEL).unwrap())[0] = 5;
    let own = Arc::clone(&cache);
    both_want(&trap, move || own.write_now(&[block]).unwrap());
    assert_eq!(cache.bytes().1, 0, "the second one has written it");
}

#[test]
fn a_flush_that_panics_is_the_end_for_all_who_wait() {
    let device = image(16 << 20, &["-t", "ext2", "-b", "4096"]);
    let trap = Trap::new(&device, is_flush);
    let bench = Bench::open(Arc::<Trap>::clone(&trap), MountOptions::default());
    let inode = bench.create("file");
    bench.write(&inode, 0, &[7; 100_000]);
    let core = Arc::clone(&bench.core);
    let own = Arc::clone(&inode);
    both_want(&trap, move || drop(writeback::sync(&core, &own, true)));
    assert!(writeback::sync(&bench.core, &inode, true).is_err());
    assert!(
        bench.core.check_writable().is_err(),
        "nothing is promised any more"
    );
    drop(close_core(&bench.core));
}

/// The volume does not wait for its writer when it closes.
#[test]
fn a_writer_that_panics_makes_the_volume_read_only() {
    let device = image(16 << 20, &["-t", "ext2", "-b", "4096"]);
    let trap = Trap::new(&device, is_write);
    let options = MountOptions {
        memory: Memory {
            writer_interval: MOMENT,
            dirty_expiry: Nanos::new(1),
            ..Memory::default()
        },
        ..MountOptions::default()
    };
    let volume = Volume::open(Arc::<Trap>::clone(&trap), None, options).unwrap();
    trap.turn(State::Set);
    volume.write_file("/file", &[7; 100_000]).unwrap();
    trap.wait_for(State::Occupied);
    trap.turn(State::Sprung);
    for _ in 0..MOMENTS_MAX {
        if volume.is_read_only() {
            break;
        }
        rt::sleep(MOMENT);
    }
    assert!(volume.is_read_only());
    assert!(volume.write_file("/more", b"").is_err());
    drop(volume.close());
}
