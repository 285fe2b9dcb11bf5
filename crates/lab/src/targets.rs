//! What a workload can run on, all behind [`workload::Target`]: a volume of the engine, in a simulated world or in this
//! process; and a directory ([`workload::directory`]).

mod volume;

pub use volume::VolumeTarget;
