//! Access to kernel file systems: tools, loop devices, mounts, and a private mount namespace.
//!
//! A value undoes its attachment or mount on drop. A killed process undoes nothing. Therefore a
//! command that mounts first calls [`strays::release`], for the remains of killed processes, and
//! [`namespace::enter`], so that its mounts end with it.

pub mod attached;
pub mod namespace;
pub mod strays;
pub mod tool;

mod mounted;

pub use attached::Attached;
pub use mounted::Mounted;
