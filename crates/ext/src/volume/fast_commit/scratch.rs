//! A device that keeps all writes in memory, over one that is only read: the blocks that a replay
//! changes, until all of them are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, DeviceError, Outcome, Request, Ticket};
use layout::{Block, BlockNr};
use rt::Mutex;

/// The device.
pub(super) struct Scratch {
    below: Arc<dyn BlockDevice>,
    block_bytes: u32,
    /// The written blocks. // [scratch] leaf
    written: Mutex<BTreeMap<u64, Arc<Block>>>,
}

impl Scratch {
    /// Creates a device that is written in whole blocks.
    pub(super) fn new(below: Arc<dyn BlockDevice>, block_bytes: u32) -> Self {
        Self {
            below,
            block_bytes,
            written: Mutex::default(),
        }
    }

    /// Takes the written blocks that differ from those below.
    pub(super) fn take(&self) -> Result<Vec<(BlockNr, Arc<Block>)>, DeviceError> {
        let written = core::mem::take(&mut *self.written.lock());
        let mut changed = Vec::with_capacity(written.len());
        for (nr, block) in written {
            let at = nr * u64::from(self.block_bytes);
            if *self.below.read_block(at, self.block_bytes)? != *block {
                changed.push((BlockNr::new(nr), block));
            }
        }
        Ok(changed)
    }

    fn carry_out(&self, request: Request) -> Result<Outcome, DeviceError> {
        let unit = u64::from(self.block_bytes);
        match request {
            Request::Read {
                sector,
                blocks,
                block_bytes,
            } => {
                let mut at = sector.byte_offset();
                let mut payload = self.below.read_blocks(at, blocks, block_bytes)?;
                let written = self.written.lock();
                for block in &mut payload {
                    overlay(&written, unit, at, block);
                    at += u64::from(block_bytes);
                }
                Ok(Outcome::Read(payload))
            }
            Request::Write {
                sector,
                ref payload,
                ..
            } => {
                let at = sector.byte_offset();
                let are_whole = payload.iter().all(|block| block.len() as u64 == unit);
                if !are_whole || !at.is_multiple_of(unit) {
                    return Err(request.failed(self.name(), "it is no whole block"));
                }
                let numbered = (at / unit..).zip(payload.iter().cloned());
                self.written.lock().extend(numbered);
                Ok(Outcome::Done)
            }
            Request::Flush | Request::Discard { .. } => Ok(Outcome::Done),
        }
    }
}

/// Replaces the bytes of a block at an offset of the device by those that were written.
fn overlay(written: &BTreeMap<u64, Arc<Block>>, unit: u64, at: u64, block: &mut Arc<Block>) {
    let end = at + block.len() as u64;
    for (nr, newer) in written.range(at / unit..end.div_ceil(unit)) {
        let start = nr * unit;
        let (from, to) = (at.max(start), end.min(start + unit));
        let within = |of: u64| (from - of) as usize..(to - of) as usize;
        let target: &mut Block = Arc::make_mut(block);
        target[within(at)].copy_from_slice(&newer[within(start)]);
    }
}

impl BlockDevice for Scratch {
    fn geometry(&self) -> block::Geometry {
        block::Geometry {
            is_read_only: false,
            can_flush: true,
            ..self.below.geometry()
        }
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let answers = batch.into_iter().map(|request| self.carry_out(request));
        Ticket::ready(answers.collect())
    }

    fn name(&self) -> String {
        self.below.name()
    }
}

#[cfg(test)]
mod tests {
    use block::MemoryDevice;

    use super::*;

    #[test]
    fn only_changes_are_taken() {
        let below: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(64 << 10));
        let scratch = Scratch::new(Arc::clone(&below), 2048);
        let block = |byte| Block::copy_from(&[byte; 2048]).into_arc();
        let seen: &dyn BlockDevice = &scratch;
        seen.write_blocks(4096, vec![block(1), block(0)])
            .expect("memory");
        assert!(seen.write_blocks(512, vec![block(2)]).is_err());
        let read = seen.read_block(3584, 1024).expect("memory");
        assert!(read[..512] == [0; 512] && read[512..] == [1; 512]);
        assert_eq!(
            scratch.take().expect("memory"),
            [(BlockNr::new(2), block(1))]
        );
        assert_eq!(*below.read_block(4096, 2048).expect("memory"), *block(0));
    }
}
