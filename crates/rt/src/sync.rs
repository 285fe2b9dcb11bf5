//! Locks: [`Mutex`], [`RwLock`] and [`Condvar`].
//!
//! There is no poisoning. A guard cannot leave its thread. Read locks are not recursive: a thread
//! that takes a second one can deadlock behind a waiting writer.
//!
//! Debug builds record the order in which locks are taken, and panic if two orders contradict each
//! other: see `sync/order/book.rs`.

mod condvar;
mod faces;
mod order;
mod raw_mutex;
mod raw_rwlock;

pub use condvar::Condvar;
pub use faces::{MutexOf, RwLockOf, set_rank};

/// A mutual exclusion lock around a value.
pub type Mutex<T> = lock_api::Mutex<MutexOf<T>, T>;
/// A guard of a [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, MutexOf<T>, T>;
/// A lock around a value, for many readers or one writer, granted in order of arrival.
pub type RwLock<T> = lock_api::RwLock<RwLockOf<T>, T>;
/// A read guard of a [`RwLock`].
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RwLockOf<T>, T>;
/// A write guard of a [`RwLock`].
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RwLockOf<T>, T>;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::raw_mutex::{PARKED, RawMutex, STARVING};
    use crate::home::Home;
    use crate::primitive::{AtomicU8, Ordering};

    #[test]
    fn a_starving_waiter_makes_one_unlock_hand_over() {
        let mutex = RawMutex {
            state: AtomicU8::new(0),
            home: Home::unknown(),
        };
        let is_set = |bit| mutex.state.load(Ordering::Relaxed) & bit != 0;
        let (locked, is_locked) = mpsc::channel();
        std::thread::scope(|scope| {
            mutex.acquire();
            let waiters = [(); 3].map(|()| {
                let (go, may_go) = mpsc::channel();
                let (mutex, locked) = (&mutex, locked.clone());
                scope.spawn(move || {
                    mutex.acquire();
                    locked.send(()).expect("the test runs");
                    may_go.recv().expect("the test runs");
                    mutex.release();
                });
                go
            });
            while !is_set(PARKED) {
                std::thread::yield_now();
            }
            // The others arrive.
            std::thread::sleep(Duration::from_millis(50));
            mutex.state.fetch_or(STARVING, Ordering::Relaxed);
            mutex.release();
            is_locked.recv().expect("a waiter has the lock");
            assert!(!is_set(STARVING), "the next unlock need not hand over");
            for go in waiters {
                go.send(()).expect("a waiter");
            }
        });
        assert_eq!(mutex.state.load(Ordering::Relaxed), 0);
    }
}
