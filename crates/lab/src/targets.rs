//! What a workload can run on, all behind [`workload::Target`]: a volume of the engine, in a
//! simulated world or in this process; and a directory ([`workload::directory`]). Any of them can
//! be watched.

mod volume;
mod watched;

pub use volume::VolumeTarget;
pub(crate) use watched::Watched;
