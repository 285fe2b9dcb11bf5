//! Truncations and deletions that take many transactions, interrupted at many events of the device.

use std::sync::Arc;

use block::BlockDevice;
use block::trace::{Replay, Trace};
use layout::InodeNr;

use testkit::Random;

use super::testing::{Bench, check, image};
use crate::options::MountOptions;
use crate::{file, namei};

/// Size of a file over so many groups that freeing it dirties more bitmaps than one transaction of
/// the small journal accepts.
const FILE_BYTES: usize = 88 << 20;
const SHORT_BYTES: u64 = 1000;
/// Number of cuts, and the number of those that `e2fsck` checks.
const CUTS: usize = 36;
const CHECKED: usize = 4;

/// The rest of the file: its size, and its first and last bytes.
struct Left {
    size: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Left {
    fn of(bench: &Bench) -> Self {
        let inode = bench.find("big");
        let size = inode.state.read().size;
        let tail = bench.read(&inode, size - size.min(50_000), 50_000);
        Self {
            size: size as usize,
            head: bench.read(&inode, 0, 50_000),
            tail,
        }
    }

    fn is(&self, bytes: &[u8]) -> bool {
        self.size == bytes.len() && bytes.starts_with(&self.head) && bytes.ends_with(&self.tail)
    }
}

/// Changes a big file, cuts the power at many events, and counts the inodes found on the orphan
/// list.
fn interrupt(
    change: impl Fn(&Bench),
    judge: impl Fn(Option<Left>, &[u8]) -> bool,
) -> (usize, usize) {
    let mut options = MountOptions::default();
    options.memory.budget_bytes = 256 << 20;
    let initial = image(
        104 << 20,
        &[
            "-t",
            "ext3",
            "-b",
            "1024",
            "-g",
            "256",
            "-N",
            "3328",
            "-J",
            "size=1",
            "-O",
            "^resize_inode,^meta_bg",
        ],
    );
    let bytes = Random::new(7).bytes(FILE_BYTES);
    let bench = Bench::open(initial.clone(), options.clone());
    bench.write(&bench.create("big"), 0, &bytes);
    bench.close();
    let trace = Trace::new();
    let device = trace
        .attach(Arc::new(initial.snapshot()))
        .with_volatile_cache(true);
    let geometry = device.geometry();
    let bench = Bench::open(Arc::new(device), options.clone());
    change(&bench);
    bench.close();
    let events = trace.events();
    let mut replay = Replay::new(0, geometry, &initial);
    let (mut deleted, mut truncated) = (0, 0);
    let every = events.len().div_ceil(CUTS);
    for (number, event) in events.iter().enumerate() {
        replay.apply(event);
        if number % every != 0 {
            continue;
        }
        let left = Arc::new(match number % 3 {
            0 => replay.image_all_lost(),
            1 => replay.image_all_kept(),
            _ => replay.image(number as u64),
        });
        let (bench, report) = Bench::open_with_report(left.clone(), options.clone());
        deleted += report.orphans_deleted;
        truncated += report.orphans_truncated;
        let found = namei::lookup(&bench.core, InodeNr::ROOT, b"big").ok();
        let found = found.map(|_| Left::of(&bench));
        assert!(judge(found, &bytes), "event {number} of {}", events.len());
        bench.close();
        if (number / every).is_multiple_of(CHECKED) {
            check(&left);
        }
    }
    (deleted, truncated)
}

/// Runs the test in a simulated world, so that commits happen at the same points in every run.
fn in_world(test: fn() -> (usize, usize)) -> (usize, usize) {
    sim::run(sim::Config::fair(1), test)
        .expect("the world ends")
        .value
}

#[test]
fn a_long_truncation_is_finished() {
    let (deleted, truncated) = in_world(|| {
        interrupt(
            |bench| file::truncate(&bench.core, &bench.find("big"), SHORT_BYTES).unwrap(),
            |found, bytes| {
                let found = found.expect("the file stays");
                found.is(bytes) || found.is(&bytes[..SHORT_BYTES as usize])
            },
        )
    });
    assert!(truncated > 0, "some cut came in the middle");
    assert_eq!(deleted, 0);
}

#[test]
fn a_long_deletion_is_finished() {
    let (deleted, truncated) = in_world(|| {
        interrupt(
            |bench| bench.unlink("big"),
            |found, bytes| found.is_none_or(|found| found.is(bytes)),
        )
    });
    assert!(deleted > 0, "some cut came in the middle");
    assert_eq!(truncated, 0);
}
