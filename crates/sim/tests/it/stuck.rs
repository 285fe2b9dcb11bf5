//! Deadlocks, limits, and waits that are no deadlock.

use std::sync::Arc;

use rt::{Condvar, Mutex, Nanos, RwLock};
use sim::{Config, Failure};

use crate::{failing, fair, ms};

#[test]
fn a_deadlock_names_tasks_and_locks() {
    let error = failing(|| {
        let first = Arc::new(Mutex::new(()));
        let second = Arc::new(RwLock::new(()));
        let shared = (Arc::clone(&first), Arc::clone(&second));
        let other = rt::spawn("other", move || {
            let _second = shared.1.write();
            rt::sleep(ms(2));
            let _first = shared.0.lock();
        });
        let address = std::ptr::from_ref(&*first).addr();
        let _first = first.lock();
        rt::sleep(ms(1));
        rt::spawn("reader", move || drop(second.read()));
        other.join().unwrap();
        address
    });
    let text = error.to_string();
    let Failure::Deadlock { tasks } = error.failure else {
        panic!("{text}")
    };
    let waits: Vec<_> = tasks
        .iter()
        .map(|task| (&*task.name, &*task.waits_for))
        .collect();
    let expect = [
        ("root", "the end of task `other`"),
        ("other", "mutex"),
        ("reader", "read lock"),
    ];
    assert_eq!(waits, expect);
    assert!(tasks[1].address.is_some() && tasks[1].since == ms(2));
    assert_eq!(error.at, ms(2));
    assert!(text.contains("task `other` waits for mutex 0x"), "{text}");
    assert!(text.contains("sim2:fair:1:zero"), "{text}");
}

fn waits_for_ever() {
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    condvar.wait(&mut mutex.lock());
}

#[test]
fn a_deadlock_is_explained_by_backtraces() {
    let error = sim::run_explained(Config::random(3), waits_for_ever).unwrap_err();
    let Failure::Deadlock { tasks } = &error.failure else {
        panic!("{error}")
    };
    assert!(
        tasks[0]
            .backtrace
            .as_ref()
            .unwrap()
            .contains("waits_for_ever"),
        "{error}"
    );
}

#[test]
fn a_daemon_that_only_ticks_does_not_hide_a_deadlock() {
    let error = failing(|| {
        rt::spawn_daemon("ticker", || {
            loop {
                rt::sleep(Nanos::from_secs(5));
            }
        });
        rt::spawn_daemon("idler", waits_for_ever);
        waits_for_ever();
    });
    assert!(matches!(error.failure, Failure::Deadlock { .. }), "{error}");
    assert_eq!(error.at, Nanos::from_secs(10));
    assert!(
        error
            .to_string()
            .contains("daemon `idler` waits for condition variable"),
        "{error}"
    );
}

#[test]
fn a_daemon_that_wakes_somebody_at_its_second_tick_is_waited_for() {
    let report = fair(|| {
        let pair = Arc::new((Mutex::new(0), Condvar::new()));
        let shared = Arc::clone(&pair);
        let daemon = rt::spawn_daemon("committer", move || {
            for tick in 1..=20 {
                rt::sleep(Nanos::from_secs(5));
                if tick % 2 == 0 {
                    *shared.0.lock() = tick;
                    shared.1.notify_all();
                }
            }
        });
        let mut tick = pair.0.lock();
        while *tick < 20 {
            pair.1.wait(&mut tick);
        }
        drop(tick);
        daemon.join().unwrap();
    });
    assert_eq!(report.elapsed, Nanos::from_secs(100));
}

#[test]
fn a_request_in_flight_is_no_deadlock() {
    let report = fair(|| {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = Arc::clone(&pair);
        sim::spawn_device("disk", move || {
            sim::requests_in_flight(1);
            (0..1_000).for_each(|_| rt::sleep(ms(1)));
            sim::requests_in_flight(-1);
            *shared.0.lock() = true;
            shared.1.notify_all();
        });
        let mut done = pair.0.lock();
        while !*done {
            pair.1.wait(&mut done);
        }
    });
    assert_eq!(report.elapsed, Nanos::from_secs(1));
}

#[test]
fn limits_end_a_run() {
    let endless = || loop {
        rt::sleep(ms(1));
    };
    let config = Config {
        time_max: Nanos::from_secs(1),
        ..Config::fair(1)
    };
    let error = sim::run(config, endless)
        .map(|report: sim::Report<()>| report.value)
        .unwrap_err();
    assert!(
        matches!(error.failure, Failure::TimeLimit { .. }),
        "{error}"
    );

    let config = Config {
        step_count_max: 1_000,
        ..Config::fair(1)
    };
    let error = sim::run(config, endless)
        .map(|report: sim::Report<()>| report.value)
        .unwrap_err();
    assert!(
        matches!(error.failure, Failure::StepLimit { limit: 1_000, .. }),
        "{error}"
    );
}

#[test]
fn a_hostile_world_that_spins_at_points_reaches_its_limit() {
    let config = Config {
        step_count_max: 10_000,
        ..Config::random(1)
    };
    let spin = || loop {
        rt::point();
    };
    let error = sim::run(config, spin)
        .map(|report: sim::Report<()>| report.value)
        .unwrap_err();
    assert!(
        matches!(error.failure, Failure::StepLimit { .. }),
        "{error}"
    );
}

/// Takes two locks in one order or the other.
fn ordered(is_reversed: bool) {
    struct First;
    struct Second;
    let (first, second) = (Mutex::new(First), Mutex::new(Second));
    if is_reversed {
        drop((second.lock(), first.lock()));
    } else {
        drop((first.lock(), second.lock()));
    }
}

#[test]
#[cfg(debug_assertions)]
fn two_orders_in_two_worlds_are_found() {
    fair(|| ordered(false));
    let error = sim::run(Config::fair(1), || ordered(true)).unwrap_err();
    assert!(
        matches!(&error.failure, Failure::Panicked { message, .. } if message.contains("two orders")),
        "{error}"
    );
}
