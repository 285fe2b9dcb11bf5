//! Tests of the locks between threads of the operating system.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests look at the locks from outside"
)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rt::{Condvar, Mutex, Nanos, RwLock};

const THREADS: usize = 8;
const ROUNDS: usize = 20_000;

/// Runs `body` on several threads at once and waits for them.
fn together(count: usize, body: impl Fn(usize) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let threads: Vec<_> = (0..count)
        .map(|index| {
            let body = Arc::clone(&body);
            rt::spawn(&format!("thread {index}"), move || body(index))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_mutex_lets_in_one_at_a_time() {
    let counter = Arc::new(Mutex::new((0_usize, 0_usize)));
    let shared = Arc::clone(&counter);
    together(THREADS, move |_| {
        for round in 0..ROUNDS {
            let mut pair = shared.lock();
            pair.0 += 1;
            if round % 1_024 == 0 {
                std::thread::yield_now();
            }
            pair.1 += 1;
            assert_eq!(pair.0, pair.1);
        }
    });
    assert_eq!(*counter.lock(), (THREADS * ROUNDS, THREADS * ROUNDS));
    assert!(!counter.is_locked());
}

#[test]
fn a_mutex_can_be_tried() {
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    assert!(mutex.try_lock().is_none());
    drop(guard);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_waiter_is_not_overtaken_for_ever() {
    let mutex = Arc::new(Mutex::new(false));
    let shared = Arc::clone(&mutex);
    let mut guard = mutex.lock();
    let waiter = rt::spawn("waiter", move || *shared.lock() = true);
    let mut relock_count = 0_u32;
    while !*guard {
        drop(guard);
        guard = mutex.lock();
        // Holds the lock nearly always.
        for _ in 0..2_000 {
            std::hint::spin_loop();
        }
        relock_count += 1;
        assert!(relock_count < 10_000_000, "the waiter never got the lock");
    }
    drop(guard);
    waiter.join().unwrap();
}

#[test]
fn a_rwlock_keeps_writers_apart() {
    let lock = Arc::new(RwLock::new((0_usize, 0_usize)));
    let shared = Arc::clone(&lock);
    together(THREADS, move |index| {
        for round in 0..ROUNDS {
            if (round + index).is_multiple_of(4) {
                let mut pair = shared.write();
                pair.0 += 1;
                pair.1 += 1;
            } else {
                let pair = shared.read();
                assert_eq!(pair.0, pair.1);
            }
        }
    });
    assert_eq!(lock.read().0, THREADS * ROUNDS / 4);
    assert!(lock.try_write().is_some());
}

#[test]
fn readers_share_and_a_waiting_writer_stops_new_ones() {
    let lock = Arc::new(RwLock::new(0));
    let first = lock.read();
    let second = lock.try_read();
    assert!(second.is_some());
    assert!(lock.try_write().is_none());
    let shared = Arc::clone(&lock);
    let writer = rt::spawn("writer", move || *shared.write() = 1);
    while lock.try_read().is_some() {
        rt::sleep(Nanos::from_micros(100));
    }
    drop(second);
    drop(first);
    writer.join().unwrap();
    assert_eq!(*lock.read(), 1);
}

#[test]
fn a_condvar_passes_work_through_a_small_queue() {
    struct Queue {
        items: Mutex<VecDeque<usize>>,
        changed: Condvar,
    }
    let queue = Arc::new(Queue {
        items: Mutex::new(VecDeque::new()),
        changed: Condvar::new(),
    });
    let sum = Arc::new(AtomicUsize::new(0));
    let (shared, total) = (Arc::clone(&queue), Arc::clone(&sum));
    together(THREADS, move |index| {
        for round in 0..2_000 {
            let mut items = shared.items.lock();
            if index % 2 == 0 {
                while items.len() >= 4 {
                    shared.changed.wait(&mut items);
                }
                items.push_back(round);
            } else {
                let item = loop {
                    match items.pop_front() {
                        Some(item) => break item,
                        None => shared.changed.wait(&mut items),
                    }
                };
                total.fetch_add(item, Ordering::Relaxed);
            }
            shared.changed.notify_all();
        }
    });
    assert_eq!(
        sum.load(Ordering::Relaxed),
        THREADS / 2 * (0..2_000).sum::<usize>()
    );
}

#[test]
fn notify_one_loses_no_wakeup() {
    let pair = Arc::new((Mutex::new(0_usize), Condvar::new()));
    let shared = Arc::clone(&pair);
    let consumer = rt::spawn("consumer", move || {
        for _ in 0..ROUNDS {
            let mut tokens = shared.0.lock();
            while *tokens == 0 {
                shared.1.wait(&mut tokens);
            }
            *tokens -= 1;
        }
    });
    for _ in 0..ROUNDS {
        *pair.0.lock() += 1;
        pair.1.notify_one();
    }
    consumer.join().unwrap();
}

#[test]
fn a_condvar_times_out_not_too_early() {
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    let mut guard = mutex.lock();
    let deadline = rt::monotonic() + Nanos::from_millis(10);
    assert!(condvar.wait_until(&mut guard, deadline));
    assert!(rt::monotonic() >= deadline);
    assert!(mutex.is_locked());
    // A deadline in the past expires at once; one at the end of time never does.
    assert!(condvar.wait_until(&mut guard, Nanos::ZERO));
    drop(guard);
    let pair = Arc::new((Mutex::new(false), Condvar::default()));
    let shared = Arc::clone(&pair);
    let waiter = rt::spawn("waiter", move || {
        let mut done = shared.0.lock();
        while !*done {
            assert!(!shared.1.wait_until(&mut done, Nanos::MAX));
        }
    });
    *pair.0.lock() = true;
    pair.1.notify_all();
    waiter.join().unwrap();
}

#[test]
fn the_real_world_is_not_simulated() {
    assert!(!rt::is_simulated());
    rt::point();
    rt::charge(rt::Cost::Copy(1 << 40));
}
