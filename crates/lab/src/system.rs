//! Access to kernel file systems: tools, loop devices, mounts, and a private mount namespace.
//!
//! A value undoes its attachment or mount on drop. A killed process undoes nothing. Therefore a
//! command that mounts first calls [`strays::release`], for the remains of killed processes, and
//! [`namespace::enter`], so that its mounts end with it.

pub mod attached;
pub mod makers;
pub mod namespace;
pub mod open_files;
pub mod strays;
pub mod tool;

mod mounted;

pub use attached::Attached;
pub use mounted::Mounted;

use std::path::PathBuf;

use anyhow::{Context, Result};

/// Returns the path of this program, `jext`, which is also the first process of guests.
///
/// # Errors
/// Fails if the system does not report it.
pub fn program() -> Result<PathBuf> {
    std::env::current_exe().context("the path of this program")
}
