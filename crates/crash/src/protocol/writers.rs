//! The transaction that ordered data belongs to.
//!
//! Every sector of data carries the operation that wrote it, and the recording has the transactions
//! that the operation may belong to. Data of an operation that was in progress while a transaction
//! was closed may belong to it or to the next one; the contents after a crash are still checked. A
//! truncated sector belongs to the truncation. Sectors without a tag (zeroes beyond the end of a
//! file) belong to the only client on the volume, or have no owner. Data within an inode is
//! journaled; its block belongs to the operation that moves it out.

use std::collections::{BTreeMap, BTreeSet};

use layout::{Block, Tid};

use crate::history::History;
use crate::image::{BLOCK_BYTES, SECTOR_BYTES};
use crate::mode::{OrderedScope, Structures};
use crate::model::{Kind, NodeId, Tree};
use crate::op::Op;
use crate::recording::{Done, Recording};
use crate::tag::{NOBODY, Tag, number_of, place_of};

/// The writers of data.
pub(super) struct Writers {
    prepared: Vec<usize>,
    lanes: Vec<Vec<Op>>,
    done: Vec<Vec<Done>>,
    /// Sectors that were overwritten in place in a mode that does not order that: the write, and
    /// the sector's index in its file.
    in_place: BTreeSet<(u32, u32)>,
    /// Writes of files that lay within their inodes, and the operation after which a file was too
    /// large for that; none if it always fits.
    within_inodes: BTreeMap<u32, Option<usize>>,
    /// True if data belongs to the transaction that allocated its block, which is not known.
    is_delayed: bool,
    /// True if operations run one at a time, and nothing runs in the background.
    is_quiet: bool,
}

impl Writers {
    pub(super) fn of(recording: &Recording) -> Self {
        let setting = recording.workload.setting;
        Self {
            prepared: recording.workload.prepared.clone(),
            lanes: recording.workload.lanes.clone(),
            done: recording.done.clone(),
            in_place: match setting.ordered {
                OrderedScope::All => BTreeSet::new(),
                OrderedScope::Allocated => in_place(recording),
            },
            within_inodes: match setting.cell.structures {
                Structures::Inline => within_inodes(recording),
                _ => BTreeMap::new(),
            },
            is_delayed: setting.is_delayed,
            is_quiet: setting.lanes == 1 && setting.writer_ms == 0 && setting.commit_ms == 0,
        }
    }

    /// Returns true if a sector has to be durable before a transaction's commit block is submitted.
    pub(super) fn is_due(&self, bytes: &[u8], tid: Tid) -> bool {
        if self.is_delayed {
            return false;
        }
        let is_due = |done: &Done| !done.last.is_after(tid);
        let Some(tag) = Tag::read(bytes).filter(|tag| tag.file != NOBODY) else {
            return self.is_quiet;
        };
        let Some((lane, number)) = place_of(tag.write) else {
            return self.is_quiet;
        };
        if tag.matches(bytes, bytes.len()) {
            if self.in_place.contains(&(tag.write, tag.sector)) {
                return false;
            }
            let number = match self.within_inodes.get(&tag.write) {
                Some(Some(moved)) => *moved,
                Some(None) => return false,
                None => number,
            };
            return self.done(lane, number).map_or(self.is_quiet, is_due);
        }
        // Several truncations to the same size cannot be distinguished: only data of the last one
        // is late.
        let cut = self.cuts(lane, number, &tag, bytes).last();
        let cut = match self.within_inodes.get(&tag.write) {
            Some(Some(moved)) => cut.map(|cut| cut.max(*moved)),
            Some(None) => return false,
            None => cut,
        };
        let done = cut.and_then(|cut| self.done(lane, cut));
        done.map_or(self.is_quiet, is_due)
    }

    /// Returns the outcome of an operation that was recorded.
    fn done(&self, lane: usize, number: usize) -> Option<&Done> {
        let index = number.checked_sub(*self.prepared.get(lane)?)?;
        self.done.get(lane)?.get(index)
    }

    /// Returns the truncations of a lane after a write that may have left this part of a sector.
    fn cuts(
        &self,
        lane: usize,
        write: usize,
        tag: &Tag,
        bytes: &[u8],
    ) -> impl Iterator<Item = usize> {
        let ops = self.lanes.get(lane).into_iter().flatten();
        let later = ops.enumerate().skip(write + 1);
        later.filter_map(|(number, op)| {
            let Op::Truncate(_, size) = op else {
                return None;
            };
            let (sector, kept) = (size / SECTOR_BYTES as u64, size % SECTOR_BYTES as u64);
            let is_it = sector == u64::from(tag.sector) && tag.matches(bytes, kept as usize);
            is_it.then_some(number)
        })
    }
}

/// Returns the sectors that writes have replaced without allocating their block or extending the
/// file within it.
fn in_place(recording: &Recording) -> BTreeSet<(u32, u32)> {
    let lanes = 0..recording.workload.lanes.len();
    let histories = lanes.filter_map(|lane| History::of(recording, lane));
    let mut found = BTreeSet::new();
    for history in histories {
        for number in history.base..history.ops.len() {
            let (write, after) = (number_of(history.lane, number), &history.states[number + 1]);
            let files = after.nodes().filter_map(|(id, _)| after.sectors(id));
            for (index, sector) in files.flat_map(|sectors| (0..).zip(sectors)) {
                if sector.write == write && sector.ordered_in as usize <= number {
                    found.insert((write, index));
                }
            }
        }
    }
    found
}

/// Returns the writes whose data may lie within inodes, with the operations that make the files too
/// large for that: an inode has the size of a block.
fn within_inodes(recording: &Recording) -> BTreeMap<u32, Option<usize>> {
    let is_large = |state: &Tree, id: NodeId| match state.get(id).map(|node| &node.kind) {
        Some(Kind::File { size, .. }) => *size >= BLOCK_BYTES as u64,
        _ => false,
    };
    let lanes = 0..recording.workload.lanes.len();
    let histories = lanes.filter_map(|lane| History::of(recording, lane));
    let mut found = BTreeMap::new();
    for history in histories {
        let (before, after) = (&history.states[..], &history.states[1..]);
        for number in 0..history.ops.len() {
            let write = number_of(history.lane, number);
            let Some(id) = after[number].holder(write) else {
                continue;
            };
            if before[..number + 2].iter().any(|state| is_large(state, id)) {
                continue;
            }
            let moved = (number + 1..history.ops.len()).find(|later| is_large(&after[*later], id));
            found.insert(write, moved);
        }
    }
    found
}

/// Returns true if a block is data: sectors with the tag of a writer, or zeroes.
pub(super) fn is_data(block: &Block) -> bool {
    let sectors = || block.chunks_exact(SECTOR_BYTES);
    let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    sectors().any(|sector| Tag::read(sector).is_some())
        && sectors().all(|sector| is_zero(sector) || Tag::read(sector).is_some())
}
