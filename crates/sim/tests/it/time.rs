//! Virtual time: sleeping, charging, processors and daemons' timers.

use std::sync::Arc;

use rt::{Condvar, Cost, Memory, Mutex, Nanos, WallTime};
use sim::{CLOUD_VM, Config, HostProfile, P4_2_66_2003, XEON_5130, ZERO};

use crate::{fair, ms};

#[test]
fn sleep_jumps_to_the_moment() {
    let report = fair(|| {
        rt::sleep(Nanos::from_secs(86_400));
        rt::sleep_until(Nanos::ZERO);
        rt::monotonic()
    });
    assert_eq!(report.value, Nanos::from_secs(86_400));
    assert_eq!(report.elapsed, report.value);
}

#[test]
fn wall_time_is_the_epoch_and_the_clock() {
    let epoch = WallTime {
        seconds: -1,
        nanos: 900_000_000,
    };
    let config = Config {
        epoch,
        ..Config::fair(1)
    };
    let report = sim::run(config, || {
        let before = rt::wall();
        rt::sleep(ms(200));
        (before, rt::wall())
    });
    let after = WallTime {
        seconds: 0,
        nanos: 100_000_000,
    };
    assert_eq!(report.unwrap().value, (epoch, after));
}

#[test]
fn sleepers_wake_in_order_of_their_moments() {
    let report = fair(|| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let sleepers: Vec<_> = [30, 10, 20, 10]
            .into_iter()
            .enumerate()
            .map(|(index, span)| {
                let order = Arc::clone(&order);
                rt::spawn("sleeper", move || {
                    rt::sleep(ms(span));
                    order.lock().push((rt::monotonic().as_millis(), index));
                })
            })
            .collect();
        sleepers
            .into_iter()
            .for_each(|sleeper| sleeper.join().unwrap());
        order.lock().clone()
    });
    assert_eq!(report.value, [(10, 1), (10, 3), (20, 2), (30, 0)]);
}

fn computing(host: HostProfile, tasks: u64, syscalls: u64) -> sim::Report<Nanos> {
    let config = Config {
        host,
        ..Config::fair(1)
    };
    let root = move || {
        let workers: Vec<_> = (0..tasks)
            .map(|_| {
                rt::spawn("worker", move || {
                    (0..syscalls).for_each(|_| rt::charge(Cost::Syscall))
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        rt::monotonic()
    };
    sim::run(config, root).unwrap()
}

#[test]
fn tasks_share_the_processors() {
    let report = computing(P4_2_66_2003, 8, 1_000);
    assert_eq!(report.value, ms(8));
    assert_eq!(report.cpu_busy, ms(8));
    assert_eq!(
        computing(P4_2_66_2003.with_cpu_count(4), 8, 1_000).value,
        ms(2)
    );
    assert_eq!(computing(P4_2_66_2003.scaled(1_500), 2, 1_000).value, ms(3));
    assert_eq!(computing(CLOUD_VM, 1, 1_000).value, Nanos::from_micros(200));
    assert_eq!(computing(ZERO, 8, 1_000).value, Nanos::ZERO);
}

/// Returns the virtual time of 1,000 reads of 4 KiB from the start of a file of this size.
fn reading(host: HostProfile, pages: u64) -> Nanos {
    let config = Config {
        host,
        ..Config::fair(1)
    };
    let root = move || {
        for read in 0..1_000 {
            let offset = read % pages * 4096;
            let from = Memory { owner: 1, offset };
            rt::charge(Cost::CopyOut { from, bytes: 4096 });
        }
        rt::monotonic()
    };
    sim::run(config, root).unwrap().value
}

#[test]
fn reads_cost_what_the_profile_says_by_the_size_of_the_working_set() {
    // The access, the file's page and the buffer's: from memory once, then from a cache.
    let first = |file: u64| 300 + file + 2 * 2_214;
    let again = |file: u64| 300 + file + 192;
    let p4 = |pages| reading(P4_2_66_2003, pages).get();
    assert_eq!(p4(1), first(2_214) + 999 * again(192));
    assert_eq!(p4(16), first(2_214) + 15 * again(2_214) + 984 * again(361));
    assert_eq!(p4(1_000), first(2_214) + 999 * again(2_214));
    assert_eq!(reading(ZERO, 16), Nanos::ZERO);
    // 4 MB of cache hold what 512 KB do not.
    assert_eq!(
        reading(XEON_5130, 1).get(),
        100 + 3 * 640 + 999 * (100 + 2 * 256)
    );
    assert!(reading(XEON_5130, 400) < reading(XEON_5130, 1_000));
}

#[test]
fn writes_cross_the_memory_bus_twice() {
    let config = Config {
        host: P4_2_66_2003,
        ..Config::fair(1)
    };
    let report = sim::run(config, || {
        let into = Memory {
            owner: 1,
            offset: 0,
        };
        rt::charge(Cost::CopyIn { into, bytes: 4096 });
        let first = rt::monotonic();
        rt::charge(Cost::CopyIn { into, bytes: 4096 });
        (first, rt::monotonic() - first)
    });
    let times = (
        Nanos::new(300 + 2_214 + 2 * 2_214),
        Nanos::new(300 + 2 * 192),
    );
    assert_eq!(report.unwrap().value, times);
}

#[test]
fn a_search_costs_its_entries() {
    let config = Config {
        host: P4_2_66_2003,
        ..Config::fair(1)
    };
    let report = sim::run(config, || {
        rt::charge(Cost::Search {
            lookups: 2,
            entries: 4_000,
        });
        rt::monotonic()
    });
    assert_eq!(report.unwrap().value, Nanos::new(2 * 500 + 4_000 * 19));
}

#[test]
fn debt_is_paid_before_a_clock_is_read_and_before_a_wake() {
    let config = Config {
        host: P4_2_66_2003,
        ..Config::fair(1)
    };
    let report = sim::run(config, || {
        rt::charge(Cost::Handle);
        let first = rt::monotonic();
        let pair = Arc::new((Mutex::new(Nanos::ZERO), Condvar::new()));
        let shared = Arc::clone(&pair);
        let waiter = rt::spawn("waiter", move || {
            let mut told = shared.0.lock();
            while *told == Nanos::ZERO {
                shared.1.wait(&mut told);
            }
            rt::monotonic()
        });
        rt::sleep(ms(1));
        *pair.0.lock() = Nanos::new(1);
        rt::charge(Cost::Request);
        pair.1.notify_one();
        (first, waiter.join().unwrap())
    });
    let (first, woken) = report.unwrap().value;
    assert_eq!(first, Nanos::from_micros(2));
    assert_eq!(woken, Nanos::from_micros(2 + 1_000 + 10));
}

#[test]
fn a_lock_is_held_while_its_holder_computes() {
    let config = Config {
        host: P4_2_66_2003.with_cpu_count(2),
        ..Config::fair(1)
    };
    let report = sim::run(config, || {
        let lock = Arc::new(Mutex::new(()));
        let shared = Arc::clone(&lock);
        let guard = lock.lock();
        let other = rt::spawn("other", move || {
            let _guard = shared.lock();
            rt::monotonic()
        });
        rt::charge(Cost::Copy(4096 * 100));
        drop(guard);
        other.join().unwrap()
    });
    assert_eq!(report.unwrap().value, Nanos::new(100 * 3 * 2_214));
}

#[test]
fn a_wait_with_a_deadline_ends_at_it_or_before() {
    let report = fair(|| {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let shared = Arc::clone(&pair);
        let teller = rt::spawn("teller", move || {
            rt::sleep(ms(30));
            *shared.0.lock() = true;
            shared.1.notify_all();
        });
        let mut told = pair.0.lock();
        let first = (pair.1.wait_until(&mut told, ms(10)), rt::monotonic());
        let second = (pair.1.wait_until(&mut told, ms(100)), rt::monotonic());
        // The queue is empty: this wakes no task and loses nothing.
        pair.1.notify_all();
        let third = (pair.1.wait_until(&mut told, ms(5)), rt::monotonic());
        drop(told);
        teller.join().unwrap();
        [first, second, third]
    });
    assert_eq!(
        report.value,
        [(true, ms(10)), (false, ms(30)), (true, ms(30))]
    );
}
