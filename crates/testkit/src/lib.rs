//! Tests against other programs: tools, loop devices, kernel mounts, comparison of images and
//! trees, tests without root, and devices that misbehave.
//!
//! For the tests of several crates, and for the crash explorer in its comparisons; no engine crate
//! depends on it. A missing prerequisite panics with the reason.
//!
//! | rule | kept by |
//! |---|---|
//! | a missing tool is a failure that names the script that installs it | [`tool`] |
//! | a test that needs root fails without it, unless `JEXT_TEST_UNPRIVILEGED=1` | [`privilege`] |
//! | an attached device is detached, and gone before the test continues | [`Loop`] |
//! | two images are equal except for named fields | [`same`] |
//! | a long list is run in part by default, and whole by a command | [`share`] |
//! | a message of e2fsck means the same kinds of problems everywhere | [`e2fsck`] |
//! | a tree has one description for all its readers | [`tree`] |
//! | a mount is unmounted, also if the test fails | [`Mount`] |
//! | a device misbehaves in the way that a test wants | [`UnreliableDevice`] |

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests of the real world: environment, processes, waiting"
)]

pub mod e2fsck;
mod loop_device;
mod mount;
pub mod privilege;
mod random;
pub mod same;
pub mod share;
pub mod tool;
pub mod tree;
mod unreliable;
mod wait;

pub use loop_device::Loop;
pub use mount::{Mount, Shutdown};
pub use random::Random;
pub use unreliable::{Behaviour, UnreliableDevice};
