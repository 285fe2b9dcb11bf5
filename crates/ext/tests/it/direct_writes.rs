//! Direct writes of several threads to one file, in virtual time: they run side by side, and the
//! device never gets two requests for one block of which one is a write.

mod attacks;

use std::sync::Arc;

use block::trace::Trace;
use block::{BlockDevice, Request};
use ext::Volume;
use ext::options::DataMode;
use ext::volume::{FileId, NewInode, OpenFlags, SetAttributes};
use layout::InodeNr;
use rt::Nanos;
use testkit::{Behaviour, Random, UnreliableDevice};

use crate::damage::assert_notices;
use crate::rig::{Place, Rig, Structures, device, quiet};

const BLOCK: usize = 1024;
const BLOCKS: u64 = 32;
const LATENCY: Nanos = Nanos::from_micros(100);

/// A volume with one file, on a device each of whose requests takes a while.
struct World {
    rig: Rig,
    slow: Arc<UnreliableDevice>,
    volume: Volume,
    nr: InodeNr,
}

impl World {
    /// Makes a file of some blocks. A traced device panics if requests for one block meet.
    fn new(structures: Structures, blocks: u64, is_traced: bool) -> Self {
        let rig = Rig::of(structures, Place::Internal, BLOCK as u32, 16 << 20);
        let slow = UnreliableDevice::new(device(&rig.home));
        let mut device: Arc<dyn BlockDevice> = Arc::<UnreliableDevice>::clone(&slow);
        if is_traced {
            device = Arc::new(Trace::new().attach(device));
        }
        let volume = Volume::open(device, None, quiet(DataMode::Ordered)).expect("it opens");
        let nr = volume
            .create(InodeNr::ROOT, b"file", &NewInode::default())
            .expect("create");
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        let bytes = vec![1; BLOCK * blocks as usize];
        assert_eq!(volume.write(file, 0, &bytes).expect("write"), bytes.len());
        volume.release(file).expect("close");
        volume.sync().expect("sync");
        slow.set(Behaviour {
            of: |request| !matches!(request, Request::Flush),
            ..Behaviour::slow(LATENCY)
        });
        Self {
            rig,
            slow,
            volume,
            nr,
        }
    }

    fn open(&self, direct: bool) -> FileId {
        let flags = OpenFlags {
            direct,
            ..OpenFlags::READ_WRITE
        };
        self.volume.open_inode(self.nr, flags).expect("open")
    }

    fn write(&self, file: FileId, block: u64, count: usize, tag: u8) {
        let bytes = vec![tag; count * BLOCK];
        let written = self.volume.write(file, block * BLOCK as u64, &bytes);
        assert_eq!(written.expect("write"), bytes.len());
    }

    /// Reads blocks, each of which has one tag. Returns the tags.
    fn read(&self, file: FileId, block: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count * BLOCK];
        let length = self.volume.read(file, block * BLOCK as u64, &mut bytes);
        bytes.truncate(length.expect("read"));
        let blocks = bytes.chunks(BLOCK);
        let tag = |block: &[u8]| {
            assert!(block.iter().all(|byte| *byte == block[0]), "half a write");
            block[0]
        };
        blocks.map(tag).collect()
    }
}

/// Runs tasks side by side, and compares the cache with the device afterwards.
fn run(seed: u64, tasks: u64, work: fn(&World, u64, Random)) {
    run_in(
        World::new(Structures::Ext3, BLOCKS, true),
        seed,
        tasks,
        work,
    );
}

fn run_in(world: World, seed: u64, tasks: u64, work: fn(&World, u64, Random)) {
    let world = Arc::new(world);
    let threads: Vec<_> = (0..tasks)
        .map(|task| {
            let world = Arc::clone(&world);
            rt::spawn("worker", move || {
                work(&world, task, Random::new(seed * 100 + task));
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no worker panics");
    }
    let size = world.volume.attributes(world.nr).expect("attributes").size;
    let count = size as usize / BLOCK + 8;
    let cached = world.read(world.open(false), 0, count);
    let direct = world.read(world.open(true), 0, count);
    assert_eq!(cached, direct, "the cache has what the device has");
    let World { rig, volume, .. } = Arc::into_inner(world).expect("the workers are gone");
    volume.close().expect("close");
    rig.assert_fsck_clean("after direct writes");
}

fn in_world(config: sim::Config, tasks: u64, work: fn(&World, u64, Random)) {
    let seed = config.seed;
    let run = sim::run(config, move || run(seed, tasks, work));
    run.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}

/// Four threads take less than twice as long as one of them would.
#[test]
fn overwrites_run_side_by_side() {
    const COUNT: u64 = 16;
    in_world(sim::Config::fair(1), 4, |world, task, _| {
        let file = world.open(true);
        let began = rt::monotonic();
        for step in 0..COUNT {
            world.write(file, task * 8 + step % 8, 1, task as u8 + 2);
        }
        let took = rt::monotonic().saturating_sub(began);
        assert!(took < Nanos::new(LATENCY.get() * 2 * COUNT), "{took:?}");
    });
}

/// The time of a file changes with each write that follows a look at it.
#[test]
fn an_overwrite_changes_the_time() {
    in_world(sim::Config::fair(2), 3, |world, task, _| {
        let file = world.open(true);
        let time = || world.volume.attributes(world.nr).expect("attributes").mtime;
        for step in 0..8 {
            let before = time();
            rt::sleep(Nanos::from_micros(1));
            world.write(file, task * 8 + step, 1, 7);
            assert!(time() > before, "{before:?}");
        }
    });
}

#[test]
fn requests_for_one_block_never_meet() {
    for seed in 0..30 {
        in_world(sim::Config::random(seed), 5, mixed);
    }
    assert_notices("direct/read-while-written", || run(3, 5, mixed));
}

/// Reads and writes the file in every way, with sizes that change.
fn mixed(world: &World, task: u64, mut random: Random) {
    let (cached, direct) = (world.open(false), world.open(true));
    for step in 0..30 {
        let block = random.below(BLOCKS);
        let count = 1 + random.below(4) as usize;
        let tag = (task * 30 + step) as u8 + 2;
        match random.below(20) {
            0..8 => world.write(direct, block, count, tag),
            8..10 => world.write(cached, block, count, tag),
            10..13 => drop(world.read(cached, block, count)),
            13..16 => drop(world.read(direct, block, count)),
            16 => world.volume.sync_file(cached, true).expect("sync"),
            17 => {
                let change = SetAttributes {
                    size: Some((BLOCKS - random.below(8)) * BLOCK as u64),
                    ..SetAttributes::default()
                };
                world
                    .volume
                    .set_attributes(world.nr, &change)
                    .expect("size");
            }
            _ => rt::sleep(Nanos::from_micros(random.below(300))),
        }
    }
}
