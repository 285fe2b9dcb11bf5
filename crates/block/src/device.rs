//! The trait [`BlockDevice`], its requests, and what a device promises.

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use layout::{Block, SectorNr};

use crate::error::DeviceError;
use crate::ticket::{Outcome, Ticket};
use crate::zeroes;

/// What a request carries: blocks of memory, one after another on the device.
pub type Payload = Vec<Arc<Block>>;

/// One request to a device.
#[derive(Debug, Clone)]
pub enum Request {
    /// Read `blocks` pieces of `block_bytes` each, from `sector` on; the outcome carries them in order.
    Read {
        /// The first sector.
        sector: SectorNr,
        /// How many pieces to read.
        blocks: u32,
        /// The size of a piece in bytes, a multiple of 512.
        block_bytes: u32,
    },
    /// Write the payload from `sector` on.
    Write {
        /// The first sector.
        sector: SectorNr,
        /// The bytes, each piece a multiple of 512.
        payload: Payload,
        /// Durable when complete, even if the device has a volatile cache.
        force_unit_access: bool,
    },
    /// Make durable every write that had completed before this was submitted.
    Flush,
    /// Forget the contents of a range; what it reads back as afterwards is anything until it is written.
    Discard {
        /// The first sector.
        sector: SectorNr,
        /// How many sectors.
        sectors: u64,
    },
}

impl Request {
    /// The sectors that the request touches: first and count. A flush touches none.
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

    /// What the request is called in messages: `read`, `write`, `flush` or `discard`.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Flush => "flush",
            Self::Discard { .. } => "discard",
        }
    }

    /// Whether the request changes the device.
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Discard { .. })
    }

    /// Returns the error of a request that a device could not carry out.
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

/// What a device is and can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Size in bytes, a multiple of the sector size.
    pub size_bytes: u64,
    /// The smallest unit that is written whole or not at all, in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// Whether completed writes can be lost at a power cut until they are flushed.
    pub has_volatile_cache: bool,
    /// Whether FUA writes are done by the device itself (otherwise it emulates them with a flush).
    pub has_force_unit_access: bool,
    /// Whether flushes reach stable storage. A device that cannot is refused for read-write use unless forced.
    pub can_flush: bool,
    /// The largest aligned write that a power cut leaves whole or undone, in bytes.
    pub atomic_write_bytes: u32,
    /// How many requests the device takes before `submit` blocks.
    pub queue_depth: u32,
    /// Whether writes are refused.
    pub is_read_only: bool,
}

impl Geometry {
    /// Returns the geometry of a plain disk: sectors of 512 bytes, and a volatile cache that flushes empty. The size is rounded down to
    /// whole sectors.
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

    /// Checks that the device can take the request at all.
    ///
    /// # Errors
    /// - [`DeviceError::OutOfRange`] if it reaches beyond the end.
    /// - [`DeviceError::ReadOnly`] if it changes a device that refuses writes.
    ///
    /// # Panics
    /// If a read's piece is not a multiple of the sector size, which is a bug of the caller.
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
/// - A ticket has one result for each request, in the order of the batch: [`Outcome::Read`] with as many blocks as were asked for, or
///   [`Outcome::Done`].
/// - Within a batch, and between batches in flight, the device may do requests in any order. Two requests in flight on
///   one sector, one of them a write, are a bug of the caller.
/// - A completed write can be read back. It is *durable* only after a flush that was submitted after its completion has
///   completed, or if it was a FUA write, or if the device has no volatile cache.
/// - A flush covers exactly the writes that had completed before it was submitted. A FUA write is durable by itself and
///   covers nothing else.
/// - After a power cut every sector holds its durable version or any one version not covered by a completed flush,
///   sectors independent of each other, devices independent of each other.
/// - A device checks each request with [`Geometry::check`] before it carries it out, or passes it to a device that does.
pub trait BlockDevice: Send + Sync {
    /// Returns what the device is and can do. It does not change.
    fn geometry(&self) -> Geometry;

    /// Hands over a batch of requests and returns at once, unless the queue is full: then it blocks until it is not.
    /// Errors of single requests come out of the ticket.
    fn submit(&self, batch: Vec<Request>) -> Ticket;

    /// Returns a short name for messages: a path, or a device text.
    fn name(&self) -> String;

    /// Reserves space behind byte ranges, so that writing to them does not fail for want of it. Contents do not change. Does
    /// nothing where a device has all its space, or cannot reserve any. A device on another one passes the call on.
    ///
    /// # Errors
    /// - [`DeviceError::NoSpace`] when there is less space than that. A part of it may be reserved.
    fn reserve(&self, _ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Names another user of the storage behind the device that has come since it was opened and may have changed it; none where there is
    /// none, or that cannot be known. A device on another one passes the call on.
    fn intruder(&self) -> Option<String> {
        None
    }

    /// The first part of a byte range that may hold anything but zeroes: what lies before it reads as zeroes. Empty, at the end of
    /// the range, if all of it does. A device that cannot know returns the range.
    fn next_data(&self, range: Range<u64>) -> Range<u64> {
        range
    }

    /// Makes byte ranges of whole sectors read as zeroes, with holes or without writing where the device can.
    ///
    /// # Errors
    /// - What a write says. A part of the ranges may have been zeroed.
    fn zero(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        zeroes::write(self, ranges)
    }

    /// Returns the first error since the last call of requests whose tickets were dropped; the next flush reports it. A device on
    /// another one passes the call on.
    fn take_detached_error(&self) -> Option<DeviceError> {
        None
    }
}

impl fmt::Debug for dyn BlockDevice + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockDevice({:?})", self.name())
    }
}

/// Conveniences for callers that want one thing done and wait for it.
impl dyn BlockDevice + '_ {
    /// Reads `count` blocks of `block_bytes` each from a byte offset on.
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
        match self.submit(vec![request]).wait().pop() {
            Some(Ok(Outcome::Read(payload))) => Ok(payload),
            Some(Err(error)) => Err(error),
            _ => Err(DeviceError::Gone),
        }
    }

    /// Reads one block of `block_bytes` at a byte offset.
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
    pub fn write_blocks(&self, byte_offset: u64, payload: Payload) -> Result<(), DeviceError> {
        let sector = SectorNr::from_byte_offset(byte_offset);
        let request = Request::Write {
            sector,
            payload,
            force_unit_access: false,
        };
        self.submit(vec![request]).wait_all()
    }

    /// Discards byte ranges: what they read as is anything until they are written again. A device that cannot discard ignores it.
    pub fn discard(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        let requests = ranges.iter().map(|range| Request::Discard {
            sector: SectorNr::from_byte_offset(range.start),
            sectors: (range.end - range.start) / SectorNr::SIZE,
        });
        self.submit(requests.collect()).wait_all()
    }

    /// Makes durable all writes that have completed.
    pub fn flush(&self) -> Result<(), DeviceError> {
        self.submit(vec![Request::Flush]).wait_all()
    }
}
