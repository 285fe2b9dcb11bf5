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
