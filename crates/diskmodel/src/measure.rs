//! Measures the performance of a device through its interface: [`measure`].
//!
//! | figure | method |
//! |---|---|
//! | sequential write and read | 64 MiB from the start by 1 MiB, four in flight; flush |
//! | the same, inside | the last 64 MiB |
//! | random read | 500 blocks of 4 KiB anywhere, one at a time |
//! | random reads a second | 32 readers, 100 blocks each |
//! | durable write | 300 blocks of 4 KiB anywhere, forced, one at a time |
//!
//! A span includes the access to its first sector. A controller's cache may absorb all writes.
//! Small devices are measured over their whole size. Random reads also hit blocks that were never
//! written: flash answers those without its dies, so an SSD should be no larger than the data
//! written here first.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{BlockDevice, DeviceError, Payload, Request, Ticket};
use layout::{Block, SectorNr};
use rt::Nanos;
use rt::split_mix::SplitMix;

const SPAN_BYTES: u64 = 64 << 20;
const REQUEST_BYTES: u64 = 1 << 20;
const REQUESTS_IN_FLIGHT: usize = 4;
const BLOCK_BYTES: u32 = 4_096;
const READS: u64 = 500;
const READERS: u64 = 32;
const READS_OF_READER: u64 = 100;
const WRITES: u64 = 300;
const SEED: u64 = 0x005E_EDED;

/// The figures of a device; `None` if no time passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes per second at the start, written and then flushed.
    pub write_outer: Option<u64>,
    /// Bytes per second read at the start.
    pub read_outer: Option<u64>,
    /// Bytes per second read at the end.
    pub read_inner: Option<u64>,
    /// Mean time of a random read, one at a time.
    pub random_read: Nanos,
    /// Random reads per second with 32 in flight.
    pub random_reads_queued: Option<u64>,
    /// Mean time of a random durable write.
    pub durable_write: Nanos,
}

/// Measures a device in the world of the calling task, and overwrites it.
///
/// # Errors
/// Returns the first error of the device.
pub fn measure(shared: &Arc<dyn BlockDevice>) -> Result<Measured, DeviceError> {
    let device = &**shared;
    let size_bytes = device.geometry().size_bytes;
    let span = SPAN_BYTES.min(size_bytes);
    let last = (size_bytes - span) / u64::from(BLOCK_BYTES) * u64::from(BLOCK_BYTES);
    let mut places = Places::new(size_bytes, SEED);
    let write_outer = transfer(device, 0, span, true)?;
    // The first read may hit the drive's buffer.
    read_at(device, last)?;
    let read_outer = transfer(device, 0, span, false)?;
    let read_inner = transfer(device, last, span, false)?;
    let random_read = mean(READS, || read_at(device, places.next()))?;
    let queued = time(|| read_together(shared, size_bytes))?;
    let durable_write = mean(WRITES, || {
        let write = write_request(places.next(), u64::from(BLOCK_BYTES), true);
        device.submit(vec![write]).wait_all()
    })?;
    Ok(Measured {
        size_bytes,
        write_outer,
        read_outer,
        read_inner,
        random_read,
        random_reads_queued: per_second(READERS * READS_OF_READER, queued),
        durable_write,
    })
}

/// Reads or writes a span. Returns the bytes per second.
fn transfer(
    device: &dyn BlockDevice,
    from: u64,
    span: u64,
    is_write: bool,
) -> Result<Option<u64>, DeviceError> {
    let offsets = (from..from + span).step_by(REQUEST_BYTES as usize);
    let requests = offsets.map(|offset| {
        let bytes = REQUEST_BYTES.min(from + span - offset);
        match is_write {
            true => write_request(offset, bytes, false),
            false => read_request(offset, bytes as u32),
        }
    });
    let took = time(|| {
        run_queued(device, REQUESTS_IN_FLIGHT, requests)?;
        match is_write {
            true => device.submit(vec![Request::Flush]).wait_all(),
            false => Ok(()),
        }
    })?;
    Ok(per_second(span, took))
}

/// Executes requests in order, `depth` of them in flight.
fn run_queued(
    device: &dyn BlockDevice,
    depth: usize,
    requests: impl Iterator<Item = Request>,
) -> Result<(), DeviceError> {
    let mut tickets: VecDeque<Ticket> = VecDeque::new();
    for request in requests {
        if tickets.len() == depth
            && let Some(oldest) = tickets.pop_front()
        {
            oldest.wait_all()?;
        }
        tickets.push_back(device.submit(vec![request]));
    }
    tickets.into_iter().try_for_each(Ticket::wait_all)
}

/// Runs many readers; each reads one block after another.
fn read_together(device: &Arc<dyn BlockDevice>, size_bytes: u64) -> Result<(), DeviceError> {
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            let device = Arc::clone(device);
            rt::spawn("reader", move || {
                let mut places = Places::new(size_bytes, SEED + 1 + reader);
                (0..READS_OF_READER).try_for_each(|_| read_at(&*device, places.next()))
            })
        })
        .collect();
    let results = readers
        .into_iter()
        .map(|reader| reader.join().unwrap_or(Err(DeviceError::Gone)));
    results.fold(Ok(()), Result::and)
}

fn read_at(device: &dyn BlockDevice, offset: u64) -> Result<(), DeviceError> {
    let read = read_request(offset, BLOCK_BYTES);
    device.submit(vec![read]).wait_all()
}

fn read_request(offset: u64, bytes: u32) -> Request {
    Request::Read {
        sector: SectorNr::from_byte_offset(offset),
        blocks: bytes / BLOCK_BYTES,
        block_bytes: BLOCK_BYTES,
    }
}

fn write_request(offset: u64, bytes: u64, force_unit_access: bool) -> Request {
    let block = Block::zeroed(BLOCK_BYTES as usize).into_arc();
    let blocks = bytes / u64::from(BLOCK_BYTES);
    let payload: Payload = (0..blocks).map(|_| Arc::clone(&block)).collect();
    Request::Write {
        sector: SectorNr::from_byte_offset(offset),
        payload,
        force_unit_access,
    }
}

fn time(action: impl FnOnce() -> Result<(), DeviceError>) -> Result<Nanos, DeviceError> {
    let began = rt::monotonic();
    action()?;
    Ok(rt::monotonic() - began)
}

fn mean(
    count: u64,
    mut action: impl FnMut() -> Result<(), DeviceError>,
) -> Result<Nanos, DeviceError> {
    let all = time(|| (0..count).try_for_each(|_| action()))?;
    Ok(all / count)
}

fn per_second(amount: u64, time: Nanos) -> Option<u64> {
    let product = u128::from(amount) * 1_000_000_000;
    let rate = product.checked_div(u128::from(time.get()))?;
    u64::try_from(rate).ok()
}

/// A generator of random block positions.
struct Places {
    random: SplitMix,
    blocks: u64,
}

impl Places {
    fn new(size_bytes: u64, seed: u64) -> Self {
        Self {
            random: SplitMix::new(seed),
            blocks: (size_bytes / u64::from(BLOCK_BYTES)).max(1),
        }
    }

    fn next(&mut self) -> u64 {
        self.random.below(self.blocks) * u64::from(BLOCK_BYTES)
    }
}
