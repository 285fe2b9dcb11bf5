//! Locks: [`Mutex`], [`RwLock`] and [`Condvar`].
//!
//! There is no poisoning. A guard cannot leave its thread. Read locks are not recursive: a thread that holds one and asks
//! for another can wait for ever behind a writer. In debug builds a thread of the real world panics instead.

mod condvar;
mod faces;
mod raw_mutex;
mod raw_rwlock;

pub use condvar::Condvar;
pub use raw_mutex::RawMutex;
pub use raw_rwlock::RawRwLock;

/// A mutual exclusion lock around a value.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// The right to use the value of a [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// A lock around a value, for many readers or one writer, served in the order in which they came.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// The right to read the value of a [`RwLock`].
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// The right to change the value of a [`RwLock`].
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
