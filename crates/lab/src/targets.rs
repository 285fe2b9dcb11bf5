//! The targets of a workload, all behind [`workload::Target`]: a volume of the engine, in a
//! simulated world or in this process; and a directory ([`workload::directory`]). `Watched`
//! counts the calls of any target, `Powered` keeps a ledger of them until its power is cut,
//! `Charged` sleeps for the time that a host would need for them.

mod charged;
mod powered;
mod volume;
mod watched;

pub(crate) use charged::Charged;
pub(crate) use powered::Powered;
pub use volume::VolumeTarget;
pub(crate) use watched::Watched;
