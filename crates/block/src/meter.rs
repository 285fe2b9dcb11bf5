//! The meter: counts requests to a device, flushes among them.
//!
//! Tests check the number of flushes of a commit with it, and the lab reports it. The counters are
//! plain atomics: their accesses order nothing, so they are not scheduling points.

use core::fmt;
use core::ops::{Range, Sub};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use layout::Block;

use crate::device::{BlockDevice, Geometry, Request};
use crate::error::DeviceError;
use crate::ticket::Ticket;

/// A device that counts the requests to the device below.
pub struct MeterDevice {
    inner: Arc<dyn BlockDevice>,
    meter: Arc<Meter>,
}

/// Running counters, shared by the device and their readers.
#[derive(Debug, Default)]
pub struct Meter {
    batches: AtomicU64,
    reads: AtomicU64,
    read_sectors: AtomicU64,
    writes: AtomicU64,
    write_sectors: AtomicU64,
    forced_writes: AtomicU64,
    forced_write_sectors: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    discard_sectors: AtomicU64,
}

/// A snapshot of the counters; subtract two for the requests between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeterCounts {
    /// Calls of `submit`.
    pub batches: u64,
    /// Reads.
    pub reads: u64,
    /// Sectors of 512 bytes read.
    pub read_sectors: u64,
    /// Writes, forced ones included.
    pub writes: u64,
    /// Sectors written, by forced writes too.
    pub write_sectors: u64,
    /// Writes with forced unit access.
    pub forced_writes: u64,
    /// Sectors written with forced unit access.
    pub forced_write_sectors: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Sectors discarded.
    pub discard_sectors: u64,
}

impl MeterDevice {
    /// Creates a device that counts the requests to `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self::with_meter(inner, Arc::new(Meter::default()))
    }

    /// Creates a device that counts the requests to `inner` with a meter that may count other
    /// devices too.
    pub fn with_meter(inner: Arc<dyn BlockDevice>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }

    /// Returns the counters.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> MeterCounts {
        self.meter.counts()
    }
}

impl BlockDevice for MeterDevice {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        self.meter.count(&batch);
        self.inner.submit(batch)
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn reserve(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        self.inner.reserve(ranges)
    }

    fn intruder(&self) -> Option<String> {
        self.inner.intruder()
    }

    fn next_data(&self, range: Range<u64>) -> Range<u64> {
        self.inner.next_data(range)
    }

    fn read_fresh(&self, byte_offset: u64, block_bytes: u32) -> Result<Arc<Block>, DeviceError> {
        self.inner.read_fresh(byte_offset, block_bytes)
    }

    fn drop_cached(&self) {
        self.inner.drop_cached();
    }

    fn take_detached_error(&self) -> Option<DeviceError> {
        self.inner.take_detached_error()
    }
}

impl Meter {
    fn count(&self, batch: &[Request]) {
        add(&self.batches, 1);
        for request in batch {
            let (_, sectors) = request.range();
            match request {
                Request::Read { .. } => {
                    add(&self.reads, 1);
                    add(&self.read_sectors, sectors);
                }
                Request::Write {
                    force_unit_access, ..
                } => {
                    add(&self.writes, 1);
                    add(&self.write_sectors, sectors);
                    if *force_unit_access {
                        add(&self.forced_writes, 1);
                        add(&self.forced_write_sectors, sectors);
                    }
                }
                Request::Flush => add(&self.flushes, 1),
                Request::Discard { .. } => {
                    add(&self.discards, 1);
                    add(&self.discard_sectors, sectors);
                }
            }
        }
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> MeterCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MeterCounts {
            batches: get(&self.batches),
            reads: get(&self.reads),
            read_sectors: get(&self.read_sectors),
            writes: get(&self.writes),
            write_sectors: get(&self.write_sectors),
            forced_writes: get(&self.forced_writes),
            forced_write_sectors: get(&self.forced_write_sectors),
            flushes: get(&self.flushes),
            discards: get(&self.discards),
            discard_sectors: get(&self.discard_sectors),
        }
    }
}

impl Sub for MeterCounts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            batches: self.batches - earlier.batches,
            reads: self.reads - earlier.reads,
            read_sectors: self.read_sectors - earlier.read_sectors,
            writes: self.writes - earlier.writes,
            write_sectors: self.write_sectors - earlier.write_sectors,
            forced_writes: self.forced_writes - earlier.forced_writes,
            forced_write_sectors: self.forced_write_sectors - earlier.forced_write_sectors,
            flushes: self.flushes - earlier.flushes,
            discards: self.discards - earlier.discards,
            discard_sectors: self.discard_sectors - earlier.discard_sectors,
        }
    }
}

impl fmt::Display for MeterCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} reads ({} sectors), {} writes ({} sectors), {} forced, {} flushes, {} discards",
            self.reads,
            self.read_sectors,
            self.writes,
            self.write_sectors,
            self.forced_writes,
            self.flushes,
            self.discards
        )
    }
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use layout::{Block, SectorNr};

    use super::*;
    use crate::memory::MemoryDevice;

    #[test]
    fn every_request_is_counted_once() {
        let device = MeterDevice::new(Arc::new(MemoryDevice::new(1 << 20)));
        let sector = SectorNr::new(8);
        let write = |force_unit_access| Request::Write {
            sector,
            payload: vec![Block::zeroed(1024).into_arc()],
            force_unit_access,
        };
        let before = device.counts();
        device
            .submit(vec![write(false), Request::Flush])
            .wait_all()
            .expect("memory does not fail");
        device
            .submit(vec![write(true)])
            .wait_all()
            .expect("memory does not fail");
        let read = Request::Read {
            sector,
            blocks: 3,
            block_bytes: 512,
        };
        let discard = Request::Discard { sector, sectors: 2 };
        device
            .submit(vec![read, discard])
            .wait_all()
            .expect("memory does not fail");
        let expected = MeterCounts {
            batches: 3,
            reads: 1,
            read_sectors: 3,
            writes: 2,
            write_sectors: 4,
            forced_writes: 1,
            forced_write_sectors: 2,
            flushes: 1,
            discards: 1,
            discard_sectors: 2,
        };
        assert_eq!(device.counts() - before, expected);
    }
}
