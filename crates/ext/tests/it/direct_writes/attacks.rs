//! Direct writes beside everything else that one file can be used for: each task reads what it
//! wrote, and a device that panics ends no other task.

use std::sync::Arc;

use ext::volume::{InodeFlags, RangeChange, SetAttributes, SetTime};
use rt::Nanos;
use testkit::{Behaviour, Random};

use super::{BLOCK, World, run_in};
use crate::rig::Structures;

const BLOCKS: u64 = 160;
const TASKS: u64 = 5;

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
                world.write(direct, block, 1, tag);
                tags[own as usize] = tag;
            }
            16..18 => {
                world.write(cached, block, 1, tag);
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
                run_in(World::new(structures, BLOCKS, true), seed, TASKS, owned);
            });
            run.unwrap_or_else(|error| panic!("{structures:?}, seed {seed}: {error}"));
        }
    }
}

/// Times that a caller sets are times that it has seen.
#[test]
fn times_that_were_set_are_seen() {
    let run = sim::run(sim::Config::fair(1), || {
        let world = World::new(Structures::Ext4, BLOCKS, true);
        let direct = world.open(true);
        world.write(direct, 1, 1, 2);
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
        world.write(direct, 1, 1, 3);
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
            let world = Arc::new(World::new(Structures::Ext4, BLOCKS, false));
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
