//! The memory budget: bytes of pages, metadata, inodes and images that the journal pins, sampled
//! continuously while a few tasks use much more than fits.

use std::sync::Arc;

use ext::options::{DataMode, Memory};
use ext::volume::{NewInode, OpenFlags};
use ext::{MountOptions, Volume};
use rt::Nanos;

use crate::rig::{Place, Rig};
use testkit::Random;

const BLOCK_BYTES: u32 = 4096;
const VOLUME_BYTES: u64 = 192 << 20;
const BUDGET_BYTES: u64 = 6 << 20;
/// Bytes that may exceed the budget for a moment: a chunk of each task, and the batch in flight.
const OVERSHOOT_BYTES: u64 = 1 << 20;
/// Bytes that a transaction pins in `data=journal` until it is committed. It has at most a quarter
/// of the log, and its blocks count as page, as buffer and as image that the journal pins.
const PINNED_BYTES: u64 = 3 * 1024 / 4 * BLOCK_BYTES as u64;
const TASKS: u64 = 3;
const FILES: u64 = 40;
const FILE_BYTES: u64 = 1 << 20;

fn work(volume: &Volume, task: u64) {
    let mut random = Random::new(task);
    let directory = volume
        .create_directory(&format!("/task{task}"))
        .expect("mkdir");
    for number in 0..FILES {
        let name = format!("file{number}");
        let new = NewInode::default();
        let nr = volume
            .create(directory, name.as_bytes(), &new)
            .expect("create");
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        let length = random.below(FILE_BYTES);
        let mut done = 0;
        while done < length {
            let part = 1 + random.below(60_000);
            volume
                .write_all(file, done, &vec![number as u8; part as usize])
                .expect("write");
            done += part;
        }
        if number % 7 == 0 {
            volume.sync_file(file, false).expect("fsync");
        }
        let mut bytes = vec![0; 100_000];
        volume
            .read(file, random.below(done), &mut bytes)
            .expect("read");
        volume.release(file).expect("close");
        if number % 5 == 4 {
            let victim = format!("file{}", number - 3);
            volume.unlink(directory, victim.as_bytes()).expect("unlink");
        }
    }
}

fn keep(place: Place, data: DataMode) {
    let made = Rig::new(place, BLOCK_BYTES, VOLUME_BYTES);
    let world = sim::run(sim::Config::random(11), move || {
        let options = MountOptions {
            data,
            memory: Memory {
                budget_bytes: BUDGET_BYTES,
                ..Memory::default()
            },
            ..MountOptions::default()
        };
        let volume = Arc::new(made.open(options));
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let volume = Arc::clone(&volume);
                rt::spawn("worker", move || work(&volume, task))
            })
            .collect();
        let watched = Arc::clone(&volume);
        let watcher = rt::spawn("watcher", move || {
            let mut peak = 0;
            while Arc::strong_count(&watched) > 2 {
                peak = watched.memory_used().max(peak);
                rt::sleep(Nanos::from_micros(10));
            }
            peak
        });
        for task in tasks {
            task.join().expect("it ends well");
        }
        let peak = watcher.join().expect("it ends well");
        let volume = Arc::into_inner(volume).expect("the tasks are gone");
        volume.close().expect("close");
        peak
    });
    let peak = world.unwrap_or_else(|error| panic!("{error}")).value;
    let pinned = if data == DataMode::Journal {
        PINNED_BYTES
    } else {
        0
    };
    let most = BUDGET_BYTES + OVERSHOOT_BYTES + pinned;
    println!("{place:?}, {data:?}: peak {peak} of {BUDGET_BYTES} bytes");
    assert!(peak > BUDGET_BYTES / 2, "{place:?}, {data:?}: {peak} bytes");
    assert!(peak <= most, "{place:?}, {data:?}: {peak} of {most} bytes");
}

#[test]
fn is_kept_in_every_mode() {
    keep(Place::None, DataMode::Ordered);
    for place in [Place::Internal, Place::External] {
        for data in [DataMode::Ordered, DataMode::Writeback, DataMode::Journal] {
            keep(place, data);
        }
    }
}

/// Number of files created and not used again: their inodes alone would take twice the budget.
const NEW_FILES: u32 = 20_000;
/// Number of new files after which they are made durable, because the journal of an image is small.
const NEW_FILES_AT_A_TIME: u32 = 500;

#[test]
fn inodes_of_new_files_are_let_go() {
    let made = Rig::new(Place::Internal, BLOCK_BYTES, VOLUME_BYTES);
    let options = MountOptions {
        memory: Memory {
            budget_bytes: BUDGET_BYTES,
            ..Memory::default()
        },
        ..MountOptions::default()
    };
    let volume = made.open(options);
    let directory = volume.create_directory("/many").expect("mkdir");
    for number in 0..NEW_FILES {
        let name = number.to_string();
        volume
            .create(directory, name.as_bytes(), &NewInode::default())
            .expect("create");
        if number % NEW_FILES_AT_A_TIME == 0 {
            volume.sync().expect("sync");
        }
        let used = volume.memory_used();
        assert!(
            used <= BUDGET_BYTES + OVERSHOOT_BYTES,
            "{used} bytes after {number} files"
        );
    }
    volume.close().expect("close");
}
