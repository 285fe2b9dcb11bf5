//! The device on which images are recovered and workloads run: memory that records the sectors
//! read.

use std::sync::Arc;

use block::{BlockDevice, DeviceError, Geometry, Outcome, Payload, Request, Ticket};
use layout::{Block, SectorNr};
use rt::Mutex;

use crate::image::{BLOCK_BYTES, BLOCK_SECTORS, Image, SECTOR_BYTES};

/// A function that puts a layer in front of a device.
pub type Plant = fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice>;

/// An image as a device.
pub struct ImageDevice {
    geometry: Geometry,
    state: Mutex<State>,
}

struct State {
    image: Image,
    reads: Reads,
}

/// The sectors that were read.
#[derive(Debug, Clone, Default)]
pub struct Reads {
    /// One bit for each sector.
    words: Vec<u64>,
}

impl Reads {
    fn note(&mut self, first: u64, count: u64) {
        for sector in first..first + count {
            let word = (sector / 64) as usize;
            if self.words.len() <= word {
                self.words.resize(word + 1, 0);
            }
            self.words[word] |= 1 << (sector % 64);
        }
    }

    /// Adds the reads of another.
    pub(crate) fn add(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Returns true if a sector was read.
    pub fn contains(&self, sector: u64) -> bool {
        let word = self.words.get((sector / 64) as usize);
        word.is_some_and(|word| word & 1 << (sector % 64) != 0)
    }
}

impl ImageDevice {
    /// Creates a device with these contents and without a cache.
    pub fn new(image: Image) -> Arc<Self> {
        let geometry = Geometry {
            size_bytes: image.size_bytes(),
            sector_bytes: 512,
            has_volatile_cache: false,
            has_force_unit_access: true,
            can_flush: true,
            atomic_write_bytes: 512,
            queue_depth: 1024,
            is_read_only: false,
        };
        let state = State {
            image,
            reads: Reads::default(),
        };
        Arc::new(Self {
            geometry,
            state: Mutex::new(state),
        })
    }

    /// Returns its present contents.
    pub fn image(&self) -> Image {
        self.state.lock().image.clone()
    }

    /// Returns the reads so far.
    pub fn reads(&self) -> Reads {
        self.state.lock().reads.clone()
    }

    /// Returns a block without recording a read.
    pub fn block(&self, number: u64) -> Arc<Block> {
        Arc::clone(self.state.lock().image.block(number))
    }

    fn carry_out(&self, request: Request) -> Result<Outcome, DeviceError> {
        self.geometry.check(&request)?;
        let mut state = self.state.lock();
        match request {
            Request::Read {
                sector,
                blocks,
                block_bytes,
            } => {
                let step = u64::from(block_bytes) / SectorNr::SIZE;
                state.reads.note(sector.get(), u64::from(blocks) * step);
                let piece = |index| state.image.read(sector.get() + index * step, step);
                return Ok(Outcome::Read((0..u64::from(blocks)).map(piece).collect()));
            }
            Request::Write {
                sector, payload, ..
            } => state.image.write(sector.get(), payload),
            Request::Discard { sector, sectors } => {
                for sector in sector.get()..sector.get() + sectors {
                    state.image.set_sector(sector, &[0; SECTOR_BYTES]);
                }
            }
            Request::Flush => {}
        }
        Ok(Outcome::Done)
    }
}

impl Image {
    /// Returns some sectors as one block, by reference if they are one block.
    fn read(&self, first: u64, count: u64) -> Arc<Block> {
        let sectors = BLOCK_SECTORS as u64;
        if count == sectors && first.is_multiple_of(sectors) {
            return Arc::clone(self.block(first / sectors));
        }
        let mut block = Block::zeroed(count as usize * SECTOR_BYTES);
        for (sector, bytes) in (first..).zip(block.chunks_mut(SECTOR_BYTES)) {
            let from = (sector % sectors) as usize * SECTOR_BYTES;
            bytes.copy_from_slice(&self.block(sector / sectors)[from..from + SECTOR_BYTES]);
        }
        block.into_arc()
    }

    fn write(&mut self, first: u64, payload: Payload) {
        let mut sector = first;
        for block in payload {
            let sectors = (block.len() / SECTOR_BYTES) as u64;
            if block.len() == BLOCK_BYTES && sector.is_multiple_of(sectors) {
                self.set_block(sector / sectors, block);
            } else {
                for (sector, bytes) in (sector..).zip(block.chunks(SECTOR_BYTES)) {
                    self.set_sector(sector, bytes);
                }
            }
            sector += sectors;
        }
    }
}

impl BlockDevice for ImageDevice {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        rt::point();
        let results = batch.into_iter().map(|request| self.carry_out(request));
        Ticket::ready(results.collect())
    }

    fn name(&self) -> String {
        format!("image:{}", self.geometry.size_bytes)
    }
}
