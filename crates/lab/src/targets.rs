//! What a workload can run on, all behind [`workload::Target`]: a volume of the engine, in a simulated world or in this
//! process; and a directory ([`workload::directory`]), which may be that of a file system that is made and mounted for it. Any of
//! them can be watched.

pub mod mounted;
mod volume;
mod watched;

pub use mounted::MountedFileSystem;
pub use volume::VolumeTarget;
pub(crate) use watched::Watched;
