//! What is needed to stand beside other programs: running a tool, loop devices, mounts by the kernel, comparing images
//! and trees, and what happens when there is no root for these. For the tests of several crates, and for the explorer of
//! crashes where it is compared with others; no engine depends on it. What cannot be had is a panic that says why.
//!
//! | rule | who keeps it |
//! |---|---|
//! | a missing tool is a failure that names the script which installs it | [`tool`] |
//! | a test that needs root asks first; without root it fails, unless `JEXT_TEST_UNPRIVILEGED=1` says that this is known | [`privilege`] |
//! | what is attached is detached, and really gone before the test goes on | [`Loop`] |
//! | two images are the same but for fields that are named | [`same`] |
//! | a tree is described in one way, whoever reads it | [`tree`] |
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
pub mod same;
pub mod tool;
pub mod tree;
mod wait;

pub use loop_device::Loop;
pub use mount::{Mount, Shutdown};
pub use random::Random;
