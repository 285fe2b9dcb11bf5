//! Writes data to blocks that are already allocated, past the page cache of the volume.
//!
//! Blocks are collected over files, because small files that follow each other lie beside each
//! other on a new volume: a batch of them is one request.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Result, bail};
use block::{BlockDevice, DeviceError, Request};
use ext::volume::DeviceExtent;
use layout::{Block, SectorNr};

/// Bytes that are collected before they are written.
const BATCH_BYTES: usize = 1 << 20;

/// Data on its way to a device.
pub(crate) struct PlacedData {
    device: Arc<dyn BlockDevice>,
    block_bytes: usize,
    /// Places of the rest of the current file.
    extents: VecDeque<DeviceExtent>,
    /// Blocks that wait to be written.
    blocks: VecDeque<Arc<Block>>,
    /// Their places, in order: offset on the device in bytes, and number of blocks.
    places: Vec<(u64, usize)>,
}

impl PlacedData {
    pub(crate) fn new(device: &Arc<dyn BlockDevice>, block_bytes: u32) -> Self {
        Self {
            device: Arc::clone(device),
            block_bytes: block_bytes as usize,
            extents: VecDeque::new(),
            blocks: VecDeque::new(),
            places: Vec::new(),
        }
    }

    /// Starts a file whose data belongs to these extents.
    pub(crate) fn start(&mut self, extents: Vec<DeviceExtent>) {
        self.extents = extents.into();
    }

    /// Adds the next data of the file: whole blocks, but for the end of the file.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let block_bytes = self.block_bytes as u64;
        for piece in bytes.chunks(self.block_bytes) {
            let Some(extent) = self.extents.front_mut() else {
                bail!("it has more data than blocks");
            };
            let place = extent.device_offset;
            extent.device_offset += block_bytes;
            extent.bytes -= block_bytes;
            if extent.bytes == 0 {
                self.extents.pop_front();
            }
            self.blocks.push_back(self.block(piece));
            match self.places.last_mut() {
                Some((start, count)) if *start + *count as u64 * block_bytes == place => {
                    *count += 1
                }
                _ => self.places.push((place, 1)),
            }
        }
        match self.blocks.len() * self.block_bytes >= BATCH_BYTES {
            true => self.write(),
            false => Ok(()),
        }
    }

    fn block(&self, piece: &[u8]) -> Arc<Block> {
        if piece.len() == self.block_bytes {
            return Block::copy_from(piece).into_arc();
        }
        let mut block = Block::zeroed(self.block_bytes);
        block[..piece.len()].copy_from_slice(piece);
        block.into_arc()
    }

    /// Writes all blocks that wait.
    pub(crate) fn write(&mut self) -> Result<()> {
        let mut blocks = std::mem::take(&mut self.blocks);
        let request = |(offset, count)| Request::Write {
            sector: SectorNr::from_byte_offset(offset),
            payload: blocks.drain(..count).collect(),
            force_unit_access: false,
        };
        let requests: Vec<Request> = self.places.drain(..).map(request).collect();
        if requests.is_empty() {
            return Ok(());
        }
        let written = self.device.submit(requests.clone()).wait_all();
        Ok(written.or_else(|_| self.write_one_by_one(requests))?)
    }

    /// Writes blocks again, each alone: of a request that was written in part the device does not
    /// say that it is full.
    fn write_one_by_one(&self, requests: Vec<Request>) -> Result<(), DeviceError> {
        for request in requests {
            let Request::Write {
                sector, payload, ..
            } = request
            else {
                continue;
            };
            let mut offset = sector.byte_offset();
            for block in payload {
                let length = block.len() as u64;
                self.device
                    .write_blocks(offset, [block].into_iter().collect())?;
                offset += length;
            }
        }
        Ok(())
    }
}
