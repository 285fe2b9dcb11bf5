//! The age of data (F5): a client's data is submitted to the device when it has been dirty for the
//! writer's expiry and the writer has woken after that.
//!
//! Time is known at the start of each operation, because one is due each second. Devices of these
//! worlds take no virtual time, so neither writes nor commits nor waiting for a full log take any.
//! The only allowance is for the time for which threads lose their processor under hostile
//! schedules. Journaled data is bound by the age of its transaction, and so is that within inodes:
//! worlds where files may be there are not watched.

use std::collections::BTreeSet;

use crate::mode::{DataMode, Structures};
use block::Request;
use block::trace::Event;

use crate::history::{Bounds, History, OPERATION_MS};
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::model::NodeId;
use crate::op::Op;
use crate::protocol::LogMap;
use crate::recording::{Mark, Recording};
use crate::rule::{Broken, Rule, RuleCounts};
use crate::tag::{NOBODY, Tag, place_of};

/// Data that has not reached the device.
pub(super) struct DataAge {
    /// Maximum age of data in milliseconds; none if it is not checked.
    most_ms: Option<u64>,
    map: LogMap,
    /// Sectors that were submitted to the device: the write, and the sector's index in its file.
    written: BTreeSet<(u32, u32)>,
    /// For each lane, the state up to which data was found to be written.
    checked: Vec<usize>,
}

impl DataAge {
    pub(super) fn new(recording: &Recording) -> Self {
        let workload = &recording.workload;
        let setting = workload.setting;
        let is_journaled = |op: &Op| matches!(op, Op::Journaled(..));
        let is_watched = setting.writer_ms > 0
            && setting.fault.is_none()
            && setting.cell.data != DataMode::Journal
            && setting.cell.structures != Structures::Inline
            && !workload.lanes.iter().flatten().any(is_journaled);
        Self {
            // The interval of the writer, and the same time as expiry.
            most_ms: is_watched.then_some(2 * setting.writer_ms + setting.schedule.delay_ms()),
            map: LogMap::new(&recording.initial),
            written: BTreeSet::new(),
            checked: workload.prepared.clone(),
        }
    }

    /// Applies an event, before the bounds change.
    ///
    /// # Errors
    /// - F5 if data is late.
    pub(super) fn note(
        &mut self,
        event: &Event,
        histories: &[History],
        bounds: &Bounds,
        counts: &mut RuleCounts,
    ) -> Result<(), Broken> {
        let Some(most_ms) = self.most_ms else {
            return Ok(());
        };
        match event {
            Event::Submitted {
                device: 0,
                requests,
                ..
            } => requests.iter().for_each(|request| self.submitted(request)),
            Event::Mark(mark) => {
                let mark = Mark::decode(*mark);
                let now_ms = mark.number as u64 * OPERATION_MS;
                if mark.is_end || now_ms <= most_ms {
                    return Ok(());
                }
                // Operations that started before this are too old.
                let due = (now_ms - most_ms).div_ceil(OPERATION_MS) as usize;
                for (lane, history) in histories.iter().enumerate() {
                    let lane_bounds = &bounds.lanes[lane];
                    let due = due.min(lane_bounds.returned);
                    let fresh = self.checked[lane]..due;
                    if history.ops[fresh.start.min(due)..due].iter().any(is_write) {
                        counts.note(Rule::F5);
                        self.check(history, due, lane_bounds.begun.max(due))?;
                    }
                    self.checked[lane] = due.max(fresh.start);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn submitted(&mut self, request: &Request) {
        let Request::Write {
            sector, payload, ..
        } = request
        else {
            return;
        };
        let pieces = payload.iter().flat_map(|block| block.chunks(SECTOR_BYTES));
        for (sector, piece) in (sector.get()..).zip(pieces) {
            if self
                .map
                .log_block(0, sector / BLOCK_SECTORS as u64)
                .is_none()
                && let Some(tag) = Tag::read(piece).filter(|tag| tag.file != NOBODY)
            {
                self.written.insert((tag.write, tag.sector));
            }
        }
    }

    /// Checks that all data of a state was written, or newer data instead.
    fn check(&self, history: &History, due: usize, begun: usize) -> Result<(), Broken> {
        let tree = &history.states[due];
        for (id, _) in tree.nodes() {
            let count = tree.sectors(id).map_or(0, <[_]>::len);
            if let Some(sector) =
                (0..count).find(|sector| self.is_late(history, id, *sector, (due, begun)))
            {
                let what = format!(
                    "sector {sector} of node {id} is dirty since operation {} at the latest, and was not written when \
                     operation {begun} had begun",
                    due - 1
                );
                return Err(Broken::new(Rule::F5, what));
            }
        }
        Ok(())
    }

    /// Returns true if a sector should have been written in its version of state `due`, or a later
    /// one. A sector that was truncated since has no owner.
    fn is_late(
        &self,
        history: &History,
        id: NodeId,
        index: usize,
        (due, begun): (usize, usize),
    ) -> bool {
        history.states[due..=begun].iter().all(|state| {
            let sector = state.sectors(id).and_then(|sectors| sectors.get(index));
            sector.is_some_and(|sector| {
                let is_recorded =
                    place_of(sector.write).is_some_and(|(_, number)| number >= history.base);
                let is_whole = usize::from(sector.cut) == SECTOR_BYTES;
                is_recorded
                    && is_whole
                    && !self.written.contains(&(sector.write, sector.written_at))
            })
        })
    }
}

fn is_write(op: &Op) -> bool {
    matches!(op, Op::Write(..) | Op::WriteAs(..) | Op::Append(..))
}
