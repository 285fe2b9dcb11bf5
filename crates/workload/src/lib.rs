//! The benchmarks that file systems have been compared with, against one trait.
//!
//! A workload does path-level file operations on a [`Target`] and measures them. It sees only that trait and `rt`: the
//! same code runs on the engine in a simulated world, on the engine over a real device, and on any mounted directory.
//!
//! # The map
//!
//! - [`target`]: the trait [`Target`], open files and flags. [`error`]: why an operation failed.
//! - [`directory`]: a target over a directory of the host. **The only module that touches `std::fs`.**
//! - [`counting`]: a target that keeps names and sizes but no data, and counts.
//! - [`control`]: cancelling a run and watching how far it is. [`latency`]: histograms. [`metric`]: figures with units.
//! - [`stdio`]: how the C library cuts a program's reads and writes into system calls.
//! - [`postmark`]: the benchmark PostMark.
//!
//! # The rules
//!
//! - Time is read with `rt::monotonic` and kept in nanoseconds; counters are 64-bit integers; a figure is formatted only
//!   where it is printed.
//! - Every result of a target is checked. A workload that meets an error removes what it made, as far as it can, and
//!   returns the error.
//! - The cost of a system call is charged by the target; the cost of copying in user space is charged here.

pub mod control;
pub mod counting;
pub mod directory;
pub mod error;
pub mod latency;
pub mod metric;
pub mod postmark;
pub mod stdio;
pub mod target;

pub use control::Control;
pub use error::{ErrorKind, Operation, TargetError};
pub use latency::{Latencies, LatencySummary};
pub use metric::{Metric, Unit};
pub use target::{DirectoryEntry, FileKind, InodeFlags, OpenFile, OpenFlags, Stat, Target};
