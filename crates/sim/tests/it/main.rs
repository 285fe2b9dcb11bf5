//! Tests of whole worlds from outside.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests look at worlds from outside and run them on threads of their own"
)]

mod determinism;
mod ends;
mod hostile;
mod locks;
mod stuck;
mod time;

use rt::Nanos;
use sim::{Config, Report, SimError};

/// Runs a root that must succeed in a fair world.
fn fair<T: 'static>(root: impl FnOnce() -> T + 'static) -> Report<T> {
    sim::run(Config::fair(1), root).unwrap()
}

/// Runs a root that must fail in a fair world, without the record of lock order.
fn failing<T: 'static + std::fmt::Debug>(root: impl FnOnce() -> T + 'static) -> SimError {
    let config = Config {
        record_lock_order: false,
        ..Config::fair(1)
    };
    sim::run(config, root).unwrap_err()
}

/// Returns a number of milliseconds.
const fn ms(count: u64) -> Nanos {
    Nanos::from_millis(count)
}
