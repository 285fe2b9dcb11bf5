//! Model checks of rt's locks: `loom` runs them under every order of accesses that the memory model
//! allows, up to a bound on preemptions.
//!
//! The lock sources are those of `rt` itself. This crate replaces their atomics by loom's, and
//! `parking_lot_core` by a parking lot made of a mutex and a queue.

#![cfg(test)]

#[path = "../../src/sync/condvar.rs"]
mod condvar;
mod locks;
mod parking;
#[path = "../../src/sync/raw_mutex.rs"]
mod raw_mutex;
#[path = "../../src/sync/raw_rwlock.rs"]
mod raw_rwlock;
mod world;

/// A moment; no model uses one.
#[derive(Clone, Copy)]
pub struct Nanos;

mod primitive {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
}

mod home {
    pub(crate) struct Home;

    impl Home {
        pub(crate) fn check(&self) {}
    }
}
