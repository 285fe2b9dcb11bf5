//! The laboratory: a plan states a question, trials measure, records keep the results, a report
//! shows them.
//!
//! # Modules
//!
//! - [`plan`]: the plan format, with errors that name the line. [`setup`]: the keys of a trial as
//!   typed values.
//! - [`file_system`]: the interface to file systems that are created for a trial: the engine's, and
//!   those that the kernel or a program mounts. [`targets`]: implementations of the workloads'
//!   trait for the engine, and one that counts calls. [`system`]: tools, devices and mounts.
//! - [`guest`]: both ends of a trial in the guest of the crate `uml`.
//! - [`power_cut`]: a cut of the power while a workload runs; [`ledger`]: the files as the calls of
//!   the workload left them.
//! - [`trial`]: one trial from an empty device to a [`Record`]. [`store`]: records in a file of
//!   JSON lines.
//! - [`preflight`]: checks that this machine can run a plan, before anything is changed.
//! - [`runner`]: runs a whole plan, in parallel if trials share nothing, and resumes from existing
//!   records.
//! - [`statistics`]: intervals, effects, tests, saturation. [`report`]: records as sentences,
//!   tables and a page, with the published figures beside them; comparison of two record files.
//! - [`reproduction`]: published results compared with records.
//! - [`warning`]: flaws of an experiment that can be run nevertheless.
//!
//! # Rules
//!
//! - Nothing is changed before the whole plan has been checked.
//! - A simulated trial depends on its parameters and its seed only: the same plan gives the same
//!   table, to the digit.
//! - **A factor must not change the memory that remains for caching.** The report warns if one
//!   does.
//! - A record holds every parameter, the program and the machine. A run never reuses the records of
//!   other sources or, for trials in real time, of another executable.
//! - Values are stored in SI base units; only a report uses others.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the lab lives in the real world and starts the simulated ones"
)]

pub mod file_system;
pub mod guest;
mod hash;
pub mod ledger;
pub mod metric;
pub mod plan;
pub mod power_cut;
pub mod preflight;
pub mod program;
pub mod record;
pub mod replay;
pub mod report;
pub mod reproduction;
pub mod runner;
pub mod setup;
pub mod statistics;
pub mod store;
pub mod system;
pub mod targets;
pub mod timeline;
pub mod trial;
pub mod warning;

pub use plan::{Plan, PlanError};
pub use record::Record;
pub use report::Report;
pub use runner::{Progress, RunOptions, run};
pub use warning::Warning;
