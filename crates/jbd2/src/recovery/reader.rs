//! Reading a log's blocks in large batches.

use std::sync::Arc;

use block::{Outcome, Request};
use layout::{Block, SectorNr};

use crate::location::{Location, Piece};
use crate::space::Ring;

/// Number of bytes read at a time.
const WINDOW_BYTES: u32 = 1 << 20;

/// A reader of a log's blocks, mostly one after another.
pub(super) struct Reader<'l> {
    log: &'l Location,
    ring: Ring,
    /// The first block of the window, and its blocks; none for those that could not be read.
    window: (u32, Vec<Option<Arc<Block>>>),
}

impl<'l> Reader<'l> {
    pub(super) fn new(log: &'l Location, ring: Ring) -> Self {
        Self {
            log,
            ring,
            window: (0, Vec::new()),
        }
    }

    /// Returns a block of the log; none if the device cannot read it.
    pub(super) fn read(&mut self, at: u32) -> Option<Arc<Block>> {
        let (first, blocks) = &self.window;
        let known = at
            .checked_sub(*first)
            .and_then(|index| blocks.get(index as usize));
        if let Some(known) = known {
            return known.clone();
        }
        let count = (WINDOW_BYTES / self.log.block_bytes).max(1);
        let count = self.ring.before_wrap(at, count);
        let blocks: Vec<_> = self
            .log
            .pieces(at, count)
            .flat_map(|piece| self.read_piece(piece))
            .collect();
        let block = blocks.first().cloned().flatten();
        self.window = (at, blocks);
        block
    }

    /// Returns the place of a log block on the device.
    pub(super) fn place(&self, at: u32) -> Option<SectorNr> {
        let mut pieces = self.log.pieces(at, 1);
        pieces.next().map(|piece| piece.sector)
    }

    /// Reads a piece in one request or, if that fails, block by block.
    fn read_piece(&self, piece: Piece) -> Vec<Option<Arc<Block>>> {
        if let Some(blocks) = self.read_blocks(piece.sector, piece.count) {
            return blocks.into_iter().map(Some).collect();
        }
        let sectors = u64::from(self.log.block_bytes) / SectorNr::SIZE;
        (0..u64::from(piece.count))
            .map(|index| self.read_blocks(piece.sector + index * sectors, 1)?.pop())
            .collect()
    }

    fn read_blocks(&self, sector: SectorNr, blocks: u32) -> Option<Vec<Arc<Block>>> {
        let request = Request::Read {
            sector,
            blocks,
            block_bytes: self.log.block_bytes,
        };
        match self.log.device.request(vec![request]).wait().pop() {
            Some(Ok(Outcome::Read(payload))) if payload.len() == blocks as usize => Some(payload),
            _ => None,
        }
    }
}
