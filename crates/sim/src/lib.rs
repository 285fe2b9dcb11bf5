//! The simulated world: tasks, locks and clocks in virtual time, decided by one seed.
//!
//! [`run`] runs a closure as the root task of a new world. Everything that the closure does through
//! `rt` (threads, locks, clocks, random numbers) happens inside: each thread is a coroutine on the
//! calling OS thread, and time jumps to the next event. The same [`Config`] gives the same run,
//! byte for byte, in debug and release builds.
//!
//! ```
//! let report = sim::run(sim::Config::fair(7), || {
//!     let sleeper = rt::spawn("sleeper", || rt::sleep(rt::Nanos::from_secs(3600)));
//!     sleeper.join().expect("the sleeper wakes up");
//!     rt::monotonic()
//! })
//! .expect("nothing goes wrong");
//! assert_eq!(report.value, rt::Nanos::from_secs(3600));
//! ```
//!
//! # Rules
//!
//! - **One OS thread, one task at a time.** A task runs until it waits, or, in a hostile world,
//!   until a point.
//! - **Time** passes only while no task is ready. Host work takes time through `rt::charge`: the
//!   debt is settled on one of the host's processors, first come, first served. See
//!   [`HostProfile`].
//! - **Integers only.** No floating-point number, address or hash-map order decides about order or
//!   time.
//! - **Every choice goes through one function**, which records it. So a run can be repeated from
//!   its [`ReplayId`], or from its list of [`Decision`]s.
//! - **The trace hash** covers every choice, switch, wait, wake-up and time, and the events that
//!   devices report with [`trace`]. Two runs with the same hash did the same.
//! - **Worlds on different OS threads share nothing**, and a world cannot be started inside
//!   another.
//! - A world ends when its root task returns. The other tasks run on as long as they can make
//!   progress; a host task that then waits forever is an error. Devices ([`spawn_device`]) are
//!   exempt: they are dropped.
//!
//! # Sources
//!
//! PCT: Burckhardt, Kothari, Musuvathi, Nagarakatte, A Randomized Scheduler with Probabilistic
//! Guarantees of Finding Bugs, ASPLOS 2010.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this crate is one of the two worlds that the engine's threads and clocks are made of"
)]

mod caches;
mod chooser;
mod config;
mod cpus;
mod current;
mod error;
mod host;
mod overflow;
mod panic_hook;
mod panics;
mod parameter;
mod policy;
mod prices;
mod replay;
mod run;
mod stacks;
mod state;
mod tasks;
mod timers;
mod trace;
mod waiters;
mod watch;
mod world;

pub use config::Config;
pub use current::{next_moment, quiesce, requests_in_flight, settle, spawn_device, trace};
pub use error::{Failure, SimError, StuckTask};
pub use host::{CLOUD_VM, HostEntry, HostProfile, HostProfileError, P4_2_66_2003, XEON_5130, ZERO};
pub use parameter::{Parameter, ParameterValue};
pub use policy::{Decision, Policy};
pub use prices::Prices;
pub use replay::{ReplayId, ReplayIdError};
pub use run::{Report, run, run_explained};
