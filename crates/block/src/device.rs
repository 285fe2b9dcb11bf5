//! The trait [`BlockDevice`], its requests and its contract.

mod fresh;
pub(crate) mod zeroes;

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use layout::{Block, SectorNr};

use crate::error::DeviceError;
use crate::payload::Payload;
use crate::ticket::{Outcome, Owed, Ticket};

/// A request to a device.
#[derive(Debug, Clone)]
pub enum Request {
    /// Reads `blocks` pieces of `block_bytes` each, starting at `sector`; the outcome holds them in
    /// order.
    Read {
        /// First sector.
        sector: SectorNr,
        /// Number of pieces.
        blocks: u32,
        /// Size of a piece in bytes, a multiple of 512.
        block_bytes: u32,
    },
    /// Writes the payload, starting at `sector`.
    Write {
        /// First sector.
        sector: SectorNr,
        /// Data, each piece a multiple of 512 bytes.
        payload: Payload,
        /// True if the write must be durable on completion, even with a volatile cache.
        force_unit_access: bool,
    },
    /// Makes durable every write that had completed before the flush was submitted.
    Flush,
    /// Discards a range. Its contents are undefined until it is written again.
    Discard {
        /// First sector.
        sector: SectorNr,
        /// Number of sectors.
        sectors: u64,
    },
}

impl Request {
    /// Returns the first sector and the number of sectors that the request touches. A flush touches
    /// none.
    pub fn range(&self) -> (SectorNr, u64) {
        match self {
            Self::Read {
                sector,
                blocks,
                block_bytes,
            } => (
                *sector,
                u64::from(*blocks) * u64::from(*block_bytes) / SectorNr::SIZE,
            ),
            Self::Write {
                sector, payload, ..
            } => {
                let bytes: u64 = payload.iter().map(|block| block.len() as u64).sum();
                (*sector, bytes / SectorNr::SIZE)
            }
            Self::Flush => (SectorNr::new(0), 0),
            Self::Discard { sector, sectors } => (*sector, *sectors),
        }
    }

    /// Returns the name of the request for messages: `read`, `write`, `flush` or `discard`.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Flush => "flush",
            Self::Discard { .. } => "discard",
        }
    }

    /// True if the request changes the device.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Discard { .. })
    }

    /// Returns the error of a request that a device could not complete.
    pub fn failed(&self, device: impl Into<String>, cause: impl Into<String>) -> DeviceError {
        let (sector, sectors) = self.range();
        DeviceError::Failed {
            operation: self.operation(),
            sector,
            sectors,
            device: device.into(),
            cause: cause.into(),
        }
    }
}

/// The properties of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Size in bytes, a multiple of the sector size.
    pub size_bytes: u64,
    /// Size of the atomic unit of writes in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// True if a power cut can lose completed writes that were not flushed.
    pub has_volatile_cache: bool,
    /// True if the device implements FUA writes (otherwise it emulates them with a flush).
    pub has_force_unit_access: bool,
    /// True if flushes reach stable storage. A device without this is refused for read-write use
    /// unless forced.
    pub can_flush: bool,
    /// Maximum size of an aligned write that a power cut leaves either complete or undone, in
    /// bytes.
    pub atomic_write_bytes: u32,
    /// Number of requests that the device takes before `submit` blocks.
    pub queue_depth: u32,
    /// True if writes are refused.
    pub is_read_only: bool,
}

impl Geometry {
    /// Returns the geometry of a plain disk: sectors of 512 bytes and a volatile cache that can be
    /// flushed. The size is rounded down to whole sectors.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes: size_bytes - size_bytes % SectorNr::SIZE,
            sector_bytes: SectorNr::SIZE as u32,
            has_volatile_cache: true,
            has_force_unit_access: false,
            can_flush: true,
            atomic_write_bytes: SectorNr::SIZE as u32,
            queue_depth: 1024,
            is_read_only: false,
        }
    }

    /// Checks that the device can accept the request.
    ///
    /// # Errors
    /// - [`DeviceError::OutOfRange`] if it reaches beyond the end.
    /// - [`DeviceError::ReadOnly`] if it changes a device that refuses writes.
    ///
    /// # Panics
    /// Panics if a read's piece is not a multiple of the sector size, which is a bug of the caller.
    pub fn check(&self, request: &Request) -> Result<(), DeviceError> {
        if let Request::Read { block_bytes, .. } = request {
            assert!(
                *block_bytes > 0 && u64::from(*block_bytes).is_multiple_of(SectorNr::SIZE),
                "a piece to read is a multiple of the sector size"
            );
        }
        let (sector, sectors) = request.range();
        let end = sector.get().checked_add(sectors);
        if end.is_none_or(|end| end > self.size_bytes / SectorNr::SIZE) {
            return Err(DeviceError::OutOfRange { sector, sectors });
        }
        if self.is_read_only && request.is_write() {
            return Err(DeviceError::ReadOnly);
        }
        Ok(())
    }
}

/// A block device.
///
/// All calls may come from any thread. Implementations hold no lock while the caller waits.
///
/// # Contract
///
/// - A ticket has one result for each request, in the order of the batch: [`Outcome::Read`] with as
///   many blocks as requested, or [`Outcome::Done`]. Callers that submit with
///   [`request`](#method.request) rely on it.
/// - The device may execute requests in any order, within a batch and between batches in flight.
///   Two requests in flight on one sector, one of them a write, are a bug of the caller.
/// - A completed write can be read back. It is *durable* only after the completion of a flush that
///   was submitted after the write had completed, or if it was a FUA write, or if the device has no
///   volatile cache.
/// - A flush covers exactly the writes that had completed before it was submitted. A FUA write is
///   durable by itself and covers nothing else.
/// - After a power cut every sector holds its durable version or any one version not covered by a
///   completed flush. Sectors and devices are independent of each other.
/// - A device checks each request with [`Geometry::check`] before it executes it, or passes it to a
///   device that does.
pub trait BlockDevice: Send + Sync {
    /// Returns the properties of the device, which never change.
    fn geometry(&self) -> Geometry;

    /// Submits a batch of requests and returns at once; if the queue is full, blocks until there is
    /// room. The ticket returns the errors of single requests. The device may leave requests to the
    /// thread that waits for the ticket: see [`Ticket::start`].
    fn submit(&self, batch: Vec<Request>) -> Ticket;

    /// Returns a short name for messages: a path, or a device text.
    fn name(&self) -> String;

    /// Reserves space for byte ranges, so that writes to them cannot fail for lack of space.
    /// Contents do not change. Does nothing if the device has all its space, or cannot reserve any.
    /// A device on top of another passes the call on.
    ///
    /// # Errors
    /// - [`DeviceError::NoSpace`] if there is not enough space. A part of it may be reserved.
    fn reserve(&self, _ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Returns the name of another user of the storage that appeared since the device was opened
    /// and may have changed it; `None` if there is none or it cannot be detected. A device on top
    /// of another passes the call on.
    fn intruder(&self) -> Option<String> {
        None
    }

    /// Returns the first part of a byte range that may hold nonzero bytes; the bytes before it read
    /// as zeroes. The part is empty, at the end of the range, if the whole range reads as zeroes. A
    /// device without this information returns the range.
    fn next_data(&self, range: Range<u64>) -> Range<u64> {
        range
    }

    /// Zeroes byte ranges of whole sectors, by holes or without writing if the device can.
    ///
    /// # Errors
    /// - The errors of a write. A part of the ranges may have been zeroed.
    fn zero(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        zeroes::write(self, ranges)
    }

    /// Reads a block as the storage has it now, past the caches of this machine: another machine
    /// may have written it. A device on top of another passes the call on.
    ///
    /// # Errors
    /// Returns the error of the request.
    fn read_fresh(&self, byte_offset: u64, block_bytes: u32) -> Result<Arc<Block>, DeviceError> {
        fresh::read(self, byte_offset, block_bytes)
    }

    /// Drops what caches of this machine hold and is not to be written: another machine may have
    /// changed it. Does nothing without such a cache. A device on top of another passes the call
    /// on.
    fn drop_cached(&self) {}

    /// Returns the first error, since the last call, of requests whose tickets were dropped; the
    /// next flush reports it. A device on top of another passes the call on.
    fn take_detached_error(&self) -> Option<DeviceError> {
        None
    }
}

impl fmt::Debug for dyn BlockDevice + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockDevice({:?})", self.name())
    }
}

/// Calls that check the contract on results, most of them synchronous and of single requests.
impl dyn BlockDevice + '_ {
    /// Submits a batch as [`submit`](BlockDevice::submit). Waiting for its ticket panics if the
    /// device does not return one result for each request, or not as many blocks as are to be read.
    ///
    /// A caller whose results other threads wait for releases them when it panics.
    pub fn request(&self, batch: Vec<Request>) -> Ticket {
        let blocks = batch.iter().map(|request| match request {
            Request::Read { blocks, .. } => u64::from(*blocks),
            _ => 0,
        });
        let owed = Owed {
            results: batch.len(),
            blocks: blocks.sum(),
        };
        self.submit(batch).checked(owed)
    }

    /// Reads `count` blocks of `block_bytes` each, starting at a byte offset.
    ///
    /// # Errors
    /// Returns the error of the request.
    pub fn read_blocks(
        &self,
        byte_offset: u64,
        count: u32,
        block_bytes: u32,
    ) -> Result<Payload, DeviceError> {
        let sector = SectorNr::from_byte_offset(byte_offset);
        let request = Request::Read {
            sector,
            blocks: count,
            block_bytes,
        };
        match self.request(vec![request]).wait().pop() {
            Some(Ok(Outcome::Read(payload))) => Ok(payload),
            Some(Err(error)) => Err(error),
            _ => Err(DeviceError::Gone),
        }
    }

    /// Reads one block of `block_bytes` at a byte offset.
    ///
    /// # Errors
    /// Returns the error of the request.
    pub fn read_block(
        &self,
        byte_offset: u64,
        block_bytes: u32,
    ) -> Result<Arc<Block>, DeviceError> {
        self.read_blocks(byte_offset, 1, block_bytes)?
            .pop()
            .ok_or(DeviceError::Gone)
    }

    /// Writes a payload at a byte offset and waits.
    ///
    /// # Errors
    /// Returns the error of the request.
    pub fn write_blocks(&self, byte_offset: u64, payload: Payload) -> Result<(), DeviceError> {
        let sector = SectorNr::from_byte_offset(byte_offset);
        let request = Request::Write {
            sector,
            payload,
            force_unit_access: false,
        };
        self.request(vec![request]).wait_all()
    }

    /// Discards byte ranges. Their contents are undefined until they are written again. A device
    /// that cannot discard ignores the call.
    ///
    /// # Errors
    /// Returns the error of the first request that fails.
    pub fn discard(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        let requests = ranges.iter().map(|range| Request::Discard {
            sector: SectorNr::from_byte_offset(range.start),
            sectors: (range.end - range.start) / SectorNr::SIZE,
        });
        self.request(requests.collect()).wait_all()
    }

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// Returns the error of the request.
    pub fn flush(&self) -> Result<(), DeviceError> {
        self.request(vec![Request::Flush]).wait_all()
    }
}
