//! Volumes that this process mounts and uses.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests of the real world"
)]

mod devices;
mod extended;
mod files;
mod names;
mod panics;
mod privileges;
mod ranges;
mod support;
