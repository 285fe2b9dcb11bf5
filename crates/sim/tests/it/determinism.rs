//! The same seed gives the same run; worlds on different OS threads share nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use rt::{Condvar, Cost, Mutex, Nanos};
use sim::{Config, P4_2_66_2003, Report};

use crate::ms;

/// Runs a mixture of tasks, daemons, a device, timers, charges and random numbers.
fn mixed(config: Config) -> Report<Vec<u64>> {
    let root = || {
        let disk = Arc::new((Mutex::new(0_u64), Condvar::new(), Condvar::new()));
        let shared = Arc::clone(&disk);
        sim::spawn_device("disk", move || {
            loop {
                let mut queue = shared.0.lock();
                while *queue == 0 {
                    shared.1.wait(&mut queue);
                }
                drop(queue);
                rt::sleep(Nanos::new(1_000_000 + rt::random_u64() % 1_000_000));
                *shared.0.lock() -= 1;
                sim::trace(rt::monotonic().get());
                sim::requests_in_flight(-1);
                shared.2.notify_all();
            }
        });
        let tasks: Vec<_> = (0..5)
            .map(|index| {
                let disk = Arc::clone(&disk);
                rt::spawn(&format!("task {index}"), move || {
                    let mut total = 0;
                    for _ in 0..20 {
                        rt::charge(Cost::Copy(rt::random_u64() % 100_000));
                        let mut queue = disk.0.lock();
                        *queue += 1;
                        sim::requests_in_flight(1);
                        disk.1.notify_one();
                        let deadline = rt::monotonic() + ms(2);
                        if disk.2.wait_until(&mut queue, deadline) {
                            total += 1;
                        }
                    }
                    total + rt::monotonic().get()
                })
            })
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    };
    sim::run(config, root).unwrap()
}

fn configs(seed: u64) -> [Config; 3] {
    [
        Config::fair(seed),
        Config::random(seed),
        Config::pct(seed, 3),
    ]
    .map(|config| Config {
        host: P4_2_66_2003,
        ..config
    })
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..20 {
        for config in configs(seed) {
            assert_eq!(mixed(config.clone()), mixed(config));
        }
    }
}

#[test]
fn different_seeds_give_different_runs() {
    let hashes: BTreeSet<u64> = (0..30)
        .flat_map(configs)
        .map(|config| mixed(config).trace_hash)
        .collect();
    assert_eq!(hashes.len(), 90);
}

#[test]
fn worlds_on_different_threads_do_not_notice_each_other() {
    let alone: Vec<_> = (0..8)
        .flat_map(configs)
        .map(|config| mixed(config).trace_hash)
        .collect();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                (0..8)
                    .flat_map(configs)
                    .map(|config| mixed(config).trace_hash)
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), alone);
    }
}

#[test]
fn a_hundred_thousand_switches() {
    let root = || {
        let pair = Arc::new((Mutex::new(0_u64), Condvar::new()));
        let tasks: Vec<_> = (0..2)
            .map(|index| {
                let pair = Arc::clone(&pair);
                rt::spawn("player", move || {
                    let mut turn = pair.0.lock();
                    while *turn < 100_000 {
                        if *turn % 2 == index {
                            *turn += 1;
                            pair.1.notify_one();
                        } else {
                            pair.1.wait(&mut turn);
                        }
                    }
                    pair.1.notify_one();
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    };
    let report = sim::run(Config::fair(1), root).unwrap();
    assert!(report.step_count >= 100_000);
}
