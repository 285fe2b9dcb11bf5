//! Direct writes beside everything else that one file can be used for: each task reads what it
//! wrote, and a device that panics ends no other task.

use std::sync::Arc;

use block::trace::Trace;
use block::{BlockDevice, Request};
use ext::Volume;
use ext::options::DataMode;
use ext::volume::{FileId, InodeFlags, NewInode, OpenFlags, RangeChange, SetAttributes, SetTime};
use layout::InodeNr;
use rt::Nanos;
use testkit::{Behaviour, Random, UnreliableDevice};

use crate::rig::{Place, Rig, Structures, device, quiet};

const BLOCK: usize = 1024;
const BLOCKS: u64 = 160;
const TASKS: u64 = 5;

struct World {
    rig: Rig,
    volume: Volume,
    nr: InodeNr,
    slow: Arc<UnreliableDevice>,
}

impl World {
    fn new(structures: Structures, traced: bool) -> Self {
        let rig = Rig::of(structures, Place::Internal, BLOCK as u32, 16 << 20);
        let slow = UnreliableDevice::new(device(&rig.home));
        let device: Arc<dyn BlockDevice> = match traced {
            true => Arc::new(Trace::new().attach(Arc::<UnreliableDevice>::clone(&slow))),
            false => Arc::<UnreliableDevice>::clone(&slow),
        };
        let volume = Volume::open(device, None, quiet(DataMode::Ordered)).expect("it opens");
        let nr = volume
            .create(InodeNr::ROOT, b"file", &NewInode::default())
            .expect("create");
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        let bytes = vec![1; BLOCK * BLOCKS as usize];
        assert_eq!(volume.write(file, 0, &bytes).expect("write"), bytes.len());
        volume.release(file).expect("close");
        volume.sync().expect("sync");
        slow.set(Behaviour {
            of: |request| !matches!(request, Request::Flush),
            ..Behaviour::slow(Nanos::from_micros(100))
        });
        Self {
            rig,
            volume,
            nr,
            slow,
        }
    }

    fn open(&self, direct: bool) -> FileId {
        let flags = OpenFlags {
            direct,
            ..OpenFlags::READ_WRITE
        };
        self.volume.open_inode(self.nr, flags).expect("open")
    }

    fn write(&self, file: FileId, block: u64, tag: u8) {
        let bytes = vec![tag; BLOCK];
        let written = self.volume.write(file, block * BLOCK as u64, &bytes);
        assert_eq!(written.expect("write"), bytes.len());
    }

    fn read(&self, file: FileId, block: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0xEE; count * BLOCK];
        let length = self
            .volume
            .read(file, block * BLOCK as u64, &mut bytes)
            .expect("read");
        bytes.truncate(length);
        bytes
            .chunks(BLOCK)
            .map(|block| {
                assert!(block.iter().all(|byte| *byte == block[0]), "half a write");
                block[0]
            })
            .collect()
    }
}

/// Each task owns every fifth block and reads back what it wrote, while all read sequentially.
fn owned(world: &World, task: u64, mut random: Random) {
    let (cached, direct, stream) = (world.open(false), world.open(true), world.open(false));
    let mut tags = vec![1_u8; (BLOCKS / TASKS) as usize];
    let mut at = random.below(BLOCKS);
    for step in 0..120_u64 {
        let own = random.below(BLOCKS / TASKS);
        let block = own * TASKS + task;
        let tag = (2 + step) as u8;
        match random.below(40) {
            0..16 => {
                world.write(direct, block, tag);
                tags[own as usize] = tag;
            }
            16..18 => {
                world.write(cached, block, tag);
                tags[own as usize] = tag;
            }
            18..28 => {
                let count = 1 + random.below(3) as usize;
                if at + count as u64 >= BLOCKS {
                    at = 0;
                }
                drop(world.read(stream, at, count));
                at += count as u64;
            }
            28..30 => drop(world.read(direct, random.below(BLOCKS - 8), 8)),
            30 => world.volume.sync_file(cached, true).expect("sync"),
            31 | 32 => {
                let what = match random.below(2) {
                    0 => RangeChange::PunchHole,
                    _ => RangeChange::Zero,
                };
                let from = block * BLOCK as u64;
                match world
                    .volume
                    .change_range(world.nr, from, BLOCK as u64, what, true)
                {
                    Ok(()) => tags[own as usize] = 0,
                    Err(error) => panic!("{error}"),
                }
            }
            33 if random.below(8) == 0 => {
                let flags = world.volume.attributes(world.nr).expect("attributes").flags;
                let change = SetAttributes {
                    flags: Some(flags.symmetric_difference(InodeFlags::JOURNAL_DATA)),
                    ..SetAttributes::default()
                };
                world
                    .volume
                    .set_attributes(world.nr, &change)
                    .expect("flags");
            }
            _ => rt::sleep(Nanos::from_micros(random.below(300))),
        }
        let own = random.below(BLOCKS / TASKS);
        let block = own * TASKS + task;
        let file = if random.below(3) == 0 { direct } else { cached };
        assert_eq!(
            world.read(file, block, 1),
            [tags[own as usize]],
            "block {block}"
        );
    }
    for (own, tag) in (0..).zip(&tags) {
        for file in [cached, direct] {
            assert_eq!(world.read(file, own * TASKS + task, 1), [*tag]);
        }
    }
}

#[test]
fn each_task_reads_what_it_wrote() {
    for structures in [Structures::Ext3, Structures::Ext4] {
        for seed in 0..60 {
            let run = sim::run(sim::Config::random(seed), move || {
                let world = Arc::new(World::new(structures, true));
                let threads: Vec<_> = (0..TASKS)
                    .map(|task| {
                        let world = Arc::clone(&world);
                        rt::spawn("worker", move || {
                            owned(&world, task, Random::new(seed * 100 + task))
                        })
                    })
                    .collect();
                for thread in threads {
                    thread.join().expect("no worker panics");
                }
                let World { rig, volume, .. } =
                    Arc::into_inner(world).expect("the workers are gone");
                volume.close().expect("close");
                rig.assert_fsck_clean("after the attack");
            });
            run.unwrap_or_else(|error| panic!("{structures:?}, seed {seed}: {error}"));
        }
    }
}

/// Times that a caller sets are times that it has seen.
#[test]
fn times_that_were_set_are_seen() {
    let run = sim::run(sim::Config::fair(1), || {
        let world = World::new(Structures::Ext4, true);
        let direct = world.open(true);
        world.write(direct, 1, 2);
        let now = rt::wall();
        let time = layout::time::InodeTime::new(now.seconds, now.nanos);
        let change = SetAttributes {
            mtime: Some(SetTime::At(time)),
            ctime: Some(SetTime::At(time)),
            ..SetAttributes::default()
        };
        world
            .volume
            .set_attributes(world.nr, &change)
            .expect("times");
        rt::sleep(Nanos::from_micros(10));
        world.write(direct, 1, 3);
        let mtime = world.volume.attributes(world.nr).expect("attributes").mtime;
        assert!(mtime > time, "{mtime:?}");
    });
    run.unwrap_or_else(|error| panic!("{error}"));
}

/// A device that panics in a direct write takes no other task with it.
#[test]
fn a_device_that_panics() {
    for seed in 0..200 {
        let run = sim::run(sim::Config::random(seed), move || {
            let world = Arc::new(World::new(Structures::Ext4, false));
            world.slow.set(Behaviour {
                panic_after: Some(seed % 40),
                ..Behaviour::slow(Nanos::from_micros(100))
            });
            let threads: Vec<_> = (0..TASKS)
                .map(|task| {
                    let world = Arc::clone(&world);
                    rt::spawn("worker", move || {
                        let (cached, direct) = (world.open(false), world.open(true));
                        let mut random = Random::new(seed * 100 + task);
                        for step in 0..60_u64 {
                            let block = random.below(BLOCKS);
                            let bytes = vec![step as u8; BLOCK];
                            let file = if random.below(4) == 0 { cached } else { direct };
                            if random.below(2) == 0 {
                                let _ = world.volume.write(file, block * BLOCK as u64, &bytes);
                            } else {
                                let mut into = vec![0; 4 * BLOCK];
                                let _ = world.volume.read(file, block * BLOCK as u64, &mut into);
                            }
                        }
                    })
                })
                .collect();
            for thread in threads {
                let _ = thread.join();
            }
            let world = Arc::into_inner(world);
            if let Some(world) = world {
                let file = world.open(true);
                let mut into = vec![0; BLOCKS as usize * BLOCK];
                let _ = world.volume.read(file, 0, &mut into);
                world.slow.set(Behaviour::default());
                let _ = world.volume.close();
            }
        });
        // Some tasks panic with the device, which is an error of the run.
        drop(run);
    }
}
