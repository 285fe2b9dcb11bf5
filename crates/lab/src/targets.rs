//! What a workload can run on, all behind [`workload::Target`]: a volume of the engine, in a simulated world or in this
//! process; and a directory ([`workload::directory`]), which may be that of a file system that is made and mounted for it.

pub mod mounted;
mod volume;

pub use mounted::MountedFileSystem;
pub use volume::VolumeTarget;
