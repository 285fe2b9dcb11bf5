//! Volumes that this process mounts and uses.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests of the real world"
)]

mod aborts;
mod compared;
mod devices;
mod direct;
mod extended;
mod files;
mod frozen;
mod full;
mod names;
mod panics;
mod privileges;
mod programs;
mod protected;
mod ranges;
mod seeking;
mod sharing;
mod stale;
mod support;
mod synchronous;
