//! What the tests of several crates need in order to stand beside other programs: running a tool, loop devices, mounts by
//! the kernel, and what happens when there is no root for these. Tests only; nothing that is shipped depends on it.
//!
//! | rule | who keeps it |
//! |---|---|
//! | a missing tool is a failure that names the script which installs it | [`tool`] |
//! | a test that needs root asks first; without root it fails, unless `JEXT_TEST_UNPRIVILEGED=1` says that this is known | [`privilege`] |
//! | what is attached is detached, and really gone before the test goes on | [`Loop`] |
//! | what is mounted is unmounted, also when the test fails | [`Mount`] |

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests of the real world: environment, processes, waiting"
)]

mod loop_device;
mod mount;
pub mod privilege;
mod random;
pub mod tool;
mod wait;

pub use loop_device::Loop;
pub use mount::{Mount, Shutdown};
pub use random::Random;
