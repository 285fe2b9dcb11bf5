//! Ends of worlds: regular, with tasks left, or by a panic.

use std::sync::Arc;

use rt::atomic::{AtomicBool, AtomicU64, Ordering};
use rt::{Condvar, Mutex, Nanos};
use sim::{Config, Failure};

use crate::{failing, fair, ms};

#[test]
fn the_root_value_comes_back() {
    assert_eq!(fair(|| String::from("done")).value, "done");
}

#[test]
fn a_live_daemon_at_the_end_is_an_error() {
    let error = failing(|| {
        rt::spawn_daemon("ticker", || {
            loop {
                rt::sleep(ms(5));
            }
        });
        rt::sleep(ms(20));
    });
    let Failure::TasksLeft { tasks } = &error.failure else {
        panic!("{error}")
    };
    assert_eq!(tasks.len(), 1);
    assert!(tasks[0].is_daemon && tasks[0].name == "ticker");
}

#[test]
fn a_task_that_nobody_can_wake_is_an_error() {
    let error = failing(|| {
        let pair = Arc::new((Mutex::new(()), Condvar::new()));
        rt::spawn("forgotten", move || pair.1.wait(&mut pair.0.lock()));
    });
    assert!(
        error
            .to_string()
            .contains("task `forgotten` waits for condition variable"),
        "{error}"
    );
}

#[test]
fn daemons_that_see_a_stop_flag_may_end_after_the_root() {
    let report = fair(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        rt::spawn_daemon("writer", move || {
            while !seen.load(Ordering::Relaxed) {
                rt::sleep(Nanos::from_secs(5));
            }
        });
        rt::sleep(Nanos::from_secs(7));
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(report.elapsed, Nanos::from_secs(7));
}

struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn devices_are_dropped_where_they_wait() {
    let dropped = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&dropped);
    fair(move || {
        for index in 0..3 {
            let held = Counted(Arc::clone(&count));
            sim::spawn_device("device", move || {
                let held = held;
                let pair = (Mutex::new(()), Condvar::new());
                let mut guard = pair.0.lock();
                if index == 0 {
                    loop {
                        rt::sleep(ms(1));
                    }
                }
                pair.1.wait(&mut guard);
                drop(held);
            });
        }
        rt::sleep(ms(10));
        // This task never runs.
        let held = Counted(count);
        sim::spawn_device("late", move || drop(held));
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
}

#[test]
fn a_panic_ends_the_run_with_its_message() {
    let error = failing(|| {
        let other = rt::spawn("faulty", || {
            rt::sleep(ms(3));
            let number = 7;
            assert!(number == 8, "the number is {number}");
        });
        rt::sleep(Nanos::from_secs(1));
        other.join().unwrap();
    });
    let Failure::Panicked { task, message, .. } = &error.failure else {
        panic!("{error}")
    };
    assert_eq!(task, "faulty");
    assert!(
        message.contains("ends.rs:") && message.contains("the number is 7"),
        "{message}"
    );
    assert_eq!(error.at, ms(3));
    assert!(!std::thread::panicking());
}

#[test]
fn a_panic_releases_what_the_task_held() {
    let held = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&held);
    failing(move || {
        let lock = Mutex::new(());
        let _counted = Counted(count);
        let _guard = lock.lock();
        panic!("with a lock");
    });
    assert_eq!(held.load(Ordering::Relaxed), 1);
}

#[test]
fn worlds_do_not_nest() {
    let report = fair(|| sim::run(Config::fair(2), || ()).map(|report| report.value));
    assert_eq!(report.value.unwrap_err().failure, Failure::Nested);
    // The thread is in the real world again.
    assert!(!rt::is_simulated());
}

#[test]
fn a_task_can_be_joined_after_its_end_and_its_slot_used_again() {
    let report = fair(|| {
        let early = rt::spawn("early", || 1);
        rt::sleep(ms(1));
        let late = rt::spawn("late", || {
            rt::sleep(ms(1));
            2
        });
        early.join().unwrap() + late.join().unwrap()
    });
    assert_eq!(report.value, 3);
}

#[test]
fn many_tasks_use_few_stacks() {
    let report = fair(|| {
        let total = Arc::new(AtomicU64::new(0));
        for _ in 0..200 {
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    let total = Arc::clone(&total);
                    rt::spawn("short", move || total.fetch_add(1, Ordering::Relaxed))
                })
                .collect();
            for task in tasks {
                task.join().unwrap();
            }
        }
        total.load(Ordering::Relaxed)
    });
    assert_eq!(report.value, 10_000);
}

#[cfg(debug_assertions)]
#[test]
fn a_lock_of_one_world_is_not_for_another() {
    let lock = Arc::new(Mutex::new(()));
    let contend = |lock: Arc<Mutex<()>>| {
        move || {
            let guard = lock.lock();
            let shared = Arc::clone(&lock);
            let other = rt::spawn("other", move || drop(shared.lock()));
            rt::sleep(ms(1));
            drop(guard);
            other.join().unwrap();
        }
    };
    fair(contend(Arc::clone(&lock)));
    let error = failing(contend(lock));
    assert!(error.to_string().contains("an object of world"), "{error}");
}

/// Environment variable set in the process that is to overflow a stack.
const OVERFLOW_VARIABLE: &str = "SIM_TEST_OVERFLOW";

#[inline(never)]
fn descend(depth: u64) -> u64 {
    let page = std::hint::black_box([depth; 128]);
    if depth == u64::MAX {
        0
    } else {
        descend(depth + 1) + page[depth as usize % 128]
    }
}

#[test]
fn a_stack_overflow_names_its_task() {
    if std::env::var_os(OVERFLOW_VARIABLE).is_some() {
        fair(|| rt::spawn("deep", || descend(0)).join().unwrap());
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "ends::a_stack_overflow_names_its_task",
            "--nocapture",
        ])
        .env(OVERFLOW_VARIABLE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("task `deep` of a simulated world overflowed its stack"),
        "{said}"
    );
}
