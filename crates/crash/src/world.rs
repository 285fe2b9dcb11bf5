//! The simulated worlds of runs and recoveries.

use std::cell::RefCell;
use std::rc::Rc;

use rt::{Nanos, WallTime};

use crate::setting::{PCT_DEPTH, Schedule};

/// Number of scheduling steps after which a world with a broken engine is stopped.
const MUTANT_STEPS_MAX: u64 = 50_000_000;

/// Limit of virtual time: a century. A world recovers thousands of volumes, and waits for other
/// nodes before each that has multiple mount protection.
const TIME_MAX: Nanos = Nanos::from_secs(100 * 365 * 86_400);

/// Returns the configuration of a world that starts at a time, with a rule of the engine broken or
/// none.
pub fn world(schedule: Schedule, seconds: i64, mutant: Option<&'static str>) -> sim::Config {
    let config = match schedule {
        Schedule::Fair => sim::Config::fair(0),
        Schedule::Random(seed) => sim::Config::random(seed),
        Schedule::Pct(seed) => sim::Config::pct(seed, PCT_DEPTH),
    };
    sim::Config {
        epoch: WallTime { seconds, nanos: 0 },
        // A broken engine may loop.
        step_count_max: mutant.map_or(config.step_count_max, |_| MUTANT_STEPS_MAX),
        time_max: TIME_MAX,
        mutant,
        ..config
    }
}

/// A slot in which a world leaves a value for its caller.
pub struct Shared<T>(Rc<RefCell<Option<T>>>);

impl<T> Shared<T> {
    /// Returns an empty slot.
    pub fn new() -> Self {
        Self(Rc::new(RefCell::new(None)))
    }

    /// Stores the value.
    pub fn set(&self, value: T) {
        self.0.replace(Some(value));
    }

    /// Takes the value, if there is one.
    pub fn take(&self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}
