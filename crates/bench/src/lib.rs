//! The engine's hot paths, one at a time: each case is written once, and both its instructions
//! (`jext-bench instructions`, under valgrind) and its time (`cargo bench`, by criterion) are taken
//! of the same body.
//!
//! A case prepares a volume in memory, which is not measured, and returns its body, which is.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "measurements take place in the real world"
)]

mod case;
mod cases;
mod images;
mod rig;

pub use case::{Body, Case, Left, measured_part};
pub use cases::all;
pub use images::Images;
