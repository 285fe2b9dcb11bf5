//! Models of storage devices that take virtual time: hard disks behind a host's elevator, SSDs,
//! RAID controllers with a battery-backed cache, NVRAM, RAM disks, and a catalogue of named models.
//!
//! The devices implement [`block::BlockDevice`] and run in the simulated world of the crate
//! [`sim`].
//!
//! ```
//! use block::BlockDevice;
//!
//! let report = sim::run(sim::Config::fair(7), || {
//!     let options = [("wcache", "off")];
//!     let disk = diskmodel::open("atlas-v-18", &options).expect("it is in the catalogue");
//!     let device: &dyn BlockDevice = &*disk;
//!     device.read_block(1 << 30, 4096).expect("the disk works");
//!     rt::monotonic()
//! })
//! .expect("nothing goes wrong");
//! assert!(report.value > rt::Nanos::from_millis(1));
//! ```
//!
//! # Path of a request
//!
//! | part | module | what takes time there |
//! |---|---|---|
//! | host | `hard_disk` | building the request (charged to the caller), free slots of the queue |
//! | elevator | `host_queue`, `elevator` | the plug, merging and sorting |
//! | drive | `drive` | controller, bus, command queue, read buffer, write cache |
//! | mechanics | `mechanics`, `platter`, `seek` | seek, head switch, settling, rotation, transfer |
//!
//! # Rules
//!
//! - Timing and contents are separate: contents are in a store that answers at once (memory that
//!   keeps equal pages once, unless the caller passes another), and move when the request
//!   completes.
//! - Only integers decide about time while a device runs. Floating point builds tables, by
//!   operations that IEEE 754 rounds exactly.
//! - Rotation is absolute: the angle of the platters follows from the time. A transfer that misses
//!   its sector waits a turn.
//! - A device belongs to the world that created it and ends with it.
//!
//! # Sources
//!
//! C. Ruemmler, J. Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994. J.
//! Bucy, J. Schindler, S. Schlosser, G. Ganger, "The DiskSim simulation environment version 4.0
//! reference manual", CMU-PDL-08-101, 2008.

mod batch;
mod buffer;
pub mod catalogue;
mod contents;
mod controller;
mod disk_options;
mod drive;
mod elevator;
mod error;
mod firmware;
mod hard_disk;
mod host_queue;
mod measure;
mod mechanics;
pub mod model;
mod nvram;
mod open;
mod overwritten;
mod platter;
mod seek;
mod sheet;
mod ssd;
mod stats;
mod timed;
mod values;
mod write_cache;

use std::sync::Arc;

use block::BlockDevice;
use layout::{Block, SectorNr};

pub use catalogue::catalogue;
pub use controller::{Controller, ControllerModel, DestageOrder, ReadAhead, open_controller};
pub use elevator::{Elevator, Queueing};
pub use error::OpenError;
pub use firmware::{Firmware, Order};
pub use hard_disk::HardDisk;
pub use measure::{Measured, measure};
pub use nvram::{Nvram, RamDisk};
pub use open::{Builder, factory, make, make_with, open};
pub use seek::SeekCurve;
pub use ssd::{Ssd, SsdModel};
pub use stats::{ControllerStats, DiskStats, DriveStats, FlashStats, Histogram};

/// A device that takes virtual time and counts its operations.
pub trait SimulatedDevice: BlockDevice {
    /// Returns the counters so far.
    fn stats(&self) -> DiskStats;

    /// Returns the contents that a power cut at this instant would bring back: the old ones of the
    /// sectors whose new ones are in volatile memory only. All other sectors are in the store of
    /// the device as a cut would leave them. `None` if the device does not know, or if a cut would
    /// leave nothing.
    fn lost_by_power_cut(&self) -> Option<Vec<(SectorNr, Arc<Block>)>> {
        None
    }
}

#[cfg(test)]
mod tests;
