//! Block devices: the trait through which the engine reaches storage, and its implementations for
//! the real world.
//!
//! A device takes batches of requests that own their buffers and returns a [`Ticket`]; a caller
//! that needs the results waits for it. Sorting, merging and queueing belong to the device.
//! Ordering belongs to the caller, by flushes and forced unit access only.
//!
//! | module | contents |
//! |---|---|
//! | [`memory`] | sparse memory, without copies |
//! | [`file`](mod@file) | image files and block devices, buffered or direct |
//! | [`slice`](mod@slice) | part of a device |
//! | [`raid`] | arrays: RAID 0, 1, 5, 10 and 50 |
//! | [`fault`] | a device that fails on purpose |
//! | [`fence`] | a device whose changes can be stopped for good |
//! | [`cache`] | a volatile cache and its power cuts |
//! | [`trace`] | a record of requests, in memory or in a file; possible states after a power cut |
//! | [`meter`] | counters |
//! | [`attributes`] | names of a host file's extended attributes |
//! | [`text`] | names of devices, and opening them by name |

pub mod attributes;
pub mod cache;
pub mod device;
pub mod error;
pub mod fault;
pub mod fence;
pub mod file;
mod forward;
pub mod memory;
pub mod meter;
pub mod payload;
pub mod raid;
pub mod slice;
pub mod text;
pub mod ticket;
pub mod trace;
pub mod versions;

pub use cache::CacheDevice;
pub use device::{BlockDevice, Geometry, Request};
pub use error::DeviceError;
pub use fault::{FaultDevice, FaultPlan};
pub use fence::{Fence, FenceDevice};
pub use file::{FileDevice, OpenOptions};
pub use memory::MemoryDevice;
pub use meter::{MeterCounts, MeterDevice};
pub use payload::Payload;
pub use raid::RaidLevel;
pub use slice::SliceDevice;
pub use text::{DeviceText, TextError};
pub use ticket::{Completer, DetachedErrors, Outcome, Results, Ticket, Work};
pub use trace::{Event, Medium, Recording, RecordingReader, Replay, Trace, TraceDevice};
