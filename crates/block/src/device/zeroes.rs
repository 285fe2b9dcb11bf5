//! Writing of zeroes, for devices without a faster way.

use core::ops::Range;
use std::sync::Arc;

use layout::{Block, SectorNr};

use crate::device::{BlockDevice, Request};
use crate::error::DeviceError;

/// Size of the block of zeroes that all requests share, in bytes.
const BLOCK_BYTES: u64 = 1 << 16;
/// Size of a request in bytes.
const REQUEST_BYTES: u64 = 1 << 20;
/// Number of requests submitted before the first is waited for.
const BATCH_REQUESTS: usize = 32;

/// Writes zeroes to ranges, except where the device already holds zeroes.
pub(crate) fn write(
    device: &(impl BlockDevice + ?Sized),
    ranges: &[Range<u64>],
) -> Result<(), DeviceError> {
    let block = Block::zeroed(BLOCK_BYTES as usize).into_arc();
    let mut batch = Vec::new();
    for range in ranges {
        let mut next = range.start;
        while next < range.end {
            let data = device.next_data(next..range.end);
            let start = data.start - data.start % SectorNr::SIZE;
            let end = data.end.next_multiple_of(SectorNr::SIZE);
            for at in (start..end).step_by(REQUEST_BYTES as usize) {
                batch.push(request(&block, at, REQUEST_BYTES.min(end - at)));
                if batch.len() == BATCH_REQUESTS {
                    device.submit(core::mem::take(&mut batch)).wait_all()?;
                }
            }
            next = data.end;
        }
    }
    device.submit(batch).wait_all()
}

fn request(block: &Arc<Block>, at: u64, bytes: u64) -> Request {
    let whole = (bytes / BLOCK_BYTES) as usize;
    let rest = (bytes % BLOCK_BYTES) as usize;
    let mut payload = vec![Arc::clone(block); whole];
    if rest > 0 {
        payload.push(Block::zeroed(rest).into_arc());
    }
    Request::Write {
        sector: SectorNr::from_byte_offset(at),
        payload,
        force_unit_access: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryDevice;

    #[test]
    fn ranges_are_zeroed_and_nothing_else_is() {
        let size = 3 * REQUEST_BYTES;
        let device = MemoryDevice::from_bytes(&vec![7; size as usize]);
        let ranges = [
            512..1024,
            4096..REQUEST_BYTES + BLOCK_BYTES + 512,
            size - 512..size,
        ];
        device.zero(&ranges).expect("memory does not fail");
        for (at, byte) in (0u64..).zip(device.to_bytes()) {
            let is_zeroed = ranges.iter().any(|range| range.contains(&at));
            assert_eq!(byte, if is_zeroed { 0 } else { 7 }, "{at}");
        }
    }
}
