//! Model checks of rt's locks: `loom` runs them under every order of accesses that the memory model allows, up to a
//! number of preemptions.
//!
//! The sources of the locks are those of `rt` itself; this crate gives them loom's atomics and a parking lot of a
//! mutex and a queue in place of `parking_lot_core`.

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

/// Moments, which no model uses.
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
