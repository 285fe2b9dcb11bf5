//! Writing many blocks in place, in large requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::BlockDevice;
use layout::{Block, BlockNr};

use crate::error::Result;

/// Number of bytes held back, to be written in the order of their blocks.
const HELD_BYTES: usize = 16 << 20;
/// Number of blocks in one request.
const RUN_BLOCKS: usize = 256;

/// Blocks on their way to the device. Nothing is durable before [`Writer::flush`].
pub(super) struct Writer<'d> {
    device: &'d Arc<dyn BlockDevice>,
    block_bytes: u32,
    held: BTreeMap<BlockNr, Arc<Block>>,
}

impl<'d> Writer<'d> {
    pub(super) fn new(device: &'d Arc<dyn BlockDevice>, block_bytes: u32) -> Self {
        Self {
            device,
            block_bytes,
            held: BTreeMap::new(),
        }
    }

    /// Returns the contents of a block: those to be written, or those on the device.
    pub(super) fn read(&self, block: BlockNr) -> Result<Arc<Block>> {
        if let Some(image) = self.held.get(&block) {
            return Ok(Arc::clone(image));
        }
        let offset = block.get() * u64::from(self.block_bytes);
        Ok(self.device.read_block(offset, self.block_bytes)?)
    }

    /// Adds a block.
    pub(super) fn put(&mut self, block: BlockNr, image: Arc<Block>) -> Result<()> {
        self.held.insert(block, image);
        match self.held.len() * self.block_bytes as usize >= HELD_BYTES {
            true => self.write_held(),
            false => Ok(()),
        }
    }

    fn write_held(&mut self) -> Result<()> {
        let mut run: Vec<Arc<Block>> = Vec::new();
        let mut first = BlockNr::new(0);
        for (block, image) in core::mem::take(&mut self.held) {
            let continues = block == first + run.len() as u64 && run.len() < RUN_BLOCKS;
            if !continues {
                self.write_run(first, &mut run)?;
                first = block;
            }
            run.push(image);
        }
        self.write_run(first, &mut run)
    }

    fn write_run(&self, first: BlockNr, run: &mut Vec<Arc<Block>>) -> Result<()> {
        if run.is_empty() {
            return Ok(());
        }
        let offset = first.get() * u64::from(self.block_bytes);
        Ok(self.device.write_blocks(offset, core::mem::take(run))?)
    }

    /// Writes what is held back, and makes all of it durable.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.write_held()?;
        Ok(self.device.flush()?)
    }
}
