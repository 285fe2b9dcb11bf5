//! The contents of a large device: what was written takes memory, and holes take none.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::versions::Version;
use block::{BlockDevice, Geometry, Medium, MemoryDevice, Request, Ticket};
use layout::{Block, SectorNr};
use rt::Mutex;

use crate::image::{Hashed, hash_sector};

/// Number of sectors of which a read is noted as one.
const NOTED_SECTORS: u64 = 8;

/// The contents of a device, with the hash of all sectors that differ from the first contents.
pub(crate) struct Sparse {
    memory: MemoryDevice,
    hash: u64,
}

impl Sparse {
    pub(crate) fn new(memory: MemoryDevice) -> Self {
        Self { memory, hash: 0 }
    }

    pub(crate) fn memory(&self) -> &MemoryDevice {
        &self.memory
    }
}

impl Medium for Sparse {
    fn snapshot(&self) -> Self {
        Self {
            memory: self.memory.snapshot(),
            hash: self.hash,
        }
    }

    fn store(&mut self, versions: &[(SectorNr, Version)]) {
        for (sector, version) in versions {
            let fresh = hash_sector(sector.get(), version.bytes());
            self.hash ^= self.sector_hash(sector.get()) ^ fresh;
        }
        self.memory.store(versions);
    }
}

impl Hashed for Sparse {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn sector_hash(&self, sector: u64) -> u64 {
        let bytes = read(&self.memory, sector * SectorNr::SIZE, SectorNr::SIZE as u32);
        hash_sector(sector, &bytes)
    }
}

/// Reads within a device, which cannot fail.
pub(crate) fn read(memory: &MemoryDevice, byte_offset: u64, bytes: u32) -> Arc<Block> {
    let memory: &dyn BlockDevice = memory;
    memory
        .read_block(byte_offset, bytes)
        .expect("reads within a device in memory do not fail")
}

/// A device in memory that records which parts of it were read.
pub(crate) struct ReadDevice {
    memory: MemoryDevice,
    /// Numbers of the units of [`NOTED_SECTORS`].
    reads: Mutex<BTreeSet<u64>>,
}

impl ReadDevice {
    pub(crate) fn new(memory: MemoryDevice) -> Arc<Self> {
        Arc::new(Self {
            memory,
            reads: Mutex::new(BTreeSet::new()),
        })
    }

    /// Returns the present contents and the reads so far.
    pub(crate) fn result(&self) -> (MemoryDevice, Reads) {
        (self.memory.snapshot(), Reads(self.reads.lock().clone()))
    }
}

impl BlockDevice for ReadDevice {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        let mut reads = self.reads.lock();
        for request in &batch {
            if let Request::Read { .. } = request {
                let (first, sectors) = request.range();
                let end = (first.get() + sectors).div_ceil(NOTED_SECTORS);
                reads.extend(first.get() / NOTED_SECTORS..end);
            }
        }
        drop(reads);
        self.memory.submit(batch)
    }

    fn name(&self) -> String {
        self.memory.name()
    }
}

/// The parts of a device that were read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads(BTreeSet<u64>);

impl Reads {
    pub(crate) fn contains(&self, sector: u64) -> bool {
        self.0.contains(&(sector / NOTED_SECTORS))
    }
}
