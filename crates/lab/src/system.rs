//! What file systems of the kernel need of the operating system: tools, loop devices, mounts, a
//! namespace to keep them in.
//!
//! Everything that is attached or mounted here is undone with its value. A process that is killed
//! undoes nothing; a command that mounts therefore first calls [`strays::release`] for what was
//! killed before it, and [`namespace::enter`], so that what it mounts ends with it.

pub mod attached;
pub mod namespace;
pub mod strays;
pub mod tool;

mod mounted;

pub use attached::Attached;
pub use mounted::Mounted;
