//! Errors of devices and of callers: the journal aborts stickily, nothing later is committed, and
//! what is on the device recovers to the last good commit.

use std::sync::Arc;

use block::fault::{Effect, FaultRule, Operations, When};
use block::{BlockDevice, DeviceError, FaultDevice, FaultPlan, MemoryDevice};
use jbd2::{Config, Credits, Error, LogPolicy};
use layout::{SectorNr, Tid};
use rt::Nanos;
use testkit::Random;

use crate::harness::{Kind, Model, Small, check};

fn rule(operations: Operations, when: When) -> FaultPlan {
    let rules = vec![FaultRule {
        operations,
        when,
        effect: Effect::Fail,
    }];
    FaultPlan {
        rules,
        ..FaultPlan::default()
    }
}

struct Bench {
    small: Small,
    home: Arc<MemoryDevice>,
    faults: Arc<FaultDevice>,
}

fn bench(plan: FaultPlan, policy: LogPolicy) -> Bench {
    let kind = Kind::default();
    let (home, _) = kind.devices();
    kind.format(Arc::<MemoryDevice>::clone(&home));
    let faults = Arc::new(FaultDevice::new(Arc::<MemoryDevice>::clone(&home), plan));
    faults.set_armed(false);
    let device: Arc<dyn BlockDevice> = Arc::<FaultDevice>::clone(&faults);
    let config = Config {
        policy,
        ..kind.config()
    };
    let small = Small::open_with(kind, Arc::clone(&device), kind.location(device), config);
    faults.set_armed(true);
    Bench {
        small,
        home,
        faults,
    }
}

impl Bench {
    /// Commits one block after another until an error; what was committed last.
    fn run_to_error(&mut self) -> (Tid, Model, Error) {
        let mut last = (Tid::new(self.small.kind.sequence), self.small.model.clone());
        let mut random = Random::new(9);
        for nr in 0..2000 {
            let Ok(handle) = self.small.journal.start(Credits::default()) else {
                break;
            };
            if handle.finish().is_err() {
                break;
            }
            let tid = self.small.write(nr % 64);
            match self.small.journal.commit(tid) {
                Ok(()) => last = (tid, self.small.model.clone()),
                Err(error) => return (last.0, last.1, error),
            }
            if random.below(16) == 0 {
                let result = self.small.journal.write_back(rt::monotonic(), 8);
                if let Err(error) = result {
                    return (last.0, last.1, error);
                }
            }
        }
        let error = self.small.journal.error().expect("it has aborted");
        (last.0, last.1, error)
    }

    fn check_aborted(&self) {
        let journal = &self.small.journal;
        assert!(matches!(journal.error(), Some(Error::Aborted(_))));
        assert!(matches!(
            journal.start(Credits::default()).map(drop),
            Err(Error::Aborted(_))
        ));
        assert!(matches!(journal.commit_running(), Err(Error::Aborted(_))));
        assert!(matches!(journal.checkpoint_all(), Err(Error::Aborted(_))));
        assert!(matches!(
            journal.write_back(rt::monotonic(), 1),
            Err(Error::Aborted(_))
        ));
        // The thread that met the error tells the client; it may be a daemon.
        while self.small.notes.aborted.lock().is_empty() {
            rt::sleep(Nanos::from_millis(1));
        }
        assert_eq!(
            self.small.notes.aborted.lock().len(),
            1,
            "the client hears of it once"
        );
    }

    /// Checks that recovery finds at least the acknowledged transactions.
    fn check_recovery(self, last: Tid, model: &Model, context: &str) {
        let kind = self.small.kind;
        let journal = Arc::clone(&self.small.journal);
        let after = self.small.after.clone();
        drop(self.small);
        assert!(journal.close().is_err(), "a close says so: {context}");
        self.faults.set_armed(false);
        let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&self.home);
        let log = kind.location(Arc::clone(&device));
        let recovered = jbd2::recovery::recover(&log, &device).expect("the log is good");
        assert_eq!(
            recovered.noted_error,
            Some(-5),
            "the abort is noted: {context}"
        );
        let again = jbd2::recovery::recover(&log, &device).expect("the log is good");
        assert_eq!(again.noted_error, Some(-5), "it stays: {context}");
        jbd2::recovery::forget_error(&log).expect("the device works");
        let again = jbd2::recovery::recover(&log, &device).expect("the log is good");
        assert_eq!(again.noted_error, None, "it is forgotten: {context}");
        let found = recovered.next.advance(u32::MAX - 1);
        assert!(found.is_at_or_after(last), "{found} of {last}: {context}");
        if found == last {
            check(kind, &self.home, model, context);
        } else if let Some(model) = after.get(&found.get()) {
            check(kind, &self.home, model, context);
        }
    }
}

#[test]
fn a_failed_write_aborts_whichever_it_is() {
    for policy in [LogPolicy::DEFAULT, LogPolicy::LINUX24] {
        for number in 1..60 {
            let mut bench = bench(rule(Operations::WRITES, When::Nth(number)), policy);
            let (last, model, error) = bench.run_to_error();
            let context = format!("write {number}, {policy:?}: {error}");
            assert!(matches!(error, Error::Aborted(_)), "{context}");
            bench.check_aborted();
            bench.check_recovery(last, &model, &context);
        }
    }
}

#[test]
fn a_failed_flush_aborts() {
    for number in 1..20 {
        let mut bench = bench(
            rule(Operations::FLUSHES, When::Nth(number)),
            LogPolicy::DEFAULT,
        );
        let (last, model, error) = bench.run_to_error();
        bench.check_aborted();
        bench.check_recovery(last, &model, &format!("flush {number}: {error}"));
    }
}

#[test]
fn a_device_that_goes_away_aborts_and_nothing_hangs() {
    for number in [1, 7, 30] {
        let rules = vec![FaultRule {
            operations: Operations::ALL,
            when: When::Nth(number),
            effect: Effect::Gone,
        }];
        let mut bench = bench(
            FaultPlan {
                rules,
                ..FaultPlan::default()
            },
            LogPolicy::DEFAULT,
        );
        let (_, _, error) = bench.run_to_error();
        assert!(matches!(error, Error::Aborted(_)));
        bench.check_aborted();
        let journal = Arc::clone(&bench.small.journal);
        assert!(journal.close().is_err());
    }
}

#[test]
fn the_tail_never_passes_a_block_that_could_not_be_written_home() {
    // Home blocks fail, the log does not.
    let sectors = When::Sectors {
        from: SectorNr::new(0),
        to: SectorNr::new(crate::harness::BLOCKS * 2),
    };
    for policy in [LogPolicy::DEFAULT, LogPolicy::LINUX24] {
        let mut bench = bench(rule(Operations::WRITES, sectors), policy);
        let (last, model, error) = bench.run_to_error();
        assert!(matches!(error, Error::Aborted(_)));
        bench.check_aborted();
        bench.check_recovery(last, &model, "home");
    }
}

#[test]
fn an_error_of_ordered_data_aborts() {
    let mut bench = bench(FaultPlan::default(), LogPolicy::DEFAULT);
    let first = bench.small.write(1);
    bench.small.journal.commit(first).expect("it works");
    let model = bench.small.model.clone();
    *bench.small.notes.ordered.lock() = Err(DeviceError::Gone);
    let second = bench.small.write(1);
    let error = bench
        .small
        .journal
        .commit(second)
        .expect_err("the data is not there");
    assert_eq!(
        error,
        Error::Aborted(Arc::new(Error::Io(DeviceError::Gone)))
    );
    assert!(!bench.small.journal.is_durable(second));
    assert!(bench.small.journal.is_durable(first));
    assert_eq!(
        bench.small.journal.commit(first),
        Ok(()),
        "what is durable stays so"
    );
    bench.check_aborted();
    bench.check_recovery(first, &model, "ordered data");
}

#[test]
fn a_handle_dropped_after_a_change_aborts() {
    let mut bench = bench(FaultPlan::default(), LogPolicy::DEFAULT);
    let first = bench.small.write(1);
    bench.small.journal.commit(first).expect("it works");
    let model = bench.small.model.clone();
    let buffer = bench.small.buffer(2);
    let mut handle = bench
        .small
        .journal
        .start(Credits::blocks(1))
        .expect("it works");
    let tid = handle.tid();
    handle.write(&buffer).expect("it has credits")[0] = 1;
    drop(handle);
    let error = bench
        .small
        .journal
        .commit(tid)
        .expect_err("half a step is not committed");
    assert_eq!(error, Error::Aborted(Arc::new(Error::Abandoned { tid })));
    bench.check_aborted();
    bench.check_recovery(first, &model, "dropped handle");
}

#[test]
fn a_handle_dropped_by_a_panic_aborts() {
    let mut bench = bench(FaultPlan::default(), LogPolicy::DEFAULT);
    let buffer = bench.small.buffer(2);
    let journal = Arc::clone(&bench.small.journal);
    let thread = rt::spawn("panics", move || {
        let mut handle = journal.start(Credits::blocks(1)).expect("it works");
        handle.write(&buffer).expect("it has credits")[0] = 1;
        panic!("on purpose");
    });
    assert!(thread.join().is_err());
    let result = bench.small.journal.commit_running();
    assert!(matches!(result, Err(Error::Aborted(_))), "{result:?}");
    bench.check_aborted();
}

#[test]
fn a_handle_dropped_before_a_change_is_harmless() {
    let mut bench = bench(FaultPlan::default(), LogPolicy::DEFAULT);
    drop(
        bench
            .small
            .journal
            .start(Credits::blocks(3))
            .expect("it works"),
    );
    let tid = bench.small.write(1);
    bench.small.journal.commit(tid).expect("it works");
    Arc::clone(&bench.small.journal).close().expect("it works");
}

#[test]
fn handles_are_held_to_their_credits() {
    let mut bench = bench(FaultPlan::default(), LogPolicy::DEFAULT);
    let most = bench.small.journal.max_credits();
    let asked = Credits {
        blocks: most,
        revokes: most,
    };
    let handle = bench.small.journal.start(asked).expect("so much fits");
    let tid = handle.finish().expect("it works");
    // A handle of that size ends its transaction, at an instant that a later handle would see.
    bench.small.journal.commit(tid).expect("it works");
    let result = bench
        .small
        .journal
        .start(Credits::blocks(most + 100))
        .map(drop);
    assert!(matches!(result, Err(Error::TooManyCredits { .. })));
    let (one, two) = (bench.small.buffer(1), bench.small.buffer(2));
    let mut handle = bench
        .small
        .journal
        .start(Credits::blocks(1))
        .expect("it works");
    handle.write(&one).expect("it has a credit")[0] = 1;
    handle.write(&one).expect("the second touch is free")[1] = 1;
    assert_eq!(handle.credits_left(), 0);
    assert!(matches!(
        handle.write(&two).map(drop),
        Err(Error::OutOfCredits { .. })
    ));
    assert!(handle.extend(Credits::blocks(1)).expect("it works"));
    handle.write(&two).expect("it has a credit again")[0] = 1;
    assert!(
        !handle.extend(Credits::blocks(most)).expect("it works"),
        "no room: restart"
    );
    let before = handle.tid();
    handle.restart(Credits::blocks(most)).expect("it works");
    assert!(
        handle.tid().is_after(before),
        "it would not have fitted into the old one"
    );
    handle.finish().expect("it works");
}

/// A caller that frees a long map may go on to store an inode after the restart has failed.
#[test]
fn a_handle_whose_restart_failed_answers_with_that_error() {
    let mut bench = bench(FaultPlan::default(), LogPolicy::DEFAULT);
    let most = bench.small.journal.max_credits();
    let one = bench.small.buffer(1);
    let one_block = Credits::blocks(1);
    let mut handle = bench.small.journal.start(one_block).expect("it works");
    handle.write(&one).expect("it has a credit")[0] = 1;
    let tid = handle.tid();
    let error = handle.restart(Credits::blocks(most + 100));
    assert!(matches!(error, Err(Error::TooManyCredits { .. })));
    assert_eq!(handle.write(&one).map(drop), error);
    assert_eq!(handle.forget(one.nr(), Some(&one), false), error);
    assert_eq!(handle.extend(one_block).map(drop), error);
    assert_eq!(handle.tid(), tid);
    assert_eq!(handle.finish().map(drop), error);
    bench
        .small
        .journal
        .commit(tid)
        .expect("what was done is whole");
    Arc::clone(&bench.small.journal).close().expect("it works");
}

#[test]
fn a_closed_journal_starts_nothing() {
    let bench = bench(FaultPlan::default(), LogPolicy::DEFAULT);
    let journal = Arc::clone(&bench.small.journal);
    Arc::clone(&journal).close().expect("it works");
    assert_eq!(
        journal.start(Credits::default()).map(drop),
        Err(Error::Closed)
    );
}

/// The write that says that the log is empty, or another of a checkpoint, finds no room. What is
/// committed next is found after a power cut, also when the superblock is written again for the
/// first revoke, or for the note of an abort.
#[test]
fn what_is_committed_after_a_held_checkpoint_is_found() {
    for number in 1..=3 {
        for aborts in [false, true] {
            let rules = vec![FaultRule {
                operations: Operations::WRITES,
                when: When::Nth(number),
                effect: Effect::NoSpace,
            }];
            let plan = FaultPlan {
                rules,
                ..FaultPlan::default()
            };
            let mut bench = bench(plan, LogPolicy::DEFAULT);
            bench.faults.set_armed(false);
            let tid = bench.small.write(1);
            bench.small.journal.commit(tid).expect("there is room");
            bench.faults.set_armed(true);
            let emptied = bench.small.journal.checkpoint_all();
            assert!(matches!(emptied, Err(Error::Held(_))), "{emptied:?}");
            bench.faults.set_armed(false);
            bench.small.write(2);
            if !aborts {
                bench.small.free(1);
            }
            bench.small.commit();
            if aborts {
                let cause = Error::Stopped("by the test".to_owned());
                bench.small.journal.abort(cause);
            }
            let copy = Arc::new(bench.home.snapshot());
            let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&copy);
            let kind = bench.small.kind;
            let log = kind.location(Arc::clone(&device));
            jbd2::recovery::recover(&log, &device).expect("the log is good");
            let context = format!("write {number} refused, aborts: {aborts}");
            check(kind, &copy, &bench.small.model, &context);
        }
    }
}

/// The log is full, and the write that would free a part of it finds no room. Handles are refused
/// meanwhile, and start when there is room.
#[test]
fn a_full_log_whose_tail_could_not_move_is_freed_when_there_is_room() {
    let run = |mutant| {
        let config = sim::Config {
            mutant,
            ..sim::Config::fair(1)
        };
        sim::run(config, fill_log_without_room)
    };
    run(None).unwrap_or_else(|error| panic!("{error}"));
    if rt::mutant::IS_POSSIBLE {
        let broken = run(Some("tail/refused-move-forgotten"));
        assert!(broken.is_err(), "nobody notices");
    }
}

fn fill_log_without_room() {
    let kind = Kind::default();
    let log = kind.location(Arc::new(MemoryDevice::new(512)));
    let from = log.extents[0].first.get() * u64::from(kind.block_bytes) / SectorNr::SIZE;
    let from = SectorNr::new(from);
    let superblock = When::Sectors { from, to: from + 1 };
    let mut plan = rule(Operations::WRITES, superblock);
    plan.rules[0].effect = Effect::NoSpace;
    let mut bench = bench(plan, LogPolicy::DEFAULT);
    bench.faults.set_armed(false);
    bench.small.write(0);
    bench.small.commit();
    bench.faults.set_armed(true);
    let journal = Arc::clone(&bench.small.journal);
    let buffer = bench.small.buffer(1);
    let change = || -> Result<(), Error> {
        let mut handle = journal.start(Credits::blocks(1))?;
        handle.write(&buffer)?[0] ^= 1;
        handle.finish()?;
        journal.commit_running().map(drop)
    };
    let refused = (0..1000).find_map(|_| change().err());
    assert!(matches!(refused, Some(Error::Held(_))), "{refused:?}");
    let again = journal.start(Credits::blocks(1)).map(drop);
    assert!(matches!(again, Err(Error::Held(_))), "{again:?}");
    bench.faults.set_armed(false);
    change().expect("there is room");
    journal.close().expect("there is room");
}

/// A write fails while the journal is closed, in the closing thread or in the daemon that moves the
/// tail. The close fails if the journal has aborted, whichever thread met the error.
#[test]
fn a_close_reports_the_abort_of_a_daemon() {
    let mut aborted = 0;
    for number in 1..=12 {
        for seed in 0..64 {
            let run = sim::run(sim::Config::random(seed), move || {
                let mut bench = bench(
                    rule(Operations::WRITES, When::Nth(number)),
                    LogPolicy::DEFAULT,
                );
                bench.faults.set_armed(false);
                for nr in 0..12 {
                    bench.small.write(nr);
                    bench.small.write(nr + 12);
                    bench.small.commit();
                }
                bench.faults.set_armed(true);
                let Bench { small, .. } = bench;
                let closed = small.journal.close();
                let is_aborted = !small.notes.aborted.lock().is_empty();
                assert_eq!(closed.is_err(), is_aborted, "{closed:?}");
                is_aborted
            });
            let report = run.unwrap_or_else(|error| panic!("write {number}, seed {seed}: {error}"));
            aborted += u32::from(report.value);
        }
    }
    assert!(aborted > 0, "nothing failed");
}

/// A close asks the daemons to stop, whatever they are about to do: none sleeps on until its
/// interval ends.
#[test]
fn a_close_waits_for_no_interval() {
    for seed in 0..400 {
        let run = sim::run(sim::Config::random(seed), || {
            let mut bench = bench(FaultPlan::default(), LogPolicy::DEFAULT);
            bench.small.write(1);
            bench.small.commit();
            let started = rt::monotonic();
            Arc::clone(&bench.small.journal).close().expect("it works");
            rt::monotonic() - started
        });
        let report = run.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(
            report.value < Nanos::from_secs(1),
            "seed {seed}: a close of {:?}",
            report.value
        );
    }
}
