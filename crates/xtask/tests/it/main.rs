//! Tests the commands for the developers of jext with minimal amounts of work.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests stop at what they did not expect, and live in the real world"
)]

mod aging;
mod bench;
mod builds;
mod kernels;
mod mutants;
mod peers;
mod support;
mod syncs;
