//! What lay on the home device: in `data=writeback` a new block shows it until its own data is written, be it what files
//! held or the file system's own maps and directories.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::Request;
use block::trace::Event;
use ext::options::DataMode;
use layout::Block;

use crate::image::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES};
use crate::run::Recording;

/// All that the device held before and was given during a run, without an internal journal's blocks. It is empty in the
/// modes that show nothing of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Former(Vec<Arc<Block>>);

impl Former {
    pub(super) fn of(recording: &Recording) -> Self {
        if recording.workload.setting.cell.data != DataMode::Writeback {
            return Self::default();
        }
        let initial = &recording.initial;
        let log: BTreeSet<u64> = initial.journal_blocks.iter().copied().collect();
        let count = initial.home.size_bytes() / BLOCK_BYTES as u64;
        let held = (0..count).filter(|number| !log.contains(number));
        let mut blocks: Vec<Arc<Block>> = held
            .map(|number| Arc::clone(initial.home.block(number)))
            .collect();
        for event in &recording.events {
            let Event::Submitted {
                device: 0,
                requests,
                ..
            } = event
            else {
                continue;
            };
            for request in requests.iter() {
                if let Request::Write {
                    sector, payload, ..
                } = request
                    && !log.contains(&(sector.get() / BLOCK_SECTORS as u64))
                {
                    blocks.extend(payload.iter().cloned());
                }
            }
        }
        Self(blocks)
    }

    /// Whether some sector began with these bytes.
    pub(crate) fn contains(&self, piece: &[u8]) -> bool {
        let mut sectors = self.0.iter().flat_map(|block| block.chunks(SECTOR_BYTES));
        sectors.any(|sector| sector.starts_with(piece))
    }
}
