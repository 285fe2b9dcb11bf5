//! Block devices: opening them from device texts, and implementing one.
//!
//! A device text is a path, `mem:1GiB`, `sim:atlas-v-18`, `slice(...)`, `raid5(...)`: see
//! [`DeviceText`] and [`open`].
//!
//! # Implementing a device
//!
//! A volume works on any [`BlockDevice`]. A device receives batches of [`Request`]s and returns a
//! [`Ticket`] for each; the trait documents the contract. This device keeps its contents in a `Vec`
//! and completes requests at once:
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use jext::device::{BlockDevice, DeviceError, Geometry, Outcome, Request, Ticket};
//! use jext::device::payload_from_bytes;
//! use jext::{MountOptions, Volume, mkfs};
//!
//! struct Bytes(Mutex<Vec<u8>>);
//!
//! impl Bytes {
//!     fn carry_out(&self, request: &Request) -> Result<Outcome, DeviceError> {
//!         self.geometry().check(request)?;
//!         let mut bytes = self.0.lock().unwrap();
//!         let (sector, sectors) = request.range();
//!         let start = sector.byte_offset() as usize;
//!         match request {
//!             Request::Read { block_bytes, .. } => {
//!                 let end = start + sectors as usize * 512;
//!                 let blocks = payload_from_bytes(&bytes[start..end], *block_bytes as usize);
//!                 return Ok(Outcome::Read(blocks));
//!             }
//!             Request::Write { payload, .. } => {
//!                 let mut at = start;
//!                 for block in payload {
//!                     bytes[at..at + block.len()].copy_from_slice(block);
//!                     at += block.len();
//!                 }
//!             }
//!             Request::Flush | Request::Discard { .. } => {}
//!         }
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! impl BlockDevice for Bytes {
//!     fn geometry(&self) -> Geometry {
//!         Geometry::new(self.0.lock().unwrap().len() as u64)
//!     }
//!
//!     fn submit(&self, batch: Vec<Request>) -> Ticket {
//!         Ticket::ready(batch.iter().map(|request| self.carry_out(request)).collect())
//!     }
//!
//!     fn name(&self) -> String {
//!         "bytes".to_owned()
//!     }
//! }
//!
//! # fn main() -> jext::Result<()> {
//! let device: Arc<dyn BlockDevice> = Arc::new(Bytes(Mutex::new(vec![0; 8 << 20])));
//! mkfs::format(&device, &mkfs::Options::default())?;
//! let volume = Volume::open(device, None, MountOptions::default())?;
//! volume.write_file("/hello", b"world")?;
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Wrapping a device
//!
//! A wrapper forwards the calls that it does not change, [`BlockDevice::reserve`] and
//! [`BlockDevice::take_detached_error`] included:
//!
//! ```
//! use std::ops::Range;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use jext::device::{BlockDevice, DeviceError, Geometry, Request, Ticket};
//! use jext::{MountOptions, Volume, mkfs};
//!
//! /// Counts the bytes that are written.
//! struct Counted {
//!     below: Arc<dyn BlockDevice>,
//!     written: AtomicU64,
//! }
//!
//! impl BlockDevice for Counted {
//!     fn geometry(&self) -> Geometry {
//!         self.below.geometry()
//!     }
//!
//!     fn submit(&self, batch: Vec<Request>) -> Ticket {
//!         for request in &batch {
//!             if let Request::Write { .. } = request {
//!                 let (_, sectors) = request.range();
//!                 self.written.fetch_add(sectors * 512, Ordering::Relaxed);
//!             }
//!         }
//!         self.below.submit(batch)
//!     }
//!
//!     fn name(&self) -> String {
//!         self.below.name()
//!     }
//!
//!     fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
//!         self.below.reserve(ranges)
//!     }
//!
//!     fn take_detached_error(&self) -> Option<DeviceError> {
//!         self.below.take_detached_error()
//!     }
//! }
//!
//! # fn main() -> jext::Result<()> {
//! let counted = Arc::new(Counted { below: jext::memory(64 << 20), written: AtomicU64::new(0) });
//! let device: Arc<dyn BlockDevice> = counted.clone();
//! mkfs::format(&device, &mkfs::Options::default())?;
//! let volume = Volume::open(device, None, MountOptions::default())?;
//! let before = counted.written.load(Ordering::Relaxed);
//! volume.write_file("/million", &[1; 1_000_000])?;
//! volume.sync()?;
//! assert!(counted.written.load(Ordering::Relaxed) - before >= 1_000_000);
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! A device with its own threads creates its tickets with [`Ticket::pending`] and completes them
//! later. A file with direct I/O leaves requests to the thread that waits: a caller that does other
//! things first calls [`Ticket::start`]. A wrapper that changes read data creates tickets with
//! [`Ticket::joined`]: `docs/how-to/block-device.md` has one that encrypts. In a simulated world a
//! device must not block, except on locks that are held briefly.

use std::sync::Arc;

use block::text::Simulated;

#[doc(inline)]
pub use block::payload::{payload_bytes, payload_from_bytes, payload_to_bytes};
#[doc(inline)]
pub use block::text::{self, DeviceText, TextError};
#[doc(inline)]
pub use block::{
    BlockDevice, Completer, DetachedErrors, DeviceError, FileDevice, Geometry, MemoryDevice,
    MeterCounts, MeterDevice, OpenOptions, Outcome, Payload, Request, Results, SliceDevice, Ticket,
    Work, fault,
};
#[doc(inline)]
pub use layout::{Block, SectorNr};

pub use crate::overlay::OverlayDevice;

/// Opens a device for reading and writing. Simulated devices need a simulated world around the
/// caller.
///
/// # Errors
/// [`DeviceError::Open`] if the text is invalid or the device cannot be opened,
/// [`DeviceError::InUse`] if another process uses it.
pub fn open(text: &str) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let parsed: DeviceText = text.parse().map_err(|error: TextError| DeviceError::Open {
        device: text.to_owned(),
        kind: std::io::ErrorKind::InvalidInput,
        cause: error.to_string(),
    })?;
    open_text(&parsed, &OpenOptions::default())
}

/// Opens a device from a parsed text. `options` apply to files and block devices.
///
/// # Errors
/// Fails as [`open`].
pub fn open_text(
    text: &DeviceText,
    options: &OpenOptions,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let factory = |wanted: Simulated<'_>| {
        #[cfg(feature = "sim")]
        if rt::is_simulated() {
            return diskmodel::factory(wanted);
        }
        text::no_simulation(wanted)
    };
    text::open(text, options, &factory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_opened_and_errors_name_the_device() {
        assert_eq!(
            open("mem:1MiB").expect("memory").geometry().size_bytes,
            1 << 20
        );
        let error = |text| open(text).expect_err(text).to_string();
        assert!(
            error("mem:").starts_with("mem:: column 5"),
            "{}",
            error("mem:")
        );
        assert!(
            error("sim:atlas-v-18").contains("simulated"),
            "{}",
            error("sim:atlas-v-18")
        );
        assert!(error("/nowhere/at/all").starts_with("/nowhere/at/all: "));
    }
}
