//! Which transaction ordered data belongs to.
//!
//! Every sector of data says which operation wrote it, and the recording says which transactions that can be in. Data of an
//! operation that was on its way while a transaction was closed may belong to it or to the next one; what a crash leaves
//! is judged all the same. Sectors that say nothing (zeroes behind the end of a file) are somebody's who is the only one
//! on the volume, or nobody's.

use layout::{Block, Tid};

use crate::image::SECTOR_BYTES;
use crate::run::{Done, Recording, place_of};
use crate::tag::{NOBODY, Tag};

/// Who writes data.
pub(super) struct Writers {
    prepared: Vec<usize>,
    done: Vec<Vec<Done>>,
    /// Whether nothing happens but one operation after the other.
    is_quiet: bool,
}

impl Writers {
    pub(super) fn of(recording: &Recording) -> Self {
        let setting = recording.workload.setting;
        Self {
            prepared: recording.workload.prepared.clone(),
            done: recording.done.clone(),
            is_quiet: setting.lanes == 1 && setting.writer_ms == 0 && setting.commit_ms == 0,
        }
    }

    /// Whether a sector has to be durable before a transaction's commit record is issued.
    pub(super) fn is_due(&self, bytes: &[u8], tid: Tid) -> bool {
        let tag = Tag::read(bytes).filter(|tag| tag.file != NOBODY);
        let done = tag.and_then(|tag| {
            let (lane, number) = place_of(tag.write)?;
            let index = number.checked_sub(*self.prepared.get(lane)?)?;
            self.done.get(lane)?.get(index)
        });
        done.map_or(self.is_quiet, |done| !done.last.is_after(tid))
    }
}

/// Whether a block is data: sectors that say who wrote them, or zeroes.
pub(super) fn is_data(block: &Block) -> bool {
    let sectors = || block.chunks_exact(SECTOR_BYTES);
    let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    sectors().any(|sector| Tag::read(sector).is_some())
        && sectors().all(|sector| is_zero(sector) || Tag::read(sector).is_some())
}
