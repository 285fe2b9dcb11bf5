//! The needs of kernel file systems: tools, loop devices, mounts, a namespace to keep them in.
//!
//! A value undoes its attachment or mount when it is dropped. A process that is killed undoes
//! nothing; a command that mounts therefore first calls [`strays::release`] for the remains of
//! killed processes, and [`namespace::enter`], so that its mounts end with it.

pub mod attached;
pub mod namespace;
pub mod strays;
pub mod tool;

mod mounted;

pub use attached::Attached;
pub use mounted::Mounted;
