//! The benchmarks that file systems have been compared with, written against one trait.
//!
//! A workload performs path-level file operations on a [`Target`] and measures them. It uses only
//! that trait and `rt`, so the same code runs on the engine in a simulated world, on the engine
//! over a real device, and on any mounted directory.
//!
//! # Modules
//!
//! - [`target`]: the trait [`Target`], open files and flags. [`error`]: causes of failed
//!   operations.
//! - [`directory`]: a target over a directory of the host. **The only module that uses `std::fs`.**
//! - [`counting`]: a target that keeps names and sizes but no data, and counts calls.
//! - [`catalogue`]: all workloads by name; [`definition`]: one of them; [`parameter`]: their
//!   parameters.
//! - Shared parts: [`stage`] (target and options of a run), [`run`](mod@run) (a run and its
//!   phases), [`crew`] (a thread for each task), [`client`] (timed, checked file operations) over
//!   [`meter`], [`contents`] (the bytes of files), [`random`], [`outcome`].
//! - [`control`]: cancellation and progress. [`latency`]: histograms. [`metric`], [`figure`]:
//!   figures with units.
//! - [`stdio`]: splits a program's reads and writes into system calls as the C library does.
//! - [`postmark`]: the benchmark PostMark, including the original's command language and report.
//! - [`synctest`], [`make_many_files`], [`tree_copy`], [`fs_mark`], [`obldisk`], [`oblload`],
//!   [`mongo`], [`iozone`], [`bonnie`], [`dbench`], [`filebench`], [`fsx`], [`fsstress`]: the
//!   others.
//!
//! # Rules
//!
//! - Time is read with `rt::monotonic` and kept in nanoseconds. Counters are 64-bit integers. A
//!   figure is formatted only where it is printed.
//! - Every result of a target is checked. After an error a workload removes its files, as far as it
//!   can, and returns the error.
//! - The target charges the cost of a system call; this crate charges the cost of copies in user
//!   space.

mod aligned;
pub mod bonnie;
pub mod catalogue;
pub mod client;
pub mod contents;
pub mod control;
mod copier;
pub mod counting;
pub mod crew;
pub mod dbench;
pub mod definition;
pub mod directory;
pub mod error;
pub mod figure;
pub mod filebench;
pub mod fs_mark;
pub mod fsstress;
pub mod fsx;
pub mod iozone;
pub mod latency;
pub mod make_many_files;
pub mod meter;
pub mod metric;
pub mod mongo;
pub mod obldisk;
pub mod oblload;
pub mod outcome;
pub mod parameter;
pub mod postmark;
pub mod random;
pub mod run;
mod run_error;
pub mod stage;
pub mod stdio;
pub mod synctest;
pub mod target;
mod tree;
pub mod tree_copy;

pub use catalogue::{Load, WORKLOADS};
pub use control::Control;
pub use definition::{Definition, Footprint, Frame, Workload};
pub use error::{ErrorKind, Operation, TargetError};
pub use figure::{Better, FIGURES, Figure, Headline};
pub use latency::{Latencies, LatencySummary};
pub use meter::Call;
pub use metric::{Metric, Unit};
pub use outcome::{Document, Outcome, Phase};
pub use parameter::{Parameter, ParameterError, ParameterKind, Setting, Values};
pub use run_error::RunError;
pub use target::{
    DirectoryEntry, Extent, FileKind, InodeFlags, OpenFile, OpenFlags, Space, Stat, Target,
};
