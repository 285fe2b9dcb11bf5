//! The targets of a workload, all behind [`workload::Target`]: a volume of the engine, in a
//! simulated world or in this process; and a directory ([`workload::directory`]). `Watched`
//! counts the calls of any target.

mod volume;
mod watched;

pub use volume::VolumeTarget;
pub(crate) use watched::Watched;
