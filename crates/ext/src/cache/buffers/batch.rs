//! Batches: requests for extents of adjacent blocks, built from sorted blocks.

use std::sync::Arc;

use block::{BlockDevice, DeviceError, Outcome, Payload, Request};
use layout::{Block, BlockNr, SectorNr};

/// Largest size of a request in bytes.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Number of requests to submit before waiting for the first.
const BATCH_REQUESTS: usize = 32;

/// Splits sorted items into extents of adjacent blocks, none longer than a request may be.
pub(crate) fn runs<T>(
    items: &[T],
    block_of: impl Fn(&T) -> BlockNr,
    block_bytes: u32,
) -> Vec<&[T]> {
    let count_max = (REQUEST_BYTES_MAX / block_bytes) as usize;
    let mut runs = Vec::new();
    let mut rest = items;
    while !rest.is_empty() {
        let first = block_of(&rest[0]).get();
        let is_adjacent =
            |(index, item): &(usize, &T)| block_of(item).get() == first + *index as u64;
        let count = rest
            .iter()
            .enumerate()
            .take(count_max)
            .take_while(is_adjacent)
            .count();
        let (run, behind) = rest.split_at(count);
        runs.push(run);
        rest = behind;
    }
    runs
}

/// Returns one write request for an extent.
pub(crate) fn write_request(run: &[(BlockNr, Arc<Block>)], block_bytes: u32) -> Request {
    Request::Write {
        sector: SectorNr::from_byte_offset(run[0].0.get() * u64::from(block_bytes)),
        payload: run.iter().map(|(_, image)| Arc::clone(image)).collect(),
        force_unit_access: false,
    }
}

/// Returns the images that a read returned.
pub(crate) fn images(result: Result<Outcome, DeviceError>) -> Result<Payload, DeviceError> {
    match result? {
        Outcome::Read(payload) => Ok(payload),
        Outcome::Done => Err(DeviceError::Gone),
    }
}

/// Writes sorted blocks and waits for them.
pub(crate) fn write_all(
    device: &dyn BlockDevice,
    blocks: &[(BlockNr, Arc<Block>)],
    block_bytes: u32,
) -> Result<(), DeviceError> {
    for batch in runs(blocks, |(block, _)| *block, block_bytes).chunks(BATCH_REQUESTS) {
        let requests = batch.iter().map(|run| write_request(run, block_bytes));
        device.request(requests.collect()).wait_all()?;
    }
    Ok(())
}
