//! The models.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use crate::condvar::Condvar;
use crate::home::Home;
use crate::parking;
use crate::primitive::{AtomicBool, AtomicU8, AtomicUsize};
use crate::raw_mutex::RawMutex;
use crate::raw_rwlock::RawRwLock;
use crate::world::Wait;

/// Maximum number of preemptions in one run of a model with two threads.
const PREEMPTION_COUNT_MAX: usize = 5;
/// Maximum number of preemptions in one run of a model with three threads.
const PREEMPTION_COUNT_MAX_OF_THREE: usize = 3;

fn check(preemption_count_max: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemption_count_max);
    builder.check(model);
}

fn mutex() -> RawMutex {
    RawMutex {
        state: AtomicU8::new(0),
        home: Home,
    }
}

fn condvar() -> Condvar {
    Condvar {
        has_waiters: AtomicBool::new(false),
        home: Home,
    }
}

/// A number that loom watches for races.
struct Guarded<L> {
    lock: L,
    number: UnsafeCell<u32>,
}

// SAFETY: loom itself checks every access to the cell.
unsafe impl<L: Sync> Sync for Guarded<L> {}
// SAFETY: likewise.
unsafe impl<L: Send> Send for Guarded<L> {}

impl<L> Guarded<L> {
    fn new(lock: L) -> Self {
        Self {
            lock,
            number: UnsafeCell::new(0),
        }
    }

    fn add_one(&self) {
        // SAFETY: loom fails the model if another thread has access now.
        self.number.with_mut(|number| unsafe { *number += 1 });
    }

    fn get(&self) -> u32 {
        // SAFETY: loom fails the model if another thread is writing now.
        self.number.with(|number| unsafe { *number })
    }
}

fn count_with_mutex(is_fair: bool, threads: usize, rounds: usize, preemptions: usize) {
    check(preemptions, move || {
        if is_fair {
            parking::be_fair();
        }
        let shared = Arc::new(Guarded::new(mutex()));
        let count = {
            let shared = Arc::clone(&shared);
            move || {
                for _ in 0..rounds {
                    shared.lock.acquire();
                    shared.add_one();
                    shared.lock.release();
                }
            }
        };
        let others: Vec<_> = (1..threads).map(|_| thread::spawn(count.clone())).collect();
        count();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(!shared.lock.is_held());
        assert!(shared.lock.try_acquire());
        assert_eq!(shared.get() as usize, threads * rounds);
    });
}

#[test]
fn a_mutex_keeps_two_threads_apart() {
    count_with_mutex(false, 2, 2, PREEMPTION_COUNT_MAX);
}

#[test]
fn a_mutex_keeps_three_threads_apart() {
    count_with_mutex(false, 3, 1, PREEMPTION_COUNT_MAX_OF_THREE);
}

#[test]
fn a_mutex_that_is_handed_over_keeps_threads_apart() {
    count_with_mutex(true, 2, 2, PREEMPTION_COUNT_MAX);
    count_with_mutex(true, 3, 1, PREEMPTION_COUNT_MAX_OF_THREE);
}

/// Checks threads that each read or write once.
fn share(waits: &'static [Wait], preemptions: usize) {
    check(preemptions, move || {
        let lock = RawRwLock {
            state: AtomicUsize::new(0),
            home: Home,
        };
        let shared = Arc::new(Guarded::new(lock));
        let use_once = |shared: &Guarded<RawRwLock>, wait: Wait| {
            shared.lock.acquire(wait);
            if wait == Wait::Write {
                assert!(shared.lock.is_held_by_writer());
                shared.add_one();
                shared.lock.release_write();
            } else {
                shared.get();
                shared.lock.release_read();
            }
        };
        let others: Vec<_> = waits[1..]
            .iter()
            .map(|&wait| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || use_once(&shared, wait))
            })
            .collect();
        use_once(&shared, waits[0]);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(!shared.lock.is_held());
        assert!(shared.lock.try_acquire(Wait::Write));
        let writers = waits.iter().filter(|&&wait| wait == Wait::Write).count();
        assert_eq!(shared.get() as usize, writers);
    });
}

#[test]
fn a_rwlock_keeps_writers_apart() {
    share(&[Wait::Write, Wait::Write], PREEMPTION_COUNT_MAX);
    share(
        &[Wait::Write, Wait::Write, Wait::Write],
        PREEMPTION_COUNT_MAX_OF_THREE,
    );
}

#[test]
fn a_rwlock_keeps_readers_and_writers_apart() {
    share(&[Wait::Read, Wait::Write], PREEMPTION_COUNT_MAX);
    share(
        &[Wait::Write, Wait::Read, Wait::Read],
        PREEMPTION_COUNT_MAX_OF_THREE,
    );
    share(
        &[Wait::Read, Wait::Write, Wait::Write],
        PREEMPTION_COUNT_MAX_OF_THREE,
    );
}

/// Checks waiters for a flag that is set once; every wake-up must arrive.
fn tell(waiters: usize, notify: fn(&Condvar), preemptions: usize) {
    check(preemptions, move || {
        let shared = Arc::new((Guarded::new(mutex()), condvar()));
        let others: Vec<_> = (0..waiters)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (guarded, told) = &*shared;
                    guarded.lock.acquire();
                    while guarded.get() == 0 {
                        told.wait_unlocked(&guarded.lock, None);
                    }
                    guarded.lock.release();
                })
            })
            .collect();
        let (guarded, told) = &*shared;
        guarded.lock.acquire();
        guarded.add_one();
        guarded.lock.release();
        notify(told);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn a_condvar_loses_no_wakeup() {
    tell(1, Condvar::notify_one, PREEMPTION_COUNT_MAX);
    tell(2, Condvar::notify_all, PREEMPTION_COUNT_MAX_OF_THREE);
}
