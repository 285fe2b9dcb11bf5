//! Group commit: callers share commits and wake together; a lone caller never waits for others.

use std::sync::Arc;

use block::{BlockDevice, DeviceError, Geometry, MemoryDevice, Request, Ticket};
use jbd2::{Buffer, Config, Credits, Journal, LogPolicy, Stats};
use layout::{Block, BlockNr, Tid};
use rt::Nanos;

use crate::harness::{Kind, Notes};

/// A device whose flushes take time.
struct Slow(MemoryDevice, Nanos);

impl BlockDevice for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        if batch
            .iter()
            .any(|request| matches!(request, Request::Flush))
        {
            rt::sleep(self.1);
        }
        self.0.submit(batch)
    }

    fn name(&self) -> String {
        "slow".to_owned()
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        None
    }
}

fn journal(policy: LogPolicy) -> Arc<Journal> {
    slow_journal(Nanos::from_millis(1), |config| Config { policy, ..config })
}

fn slow_journal(flush: Nanos, change: impl FnOnce(Config) -> Config) -> Arc<Journal> {
    let kind = Kind {
        log_blocks: 128,
        ..Kind::default()
    };
    let device: Arc<dyn BlockDevice> = Arc::new(Slow(MemoryDevice::new(512 * 1024), flush));
    let log = kind.format(Arc::clone(&device));
    let config = change(kind.config());
    Journal::open(log, device, config, Notes::new()).expect("the log is good")
}

fn write(journal: &Journal, buffer: &Arc<Buffer>) -> Tid {
    let mut handle = journal.start(Credits::blocks(1)).expect("it works");
    handle.write(buffer).expect("it has credits")[0] += 1;
    handle.finish().expect("it works")
}

fn buffer(nr: u64) -> Arc<Buffer> {
    Buffer::new(BlockNr::new(nr), Block::zeroed(1024).into_arc())
}

/// Eight threads make 25 transactions durable each; returns the statistics.
fn eight_callers(policy: LogPolicy) -> Stats {
    let journal = journal(policy);
    let threads: Vec<_> = (0..8)
        .map(|nr| {
            let journal = Arc::clone(&journal);
            rt::spawn("caller", move || {
                let buffer = buffer(nr);
                for _ in 0..25 {
                    let tid = write(&journal, &buffer);
                    journal.commit(tid).expect("it works");
                    assert!(journal.is_durable(tid));
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().expect("no panic"));
    let statistics = journal.stats();
    journal.close().expect("it works");
    statistics
}

#[test]
fn callers_share_commits() {
    for policy in [LogPolicy::DEFAULT, LogPolicy::LINUX24] {
        let statistics = eight_callers(policy);
        assert!(statistics.sync_callers <= 200, "{policy:?}: {statistics:?}");
        assert!(statistics.commits < 120, "{policy:?}: {statistics:?}");
        assert!(statistics.group_size_max >= 4, "{policy:?}: {statistics:?}");
    }
}

/// With the policy of Linux 2.4 a checkpoint commits the transaction that has a block of an older
/// one: that is no caller.
#[test]
fn a_checkpoint_is_not_a_caller() {
    let run = sim::run(sim::Config::fair(1), || {
        let journal = journal(LogPolicy::LINUX24);
        let shared = buffer(0);
        for nr in 1..200 {
            write(&journal, &shared);
            write(&journal, &buffer(nr));
        }
        let statistics = journal.stats();
        journal.close().map(|()| statistics)
    });
    let statistics = run.expect("no deadlock").value.expect("it works");
    assert!(statistics.commits >= 2, "{statistics:?}");
    assert_eq!(statistics.sync_callers, 0, "{statistics:?}");
}

/// A checkpoint that wants the running transaction committed while a caller commits the one before
/// leads that commit afterwards: it is not left to the daemon's interval.
#[test]
fn a_checkpoint_is_woken_to_lead() {
    for seed in 0..300 {
        let run = sim::run(sim::Config::random(seed), || {
            let policy = LogPolicy::LINUX24.with("committer", "caller");
            let policy = policy.expect("there is such a part");
            let flush = Nanos::from_millis(20);
            let journal = slow_journal(flush, |config| Config { policy, ..config });
            let opened = rt::monotonic();
            let threads: Vec<_> = (0..3)
                .map(|nr| {
                    let journal = Arc::clone(&journal);
                    rt::spawn("writer", move || {
                        let shared = buffer(nr);
                        for step in 0..60 {
                            let tid = write(&journal, &shared);
                            write(&journal, &buffer(3 + 100 * nr + step));
                            if nr == 0 {
                                journal.commit(tid).expect("it works");
                            }
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().expect("no panic"));
            let took = rt::monotonic() - opened;
            journal.close().map(|()| took)
        });
        let took = run.expect("no deadlock").value.expect("it works");
        assert!(took < Nanos::from_secs(5), "seed {seed}: {took:?}");
    }
}

#[test]
fn a_lone_caller_waits_for_nobody() {
    for policy in [LogPolicy::DEFAULT, LogPolicy::LINUX24] {
        let journal = journal(policy);
        let buffer = buffer(1);
        for _ in 0..20 {
            let tid = write(&journal, &buffer);
            journal.commit(tid).expect("it works");
        }
        let statistics = journal.stats();
        assert_eq!(statistics.waited_for_group, Nanos::new(0));
        assert_eq!(statistics.commits, 20);
        assert_eq!(statistics.group_size_max, 1);
        journal.close().expect("it works");
    }
}

#[test]
fn a_transaction_is_committed_when_it_is_old() {
    let kind = Kind::default();
    let (home, _) = kind.devices();
    let log = kind.format(Arc::<MemoryDevice>::clone(&home));
    let config = Config {
        commit_interval: Nanos::from_millis(30),
        ..kind.config()
    };
    let journal = Journal::open(log, home, config, Notes::new()).expect("the log is good");
    let tid = write(&journal, &buffer(1));
    assert!(!journal.is_durable(tid));
    let began = rt::monotonic();
    while !journal.is_durable(tid) {
        rt::sleep(Nanos::from_millis(1));
        assert!(
            rt::monotonic() - began < Nanos::from_secs(10),
            "nobody commits"
        );
    }
    journal.close().expect("it works");
}

/// While a slow commit is on its way, the next transaction comes due: it is committed when that one
/// is done, not an interval later.
#[test]
fn a_transaction_that_came_due_behind_a_commit_is_next() {
    let run = sim::run(sim::Config::fair(1), || {
        let flush = Nanos::from_secs(6);
        let journal = slow_journal(flush, |config| Config {
            commit_interval: Nanos::from_secs(5),
            ..config
        });
        let opened = rt::monotonic();
        let first = write(&journal, &buffer(1));
        let caller = Arc::clone(&journal);
        let caller = rt::spawn("caller", move || caller.commit(first).map(drop));
        rt::sleep(Nanos::from_millis(500));
        let second = write(&journal, &buffer(2));
        assert_ne!(first, second);
        while !journal.is_durable(second) {
            rt::sleep(Nanos::from_millis(100));
        }
        let took = rt::monotonic() - opened;
        assert!(took < flush + flush + Nanos::from_secs(1), "after {took:?}");
        caller.join().expect("no panic").expect("it works");
        journal.close()
    });
    run.expect("no deadlock").value.expect("it works");
}

#[test]
fn a_commit_that_is_requested_comes() {
    let journal = journal(LogPolicy::DEFAULT);
    journal.request_commit();
    let tid = write(&journal, &buffer(1));
    assert_eq!(journal.running(), Some(tid));
    journal.request_commit();
    let began = rt::monotonic();
    while !journal.is_durable(tid) {
        rt::sleep(Nanos::from_millis(1));
        assert!(
            rt::monotonic() - began < Nanos::from_secs(10),
            "nobody commits"
        );
    }
    assert_eq!(journal.commit_running(), Ok(None));
    journal.close().expect("it works");
}
