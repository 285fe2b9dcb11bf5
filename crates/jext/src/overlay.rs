//! A writable device over an unchanged one: writes stay in memory. A journal is replayed on it for
//! programs that only read.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::ticket::{Outcome, Results, Ticket};
use block::{BlockDevice, DeviceError, Geometry, Request};
use layout::{Block, SectorNr};
use rt::RwLock;

/// Sector size in bytes.
const SECTOR: usize = SectorNr::SIZE as usize;

/// A sector in memory: a block, and the index of the sector within it.
type Written = (Arc<Block>, usize);

/// A device whose changes stay in memory.
pub struct OverlayDevice {
    below: Arc<dyn BlockDevice>,
    /// Written sectors by sector number.
    written: RwLock<BTreeMap<u64, Written>>,
}

impl OverlayDevice {
    /// Creates a device that reads as `below` until it is written.
    #[must_use]
    pub fn new(below: Arc<dyn BlockDevice>) -> Self {
        Self {
            below,
            written: RwLock::default(),
        }
    }

    fn carry_out(&self, request: Request) -> Result<Outcome, DeviceError> {
        self.geometry().check(&request)?;
        match request {
            Request::Read {
                sector,
                blocks,
                block_bytes,
            } => self.read(sector, blocks, block_bytes),
            Request::Write {
                sector, payload, ..
            } => {
                let mut at = sector.get();
                let mut written = self.written.write();
                for block in payload {
                    for index in 0..block.len() / SECTOR {
                        written.insert(at, (Arc::clone(&block), index));
                        at += 1;
                    }
                }
                Ok(Outcome::Done)
            }
            // Reads of a discarded range may return anything.
            Request::Flush | Request::Discard { .. } => Ok(Outcome::Done),
        }
    }

    fn read(
        &self,
        sector: SectorNr,
        blocks: u32,
        block_bytes: u32,
    ) -> Result<Outcome, DeviceError> {
        let below = &*self.below;
        let mut payload = below.read_blocks(sector.byte_offset(), blocks, block_bytes)?;
        let written = self.written.read();
        let mut first = sector.get();
        for block in &mut payload {
            let end = first + (block.len() / SECTOR) as u64;
            for (at, (bytes, index)) in written.range(first..end) {
                let (to, from) = ((at - first) as usize * SECTOR, index * SECTOR);
                Arc::make_mut(block)[to..to + SECTOR].copy_from_slice(&bytes[from..from + SECTOR]);
            }
            first = end;
        }
        Ok(Outcome::Read(payload))
    }
}

impl BlockDevice for OverlayDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            is_read_only: false,
            can_flush: true,
            ..self.below.geometry()
        }
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let results: Results = batch
            .into_iter()
            .map(|request| self.carry_out(request))
            .collect();
        Ticket::ready(results)
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
    fn what_is_written_is_read_and_the_device_below_stays() {
        let below = Arc::new(MemoryDevice::new(64 << 10).with_geometry(|geometry| {
            geometry.is_read_only = true;
        }));
        let device: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::new(Arc::clone(&below) as _));
        let bytes: Vec<u8> = (0..1024).map(|index| (index / 512 + 1) as u8).collect();
        let block = Block::copy_from(&bytes).into_arc();
        device.write_blocks(512, vec![block]).expect("it is memory");
        device.flush().expect("it is memory");
        let read = device.read_block(0, 2048).expect("it is memory");
        assert_eq!(read[..512], [0; 512]);
        assert_eq!(read[512..1536], bytes);
        assert_eq!(read[1536..], [0; 512]);
        assert!(below.to_bytes().iter().all(|byte| *byte == 0));
        assert!(device.read_block(64 << 10, 512).is_err());
    }
}
