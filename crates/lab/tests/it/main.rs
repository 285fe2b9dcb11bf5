//! Complete trials: small ones, in simulated worlds, in this process, in a directory and on mounted
//! file systems.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests stop at what they did not expect, and live in the real world"
)]

mod documents;
mod loads;
mod mounted;
mod page;
mod power_cuts;
mod replays;
mod running;
mod volume_target;
