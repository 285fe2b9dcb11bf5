//! Block devices: the one trait through which the engine reaches storage, and what implements it in the real world.
//!
//! A device takes batches of requests that own their buffers and gives back a [`Ticket`]; whoever wants the result
//! waits for it. Sorting, merging and queueing belong to the device, ordering belongs to the caller, who has flushes
//! and forced unit access for it and nothing else.
//!
//! | module | what it is |
//! |---|---|
//! | [`memory`] | sparse memory, without copies |
//! | [`file`](mod@file) | image files and block devices, buffered or direct |
//! | [`slice`](mod@slice) | part of a device |
//! | [`raid`] | arrays: RAID 0, 1, 5, 10 and 50 |
//! | [`fault`] | a device that fails on purpose |
//! | [`cache`] | a volatile cache, and what a power cut leaves of it |
//! | [`trace`] | a record of requests, and what a power cut after any of them could leave |
//! | [`meter`] | counters |
//! | [`random`] | choices that come out the same everywhere |
//! | [`text`] | how devices are named, and opened by name |

pub mod cache;
pub mod device;
pub mod error;
pub mod fault;
pub mod file;
mod forward;
pub mod memory;
pub mod meter;
pub mod payload;
pub mod raid;
pub mod random;
pub mod slice;
pub mod text;
pub mod ticket;
pub mod trace;
pub mod versions;
mod zeroes;

pub use cache::CacheDevice;
pub use device::{BlockDevice, Geometry, Payload, Request};
pub use error::DeviceError;
pub use fault::{FaultDevice, FaultPlan};
pub use file::{FileDevice, OpenOptions};
pub use memory::MemoryDevice;
pub use meter::{MeterCounts, MeterDevice};
pub use raid::RaidLevel;
pub use slice::SliceDevice;
pub use text::{DeviceText, TextError};
pub use ticket::{Completer, DetachedErrors, Outcome, Results, Ticket, Work};
pub use trace::{Event, Medium, Replay, Trace, TraceDevice};
