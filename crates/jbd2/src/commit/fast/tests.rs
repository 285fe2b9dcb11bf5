//! Fast commits of given tags: what a recovery finds, and what is committed as a whole.

use std::collections::BTreeMap;

use block::{BlockDevice, DeviceError, MemoryDevice};
use layout::fast_commit::{TagType, encode};
use layout::{BlockNr, Tid};
use rt::{Mutex, Nanos};

use super::*;
use crate::format::{LogOptions, create};
use crate::recovery::{FastCommits, Holdings, settle};
use crate::superblock::Superblock;
use crate::{Buffer, Client, Config, Credits, Error, Journal, Location, LogExtent};

const BLOCK: u32 = 1024;
const LOG_BLOCKS: u32 = 1450;
const AREA: u32 = 8;

/// A file system whose changes are given.
#[derive(Default)]
struct Given {
    tags: Mutex<Option<Vec<u8>>>,
    collected: Mutex<u32>,
    /// The time that it takes to write ordered data.
    writing: Nanos,
}

impl Client for Given {
    fn commit_begins(&self, _tid: Tid) {}

    fn write_ordered_data(&self, _tid: Tid) -> core::result::Result<bool, DeviceError> {
        Ok(false)
    }

    fn write_data_so_far(&self, _tid: Tid) -> core::result::Result<bool, DeviceError> {
        rt::sleep(self.writing);
        Ok(false)
    }

    fn collect_changes(&self, _tid: Tid) -> Option<Vec<u8>> {
        *self.collected.lock() += 1;
        self.tags.lock().clone()
    }

    fn committed(&self, _tid: Tid) {}

    fn home_flushed(&self, _started: u64) {}

    fn aborted(&self, _error: &Error) {}
}

struct Bench {
    device: Arc<dyn BlockDevice>,
    log: Location,
    client: Arc<Given>,
    journal: Arc<Journal>,
    buffers: Mutex<BTreeMap<u64, Arc<Buffer>>>,
}

fn bench() -> Bench {
    bench_with(AREA, None)
}

/// Returns a bench with daemons, which commit in an interval, and on which data takes a
/// millisecond to write.
fn slow_bench(commit_interval: Nanos) -> Arc<Bench> {
    Arc::new(bench_with(400, Some(commit_interval)))
}

fn bench_with(area: u32, commit_interval: Option<Nanos>) -> Bench {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(2000 * u64::from(BLOCK)));
    let log = Location {
        device: Arc::clone(&device),
        block_bytes: BLOCK,
        extents: vec![LogExtent {
            first: BlockNr::new(500),
            count: LOG_BLOCKS,
        }],
    };
    let options = LogOptions {
        fast_commit_blocks: area + 1,
        ..LogOptions::default()
    };
    create(&log, &options).unwrap();
    let client = Arc::new(Given {
        writing: commit_interval.map_or(Nanos::ZERO, |_| Nanos::from_millis(1)),
        ..Given::default()
    });
    let config = Config {
        fast_commits: true,
        commit_interval: commit_interval.unwrap_or(Nanos::from_secs(5)),
        ..Config::default()
    };
    let open = match commit_interval {
        Some(_) => Journal::open,
        None => Journal::open_quietly,
    };
    let journal = open(
        log.clone(),
        Arc::clone(&device),
        config,
        Arc::<Given>::clone(&client) as Arc<dyn Client>,
    );
    Bench {
        device,
        log,
        client,
        journal: journal.unwrap(),
        buffers: Mutex::default(),
    }
}

impl Bench {
    /// Changes a block. Returns the transaction.
    fn change(&self, nr: u64) -> Tid {
        let make = || Buffer::new(BlockNr::new(nr), Block::zeroed(BLOCK as usize).into_arc());
        let buffer = Arc::clone(self.buffers.lock().entry(nr).or_insert_with(make));
        let credits = Credits {
            blocks: 1,
            revokes: 0,
        };
        let mut handle = self.journal.start(credits).unwrap();
        handle.write(&buffer).unwrap()[0] = nr as u8;
        handle.finish().unwrap()
    }

    fn describe(&self, count: usize) {
        let tag = encode(TagType::Pad, &[7; 100], &[]);
        *self.client.tags.lock() = Some(tag.repeat(count));
    }

    /// Returns the transaction and the number of the fast commits that a recovery finds.
    fn found(&self) -> Option<(Tid, u32)> {
        let mut found = None;
        let copy: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(2000 * u64::from(BLOCK)));
        let blocks = self.device.read_blocks(0, 2000, BLOCK).unwrap();
        copy.write_blocks(0, blocks).unwrap();
        let log = Location {
            device: Arc::clone(&copy),
            ..self.log.clone()
        };
        let apply = |fast: &FastCommits| {
            found = Some((fast.tid, fast.count));
            Ok::<_, Error>(Vec::new())
        };
        settle(&log, &copy, Holdings::Replay, apply).unwrap();
        found
    }

    fn counts(&self) -> (u64, u64) {
        let stats = self.journal.stats();
        (stats.fast_commits, stats.commits)
    }
}

#[test]
fn fast_commits_are_found_until_the_transaction_is_committed() {
    let bench = bench();
    bench.describe(1);
    let tid = bench.change(1);
    for count in 1..4 {
        bench.journal.commit_fast(tid, true).unwrap();
        assert_eq!(bench.found(), Some((tid, count)));
        assert!(!bench.journal.is_durable(tid));
    }
    // An earlier one has everything.
    bench.journal.commit_fast(tid, false).unwrap();
    assert_eq!(bench.counts(), (3, 0));
    bench.journal.commit(tid).unwrap();
    assert_eq!(bench.found(), None);
    // The next transaction has the area from its start on.
    bench.describe(40);
    let tid = bench.change(2);
    bench.journal.commit_fast(tid, true).unwrap();
    assert_eq!(bench.found(), Some((tid, 1)));
    assert_eq!(bench.counts(), (4, 1));
}

#[test]
fn what_does_not_fit_or_has_no_tags_is_committed_as_a_whole() {
    let bench = bench();
    let tid = bench.change(1);
    bench.journal.commit_fast(tid, true).unwrap();
    assert!(bench.journal.is_durable(tid));
    assert_eq!(bench.counts(), (0, 1));
    bench.describe(30);
    let tid = bench.change(1);
    bench.journal.commit_fast(tid, true).unwrap();
    bench.journal.commit_fast(tid, true).unwrap();
    assert_eq!(bench.counts(), (2, 1));
    assert_eq!(bench.found(), Some((tid, 2)));
    // 8 blocks have no room for a third one of 4.
    bench.journal.commit_fast(tid, true).unwrap();
    assert_eq!(bench.counts(), (2, 2));
    assert!(bench.journal.is_durable(tid));
    assert_eq!(bench.found(), None);
}

/// A checkpoint that writes everything leaves the log with its fast commits.
#[test]
fn a_log_with_fast_commits_is_not_marked_as_empty() {
    let bench = bench();
    bench.describe(1);
    let first = bench.change(1);
    bench.journal.commit(first).unwrap();
    let second = bench.change(2);
    bench.journal.commit_fast(second, true).unwrap();
    let shared = bench.journal.shared();
    shared.checkpoint_all().unwrap();
    let superblock = Superblock::load(&bench.log).unwrap();
    assert!(superblock.start().is_some() && superblock.fast_commit_area().is_some());
    assert_eq!(superblock.sequence(), second);
    assert_eq!(bench.found(), Some((second, 1)));
    bench.journal.commit(second).unwrap();
    shared.checkpoint_all().unwrap();
    let superblock = Superblock::load(&bench.log).unwrap();
    assert!(superblock.start().is_none() && superblock.fast_commit_area().is_none());
    // A log that is marked as empty is marked otherwise by the first fast commit.
    let third = bench.change(3);
    bench.journal.commit_fast(third, true).unwrap();
    assert_eq!(bench.found(), Some((third, 1)));
}

/// Callers that come together share fast commits, and each change is collected after it was made.
#[test]
fn callers_share_fast_commits() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 6;
    for seed in 0..40 {
        let run = || {
            let bench = Arc::new(bench());
            bench.describe(0);
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let bench = Arc::clone(&bench);
                    rt::spawn("caller", move || {
                        for _ in 0..ROUNDS {
                            let tid = bench.change(10 + number);
                            let before = *bench.client.collected.lock();
                            bench.journal.commit_fast(tid, true).unwrap();
                            let is_durable = bench.journal.is_durable(tid);
                            assert!(is_durable || *bench.client.collected.lock() > before);
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("no thread panics");
            }
            let (fast, whole) = bench.counts();
            assert!(fast >= ROUNDS && fast + whole <= THREADS * ROUNDS);
        };
        sim::run(sim::Config::random(seed), run)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// A caller that an earlier fast commit has served waits for nothing, and is no member of a group.
#[test]
fn a_caller_that_is_served_does_not_join() {
    let bench = bench();
    bench.describe(1);
    let tid = bench.change(1);
    bench.journal.commit_fast(tid, true).unwrap();
    bench.journal.commit_fast(tid, false).unwrap();
    let state = bench.journal.shared().state.lock();
    let running = state.running.as_ref().expect("it goes on");
    assert_eq!((running.callers, state.fast.callers), (0, 0));
}

/// The daemon sleeps, so that a transaction that is full is committed at once or very late.
#[test]
fn a_full_transaction_is_committed_among_fast_commits() {
    for seed in 0..40 {
        let run = || {
            let bench = slow_bench(Nanos::from_secs(1000));
            bench.describe(1);
            let other = Arc::clone(&bench);
            let syncing = rt::spawn("syncing", move || {
                for _ in 0..100 {
                    let tid = other.change(1);
                    other.journal.commit_fast(tid, true).unwrap();
                    other.journal.commit_fast(tid, false).unwrap();
                }
            });
            for number in 0..1000 {
                let began = rt::monotonic();
                bench.change(2 + number % 480);
                let waited = rt::monotonic().saturating_sub(began);
                assert!(waited < Nanos::from_millis(100), "{waited:?}");
                rt::sleep(Nanos::from_micros(50));
            }
            syncing.join().expect("no panic");
            let (fast, whole) = bench.counts();
            assert!(
                fast > whole && whole > 2,
                "{fast} fast commits, {whole} others"
            );
        };
        sim::run(sim::Config::random(seed), run)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Callers that come one after another without a pause leave the daemon no turn.
#[test]
fn a_transaction_that_is_due_is_committed_as_a_whole() {
    const ROUNDS: u64 = 60;
    for seed in 0..20 {
        let run = || {
            let interval = Nanos::from_millis(20);
            let bench = slow_bench(interval);
            bench.describe(1);
            let began = rt::monotonic();
            let threads = [1, 2, 3].map(|nr| {
                let bench = Arc::clone(&bench);
                rt::spawn("caller", move || {
                    for _ in 0..ROUNDS {
                        let tid = bench.change(nr);
                        bench.journal.commit_fast(tid, true).unwrap();
                    }
                })
            });
            for thread in threads {
                thread.join().expect("no thread panics");
            }
            let took = rt::monotonic().saturating_sub(began);
            let (fast, whole) = bench.counts();
            // A fast commit may be in progress when the transaction is due.
            assert!(fast > whole && whole >= took.get() / (interval.get() * 2));
        };
        sim::run(sim::Config::random(seed), run)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
