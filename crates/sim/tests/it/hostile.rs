//! Races found by hostile worlds, and found again by replays.

use std::collections::BTreeSet;
use std::sync::Arc;

use rt::atomic::{AtomicU64, Ordering};
use rt::{Condvar, Mutex};
use sim::{Config, Failure, Policy, ReplayId};

/// Adds to a number from two tasks in two steps each: one addition can be lost.
fn lost_update() {
    let number = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = ["first", "second"]
        .into_iter()
        .map(|name| {
            let number = Arc::clone(&number);
            rt::spawn(name, move || {
                let old = number.load(Ordering::Relaxed);
                number.store(old + 1, Ordering::Relaxed);
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    assert_eq!(number.load(Ordering::Relaxed), 2, "an addition was lost");
}

/// Tests a condition once and then waits: the notification can come in between.
fn lost_wakeup() {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let shared = Arc::clone(&pair);
    let waiter = rt::spawn("waiter", move || {
        let is_done = *shared.0.lock();
        if !is_done {
            let mut done = shared.0.lock();
            shared.1.wait(&mut done);
        }
    });
    *pair.0.lock() = true;
    pair.1.notify_all();
    waiter.join().unwrap();
}

/// Takes two locks from two tasks, each in its own order.
fn crossed_locks() {
    let locks = Arc::new((Mutex::new(()), Mutex::new(())));
    let shared = Arc::clone(&locks);
    let other = rt::spawn("crosser", move || {
        let _second = shared.1.lock();
        let _first = shared.0.lock();
    });
    {
        let _first = locks.0.lock();
        let _second = locks.1.lock();
    }
    other.join().unwrap();
}

/// Finds the first seed whose world fails, and repeats it from its replay id and from its
/// decisions.
fn check(root: fn(), configure: fn(u64) -> Config) -> Failure {
    let unwatched = |config| Config {
        record_lock_order: false,
        ..config
    };
    assert!(
        sim::run(unwatched(Config::fair(0)), root).is_ok(),
        "a fair world shows nothing"
    );
    let found = (0..500).find_map(|seed| {
        let config = Config {
            record_decisions: true,
            ..unwatched(configure(seed))
        };
        sim::run(config, root).err()
    });
    let found = found.expect("some schedule fails");

    let id: ReplayId = found.replay.to_string().parse().unwrap();
    let again = sim::run(unwatched(Config::replay(&id)), root).unwrap_err();
    assert_eq!(
        (again.trace_hash, &again.replay),
        (found.trace_hash, &found.replay)
    );
    assert_eq!(again.at, found.at);
    found.failure
}

fn is_panic(failure: &Failure) -> bool {
    matches!(failure, Failure::Panicked { message, .. } if message.contains("an addition was lost"))
}

fn is_deadlock(failure: &Failure) -> bool {
    matches!(failure, Failure::Deadlock { .. })
}

#[test]
fn random_worlds_find_planted_bugs() {
    assert!(is_panic(&check(lost_update, Config::random)));
    assert!(is_deadlock(&check(lost_wakeup, Config::random)));
    assert!(is_deadlock(&check(crossed_locks, Config::random)));
}

#[test]
fn pct_worlds_find_planted_bugs() {
    let configure = |seed| Config::pct(seed, 2);
    assert!(is_panic(&check(lost_update, configure)));
    assert!(is_deadlock(&check(lost_wakeup, configure)));
    assert!(is_deadlock(&check(crossed_locks, configure)));
}

#[test]
fn a_list_of_decisions_repeats_a_run() {
    let root = || {
        let log = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..4)
            .map(|task| {
                let log = Arc::clone(&log);
                rt::spawn("logger", move || {
                    for round in 0..10 {
                        log.lock().push((task, round));
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        log.lock().clone()
    };
    let mut orders = BTreeSet::new();
    for seed in 0..50 {
        let config = Config {
            record_decisions: true,
            ..Config::random(seed)
        };
        let original = sim::run(config, root).unwrap();
        let policy = Policy::Replay(original.decisions.clone());
        let id = Config {
            policy,
            ..Config::random(seed)
        }
        .replay_id()
        .to_string();
        let repeated = sim::run(Config::replay(&id.parse().unwrap()), root).unwrap();
        assert_eq!(repeated.value, original.value);
        assert_eq!(repeated.trace_hash, original.trace_hash);
        orders.insert(original.value);
    }
    assert!(orders.len() > 40, "{} orders", orders.len());
}

#[test]
fn hostile_worlds_let_time_pass_at_points() {
    let root = || {
        let flag = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&flag);
        let timer = rt::spawn("timer", move || {
            rt::sleep(crate::ms(3));
            shared.store(1, Ordering::Relaxed);
        });
        let seen = (0..50)
            .filter(|_| flag.load(Ordering::Relaxed) == 1)
            .count();
        timer.join().unwrap();
        seen
    };
    let seen: BTreeSet<usize> = (0..50)
        .map(|seed| sim::run(Config::random(seed), root).unwrap().value)
        .collect();
    assert!(seen.len() > 5, "{seen:?}");
    assert_eq!(sim::run(Config::fair(1), root).unwrap().value, 0);
}
