//! Real threads on one volume: each with its own files, with little memory, a small journal and the
//! writer daemon.

use std::sync::Arc;

use jbd2::LogPolicy;
use testkit::Random;

use super::testing::write_back;
use super::testing::{Bench, check, image};
use crate::file::{self, WriteOptions};
use crate::options::{DataMode, MountOptions};
use crate::tuning::{DirtyOf, Tuning, Writeback, Writers};
use rt::Nanos;

const THREADS: u64 = 6;
const STEPS: u64 = 250;
/// Time after which a worker that has not ended hangs.
const TIME_MAX: Nanos = Nanos::from_secs(600);

fn work(bench: &Arc<Bench>, seed: u64) {
    let mut random = Random::new(seed);
    let mut files: Vec<(String, Arc<crate::cache::inode::Inode>, Vec<u8>)> = Vec::new();
    for step in 0..STEPS {
        if files.len() < 3 {
            let name = format!("file-{seed}-{step}");
            files.push((name.clone(), bench.create(&name), Vec::new()));
        }
        let index = random.below(files.len() as u64) as usize;
        let (name, inode, bytes) = &mut files[index];
        match random.below(20) {
            0..9 => {
                let offset = random.below(bytes.len() as u64 + 5000) as usize;
                let length = 1 + random.below(40_000) as usize;
                let data = random.bytes(length);
                let options = WriteOptions {
                    direct: random.below(5) == 0,
                    ..WriteOptions::default()
                };
                bench.write_with(inode, offset as u64, &data, options);
                let end = offset + data.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[offset..end].copy_from_slice(&data);
            }
            9..13 => {
                let read = bench.read(inode, 0, bytes.len() + 1);
                assert!(read == *bytes, "{name} after {step} steps");
            }
            13..15 => {
                let size = random.below(bytes.len() as u64 + 1);
                file::truncate(&bench.core, inode, size).unwrap();
                bytes.truncate(size as usize);
            }
            15..17 => file::sync(&bench.core, inode, random.below(2) == 0).unwrap(),
            17 => write_back(&bench.core),
            18 => file::sync_all(&bench.core).unwrap(),
            _ => {
                let (name, _, _) = files.swap_remove(index);
                bench.unlink(&name);
            }
        }
    }
    for (name, inode, bytes) in &files {
        assert!(bench.read(inode, 0, bytes.len() + 1) == *bytes, "{name}");
    }
}

fn run(kind: &str, block_bytes: &str, data: DataMode) {
    run_tuned(kind, block_bytes, data, Tuning::default());
}

fn run_tuned(kind: &str, block_bytes: &str, data: DataMode, tuning: Tuning) {
    let device = image(64 << 20, &["-t", kind, "-b", block_bytes]);
    let mut options = MountOptions {
        data,
        tuning,
        ..MountOptions::default()
    };
    options.memory.budget_bytes = 1 << 20;
    options.memory.dirty_expiry = Nanos::from_millis(1);
    options.commit_interval = Nanos::from_millis(50);
    let trace = block::trace::Trace::new();
    let traced = Arc::new(trace.attach(device.clone()).with_volatile_cache(true));
    let bench = Arc::new(Bench::open(traced, options));
    let threads: Vec<_> = (0..THREADS)
        .map(|seed| {
            let bench = Arc::clone(&bench);
            rt::spawn("worker", move || work(&bench, seed))
        })
        .collect();
    let deadline = rt::monotonic() + TIME_MAX;
    // Each worker has a reference to its end.
    while Arc::strong_count(&bench) > 1 {
        assert!(rt::monotonic() < deadline, "a worker hangs");
        rt::sleep(Nanos::from_millis(2));
    }
    for thread in threads {
        assert!(thread.join().is_ok(), "a worker failed");
    }
    let bench = Arc::into_inner(bench).expect("the workers are gone");
    bench.close();
    check(&device);
}

#[test]
fn threads_without_a_journal() {
    run("ext2", "1024", DataMode::Ordered);
}

#[test]
fn threads_in_ordered_mode() {
    run("ext3", "1024", DataMode::Ordered);
    run("ext3", "4096", DataMode::Ordered);
}

#[test]
fn threads_in_writeback_mode() {
    run("ext3", "4096", DataMode::Writeback);
}

/// Writes that no thread waits for, and every other part of a kernel of 2002.
#[test]
fn threads_in_ordered_mode_as_linux24() {
    let tuning = Tuning {
        log_policy: LogPolicy::LINUX24,
        writeback: Writeback {
            dirty_of: DirtyOf::Inactive,
            stop_percent: 20,
            writers: Writers::Submit,
            ..Writeback::default()
        },
        ..Tuning::default()
    };
    for kind in ["ext2", "ext3"] {
        run_tuned(kind, "1024", DataMode::Ordered, tuning);
    }
}

#[test]
fn threads_in_journal_mode() {
    run("ext3", "1024", DataMode::Journal);
    run("ext3", "4096", DataMode::Journal);
}
