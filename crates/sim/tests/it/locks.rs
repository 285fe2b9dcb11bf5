//! The locks between simulated tasks.

use std::sync::Arc;

use rt::atomic::{AtomicU64, Ordering};
use rt::{Condvar, Mutex, RwLock};
use sim::Config;

use crate::{fair, ms};

#[test]
fn a_fair_world_hands_locks_over_in_order() {
    let report = fair(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let guard = log.lock();
        let tasks: Vec<_> = (0..5)
            .map(|index| {
                let log = Arc::clone(&log);
                rt::spawn("taker", move || {
                    for _ in 0..3 {
                        let mut log = log.lock();
                        log.push(index);
                        // All other tasks are in the queue by now.
                        rt::sleep(ms(1));
                    }
                })
            })
            .collect();
        rt::sleep(ms(1));
        drop(guard);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        Arc::into_inner(log).unwrap().into_inner()
    });
    assert_eq!(report.value, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
}

#[test]
fn readers_share_and_writers_take_their_turn() {
    let report = fair(|| {
        let lock = Arc::new(RwLock::new(Vec::new()));
        let first = lock.read();
        let spawn = |name: &'static str, is_writer: bool| {
            let lock = Arc::clone(&lock);
            rt::spawn(name, move || {
                if is_writer {
                    let mut log = lock.write();
                    rt::sleep(ms(10));
                    log.push((name, rt::monotonic().as_millis()));
                } else {
                    let log = lock.read();
                    rt::sleep(ms(10));
                    drop(log);
                    let moment = rt::monotonic().as_millis();
                    assert!(moment == 20 || moment == 40, "{name} at {moment}");
                }
            })
        };
        let tasks = [
            spawn("writer 1", true),
            spawn("reader 1", false),
            spawn("reader 2", false),
            spawn("writer 2", true),
            spawn("reader 3", false),
        ];
        drop(first);
        tasks.into_iter().for_each(|task| task.join().unwrap());
        lock.read().clone()
    });
    assert_eq!(report.value, [("writer 1", 10), ("writer 2", 30)]);
    assert_eq!(report.elapsed, ms(40));
}

/// Pushes numbers through a queue of two places, in any kind of world.
fn pipe(config: Config) -> sim::Report<u64> {
    let root = || {
        let queue = Arc::new((Mutex::new(Vec::new()), Condvar::new(), Condvar::new()));
        let sum = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..6_u64)
            .map(|index| {
                let (queue, sum) = (Arc::clone(&queue), Arc::clone(&sum));
                rt::spawn(&format!("task {index}"), move || {
                    for round in 0..50 {
                        let mut items = queue.0.lock();
                        if index % 2 == 0 {
                            while items.len() == 2 {
                                queue.1.wait(&mut items);
                            }
                            items.push(round);
                            queue.2.notify_one();
                        } else {
                            while items.is_empty() {
                                queue.2.wait(&mut items);
                            }
                            sum.fetch_add(items.pop().unwrap(), Ordering::Relaxed);
                            queue.1.notify_one();
                        }
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        sum.load(Ordering::Relaxed)
    };
    sim::run(config, root).unwrap()
}

#[test]
fn condvars_pass_work_in_every_kind_of_world() {
    let expect = 3 * (0..50).sum::<u64>();
    assert_eq!(pipe(Config::fair(3)).value, expect);
    for seed in 0..100 {
        assert_eq!(pipe(Config::random(seed)).value, expect);
        assert_eq!(pipe(Config::pct(seed, 3)).value, expect);
    }
}

#[test]
fn threads_of_the_system_and_tasks_use_the_same_lock_code() {
    let count = |spawns: u64| {
        let total = Arc::new(Mutex::new(0_u64));
        let threads: Vec<_> = (0..spawns)
            .map(|_| {
                let total = Arc::clone(&total);
                rt::spawn("counter", move || {
                    (0..1_000).for_each(|_| *total.lock() += 1)
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        *total.lock()
    };
    assert_eq!(count(4), 4_000);
    assert_eq!(fair(move || count(4)).value, 4_000);
    assert_eq!(
        sim::run(Config::random(5), move || count(4)).unwrap().value,
        4_000
    );
}

#[test]
fn every_task_has_its_own_tag() {
    fair(|| {
        assert_eq!(rt::replace_tag(1), 0);
        let others = (2..5).map(|tag| {
            rt::spawn("other", move || {
                assert_eq!(rt::replace_tag(tag), 0);
                rt::sleep(ms(1));
                rt::tag()
            })
        });
        let others: Vec<_> = others.collect();
        let tags: Vec<u64> = others
            .into_iter()
            .map(|other| other.join().unwrap())
            .collect();
        assert_eq!((rt::tag(), tags), (1, vec![2, 3, 4]));
    });
}
