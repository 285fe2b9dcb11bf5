//! The cost of a commit in flushes, as (flushes, forced writes) of each device. A change of these
//! numbers is a change of a promise, or of its cost.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice, MeterCounts, MeterDevice};
use jbd2::format::Checksums;
use jbd2::recovery::inspect;
use jbd2::{Config, LogPolicy};

use crate::harness::{Kind, Small};

struct Bench {
    small: Small,
    home: Arc<MeterDevice>,
    log: Arc<MeterDevice>,
}

fn bench(is_external: bool, has_force: bool, change: impl FnOnce(&mut Config)) -> Bench {
    let kind = Kind {
        is_external,
        ..Kind::default()
    };
    let size = 256 * u64::from(kind.block_bytes);
    let device = || {
        let memory = MemoryDevice::new(size).with_geometry(|geometry| {
            geometry.has_volatile_cache = true;
            geometry.has_force_unit_access = has_force;
        });
        Arc::new(MeterDevice::new(Arc::new(memory)))
    };
    let home = device();
    let log = if is_external {
        device()
    } else {
        Arc::clone(&home)
    };
    let location = kind.format(Arc::<MeterDevice>::clone(&log));
    let mut config = kind.config();
    change(&mut config);
    let small = Small::open_with(kind, Arc::<MeterDevice>::clone(&home), location, config);
    Bench { small, home, log }
}

impl Bench {
    /// Flushes and forced writes of both devices during something: home, log. For an internal log
    /// the two are one.
    fn count(&mut self, run: impl FnOnce(&mut Small)) -> [(u64, u64); 2] {
        let before = [self.home.counts(), self.log.counts()];
        run(&mut self.small);
        let after = [self.home.counts(), self.log.counts()];
        let pair = |counts: MeterCounts| (counts.flushes, counts.forced_writes);
        [pair(after[0] - before[0]), pair(after[1] - before[1])]
    }

    fn count_commit(&mut self) -> [(u64, u64); 2] {
        self.count(|small| {
            small.write(1);
            small.write(2);
            small.commit();
        })
    }
}

#[test]
fn a_commit_on_an_internal_log_is_one_flush_and_one_forced_write() {
    let mut bench = bench(false, true, |_| {});
    // The first also writes the journal's superblock, which the same flush covers.
    for _ in 0..3 {
        assert_eq!(bench.count_commit()[0], (1, 1));
    }
    *bench.small.notes.ordered.lock() = Ok(true);
    assert_eq!(
        bench.count_commit()[0],
        (1, 1),
        "ordered data is covered by the same flush"
    );
    assert_eq!(
        *bench.small.notes.home_flushes.lock(),
        4,
        "the client hears of each"
    );
}

#[test]
fn without_forced_writes_it_is_two_flushes() {
    let mut bench = bench(false, false, |_| {});
    for _ in 0..3 {
        assert_eq!(bench.count_commit()[0], (2, 0));
    }
}

#[test]
fn an_asynchronous_commit_is_one_forced_batch() {
    for (has_force, cost) in [(true, (0, 1)), (false, (1, 0))] {
        let two_steps = if has_force { (1, 1) } else { (2, 0) };
        let mut bench = bench(false, has_force, |config| config.async_commit = true);
        assert_eq!(bench.count_commit()[0], two_steps, "a new superblock");
        for _ in 0..3 {
            assert_eq!(bench.count_commit()[0], cost);
        }
        let freed = bench.count(|small| {
            small.free(1);
            small.commit();
        });
        assert_eq!(freed[0], two_steps, "revokes");
        *bench.small.notes.ordered.lock() = Ok(true);
        assert_eq!(bench.count_commit()[0], two_steps, "ordered data");
    }
}

#[test]
fn an_asynchronous_commit_has_a_checksum_of_the_whole_transaction() {
    for checksums in [Checksums::None, Checksums::V1, Checksums::V2, Checksums::V3] {
        let kind = Kind::with_checksums(checksums);
        let device = Arc::new(MemoryDevice::new(256 * u64::from(kind.block_bytes)));
        let log = kind.format(Arc::<MemoryDevice>::clone(&device));
        let config = Config {
            async_commit: true,
            ..kind.config()
        };
        let mut small = Small::open_with(kind, device, log.clone(), config);
        small.write(1);
        small.commit();
        let features = inspect(&log).expect("it can be looked at").features;
        assert!(features.contains(&"journal_checksum"), "{features:?}");
        assert!(features.contains(&"journal_async_commit"), "{features:?}");
        let others = ["journal_checksum_v2", "journal_checksum_v3"];
        assert!(!features.iter().any(|name| others.contains(name)));
    }
}

#[test]
fn an_external_log_adds_a_flush_of_the_home_device_only_for_ordered_data() {
    for (has_force, log_cost) in [(true, (1, 1)), (false, (2, 0))] {
        let mut bench = bench(true, has_force, |_| {});
        for _ in 0..3 {
            assert_eq!(bench.count_commit(), [(0, 0), log_cost]);
        }
        *bench.small.notes.ordered.lock() = Ok(true);
        assert_eq!(bench.count_commit(), [(1, 0), log_cost]);
        assert_eq!(*bench.small.notes.home_flushes.lock(), 1);
    }
}

#[test]
fn a_move_of_the_tail_is_a_flush_of_the_home_device_and_a_forced_write() {
    let mut internal = bench(false, true, |_| {});
    internal.count_commit();
    let cost = internal.count(|small| small.journal.checkpoint_all().expect("it works"));
    // One move, and the superblock that says that the log is empty.
    assert_eq!(cost[0], (1, 2));
    let mut external = bench(true, true, |_| {});
    external.count_commit();
    let cost = external.count(|small| small.journal.checkpoint_all().expect("it works"));
    assert_eq!(cost, [(1, 0), (0, 2)]);
}

#[test]
fn without_barriers_there_is_none() {
    for policy in [LogPolicy::DEFAULT, LogPolicy::LINUX24] {
        for is_external in [false, true] {
            let mut bench = bench(is_external, true, |config| {
                config.barrier = false;
                config.policy = policy;
            });
            *bench.small.notes.ordered.lock() = Ok(true);
            let cost = bench.count(|small| {
                small.write(1);
                small.commit();
                small.journal.checkpoint_all().expect("it works");
            });
            assert_eq!(cost, [(0, 0), (0, 0)]);
        }
    }
}

#[test]
fn a_commit_is_few_requests() {
    let mut bench = bench(true, true, |_| {});
    bench.count_commit();
    let before = bench.log.counts();
    for nr in 0..8 {
        bench.small.write(nr);
    }
    bench.small.commit();
    let counts = bench.log.counts() - before;
    assert!(
        counts.writes <= 3,
        "descriptor and images in one, the commit block in another"
    );
    let device: &dyn BlockDevice = &*bench.log;
    assert!(device.geometry().has_volatile_cache);
}
