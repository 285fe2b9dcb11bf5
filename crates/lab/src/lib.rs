//! The laboratory: a plan says what is to be found out, trials find it out, records keep it, a
//! report shows it.
//!
//! # The map
//!
//! - [`plan`]: the plan format, with errors that name the line. [`setup`]: what a trial's keys
//!   mean, typed.
//! - [`file_system`]: the seam for file systems that are made for a trial: the engine's, and those
//!   that the kernel or a program mounts. [`targets`]: the engine and a watched target behind the
//!   workloads' trait. [`system`]: tools, devices and mounts.
//! - [`trial`]: one trial from an empty device to a [`Record`]. [`store`]: records in a file of
//!   JSON lines.
//! - [`preflight`]: what this machine lacks for a plan, before anything is touched.
//! - [`runner`]: a whole plan, in parallel where trials share nothing, resumed where records exist.
//! - [`statistics`]: intervals, effects, tests, saturation. [`report`]: records as words, tables
//!   and a page, with the published figures beside them, and two record files beside each other.
//! - [`reproduction`]: what others have published, and which of it comes out here, from records.
//! - [`warning`]: what is wrong with an experiment although it can be run.
//!
//! # The rules
//!
//! - Nothing is touched before the whole plan has been checked.
//! - A simulated trial depends on its parameters and its seed only: the same plan gives the same
//!   table, to the digit.
//! - **A factor must not change the memory that is left for caching.** Where it does, the report
//!   says so.
//! - A record carries every parameter, the program that made it and the machine that it ran on.
//!   Records of another program are never taken for this one's.
//! - Values are kept in SI base units; only a report picks others.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the lab lives in the real world and starts the simulated ones"
)]

pub mod file_system;
mod hash;
pub mod metric;
pub mod plan;
pub mod preflight;
pub mod program;
pub mod record;
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
