//! Reading a block from a device without a cache of its own.

use std::sync::Arc;

use layout::{Block, SectorNr};

use super::{BlockDevice, Request};
use crate::error::DeviceError;
use crate::ticket::Outcome;

/// Reads a block by a request.
pub(super) fn read(
    device: &(impl BlockDevice + ?Sized),
    byte_offset: u64,
    block_bytes: u32,
) -> Result<Arc<Block>, DeviceError> {
    let request = Request::Read {
        sector: SectorNr::from_byte_offset(byte_offset),
        blocks: 1,
        block_bytes,
    };
    match device.submit(vec![request]).wait().pop() {
        Some(Ok(Outcome::Read(mut payload))) => payload.pop().ok_or(DeviceError::Gone),
        Some(Err(error)) => Err(error),
        _ => Err(DeviceError::Gone),
    }
}
