//! Threads, locks, clocks and random streams: the engine reaches them only through this crate.
//!
//! The same machine code runs in two worlds:
//!
//! - in the **real** world, on threads of the operating system, with the system's clocks and locks
//!   that park through `parking_lot_core`;
//! - in a **simulated** world (crate `sim`), where every thread is a coroutine, the clock is
//!   virtual and one seed decides every choice.
//!
//! # Rules
//!
//! - One thread-local pointer, [`world`], names the world of a thread: null means real. Threads
//!   created elsewhere need no registration.
//! - The uncontended path of every lock is one atomic exchange in both worlds; only the slow path
//!   reads the pointer.
//! - An object is used only in the world that created it. A debug build asserts this on slow paths,
//!   where the check costs nothing.
//! - Locks, notifications, spawns and [`atomic`]s are [`point`]s, at which a hostile simulated
//!   world may switch tasks.
//! - Host code takes no virtual time except through [`charge`] and [`charge_with`]. In the real
//!   world, [`owe`] is for machines whose processor takes no time.
//!
//! # Sources
//!
//! The locks follow the parking-lot idea: one word of state, and a queue of waiters found by the
//! lock's address. See <https://webkit.org/blog/6161/locking-in-webkit/>.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this crate is where the engine's threads, clocks and locks are made from the system's"
)]

pub mod atomic;
mod charge;
mod clock;
mod cost;
mod debt;
mod home;
pub mod mutant;
mod nanos;
mod node;
mod parking;
mod primitive;
mod random;
pub mod split_mix;
pub mod sync;
mod tag;
mod thread;
mod wall_time;
pub mod world;

pub use charge::{charge, charge_with};
pub use clock::{glance, monotonic, sleep, sleep_until, uptime, wall};
pub use cost::{Cost, Memory};
pub use debt::{owe, settle};
pub use nanos::Nanos;
pub use node::node_name;
pub use random::random_u64;
pub use sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use tag::{replace_tag, tag};
pub use thread::{JoinHandle, Panicked, spawn, spawn_daemon};
pub use wall_time::WallTime;
pub use world::{is_simulated, point};
