//! Reading and writing the journal's superblock.

use block::Request;

use super::Superblock;
use crate::error::{Corrupt, Result};
use crate::location::Location;

impl Superblock {
    /// Reads and checks the superblock of a log.
    pub(crate) fn load(log: &Location) -> Result<Self> {
        let sector = log.pieces(0, 1).next().ok_or(Corrupt::NoSuperblock)?.sector;
        let block = log
            .device
            .read_block(sector.byte_offset(), log.block_bytes)?;
        Self::decode(&block, log.block_bytes, log.block_count())
    }

    /// Returns the requests that write it.
    pub(crate) fn requests(&self, log: &Location) -> Vec<Request> {
        let piece = log.pieces(0, 1).next().expect("it was read from there");
        vec![Request::Write {
            sector: piece.sector,
            payload: vec![self.encode().into_arc()],
            force_unit_access: false,
        }]
    }
}
