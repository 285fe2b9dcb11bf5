//! Recordings: the requests and outcomes of a run, and the contents of its devices.

use core::fmt;

use block::Geometry;
use block::trace::Event;
use ext::volume::Transactions;
use layout::{InodeNr, Tid};

use crate::disks::Disks;
use crate::fault::{Fault, Strike};
use crate::observe::Observation;
use crate::rule::RuleCounts;
use crate::workload::Workload;

/// A run and its requests.
#[derive(Clone)]
pub struct Recording {
    /// The workload that ran.
    pub workload: Workload,
    /// The contents of the devices before the run.
    pub initial: Disks,
    /// The events: requests that change something, flushes, their completions, and marks.
    pub events: Vec<Event>,
    /// The results of the operations, lane by lane.
    pub done: Vec<Vec<Done>>,
    /// The traced devices.
    pub geometries: Vec<Geometry>,
    /// The contents of the devices after the run.
    pub last: Disks,
    /// The state at the end of the run, if devices may fail.
    pub ended: Ended,
    /// The failed commands. Their events are numbered including those that only read.
    pub strikes: Vec<Strike>,
    /// The faults for each command of the run.
    pub faults: Vec<Fault>,
    /// The trace hash of the world.
    pub hash: u64,
}

impl Recording {
    /// Returns the first and last transaction that an operation's metadata can be in.
    pub fn transactions(&self, lane: usize, number: usize) -> Option<(Tid, Tid)> {
        let prepared = self.workload.prepared[lane];
        let done = self.done[lane].get(number.checked_sub(prepared)?)?;
        Some((done.first, done.last))
    }
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was done.
    Done,
    /// Some sectors of a write, this number, were written before space ran out or a device failed.
    Short(u32),
    /// Nothing was done for lack of space.
    NoSpace,
    /// A device failed. A sync call promises nothing then; any other operation was done or not.
    /// Unless the volume has become read-only, it is the lane's last one.
    Failed,
    /// A device failed, but all of it was done. It has no promise, even if it was to be durable at
    /// once.
    Unsynced,
    /// Nothing was done: a device failed, the volume had become read-only before, or a file that it
    /// needs could not be created.
    Refused,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => out.write_str("done"),
            Self::Short(count) => write!(out, "{count} sectors were written"),
            Self::NoSpace => out.write_str("no space"),
            Self::Failed => out.write_str("a device failed"),
            Self::Unsynced => out.write_str("a device failed, but it was done"),
            Self::Refused => out.write_str("nothing was done"),
        }
    }
}

/// An operation that has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The outcome.
    pub outcome: Outcome,
    /// The earliest transaction that it may belong to.
    pub first: Tid,
    /// The latest transaction that it may belong to.
    pub last: Tid,
    /// True if the volume was read-only before it.
    pub was_read_only: bool,
}

/// The end of a run. On devices that do not fail, only `is_closed` is meaningful.
#[derive(Debug, Clone, Default)]
pub struct Ended {
    /// True if closing the volume succeeded.
    pub is_closed: bool,
    /// True if the volume had become read-only.
    pub is_read_only: bool,
    /// The number of events until then.
    pub at: usize,
    /// The tree before the volume was closed, as far as it could be read.
    pub observation: Option<Observation>,
    /// The files that were kept open.
    pub holds: Vec<Hold>,
    /// Operations that succeeded on a volume that had become read-only.
    pub accepted: Vec<&'static str>,
    /// Number of times that the tasks of a crowd exercised each rule.
    pub crowd: RuleCounts,
}

impl Done {
    /// Returns true if the operation belongs to no transaction: none ran before or after it, and
    /// none was started in between.
    pub fn has_changed_nothing(&self) -> bool {
        self.first.is_after(self.last)
    }

    /// Creates the result of an operation from the numbers of transactions before and after it.
    pub(crate) fn between(outcome: Outcome, before: Transactions, after: Transactions) -> Self {
        Self {
            outcome,
            first: before.running.unwrap_or(before.next),
            last: after
                .running
                .unwrap_or(Tid::new(after.next.get().wrapping_sub(1))),
            was_read_only: false,
        }
    }
}

/// A mark in the trace: an operation of a lane has started or returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The lane.
    pub lane: usize,
    /// The operation's number in the lane.
    pub number: usize,
    /// True if it has returned.
    pub is_end: bool,
}

impl Mark {
    /// Encodes the mark as a number.
    pub fn encode(self) -> u64 {
        (self.lane as u64) << 32 | (self.number as u64) << 1 | u64::from(self.is_end)
    }

    /// Decodes a mark from its number.
    pub fn decode(raw: u64) -> Self {
        Self {
            lane: (raw >> 32) as usize,
            number: (raw as u32 >> 1) as usize,
            is_end: raw & 1 == 1,
        }
    }
}

/// The result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// No error.
    Nothing,
    /// The file's data could not be written.
    DataLost,
    /// Another error.
    Other,
}

/// A sync call of a handle, and the numbers of events between which it ran.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The number of events before it started.
    pub began: usize,
    /// The number of events when it had returned.
    pub ended: usize,
    /// Its result.
    pub told: Told,
}

/// A handle that was kept open.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The file.
    pub inode: InodeNr,
    /// The number of the event before which it was opened.
    pub opened: usize,
    /// Its looks, in order.
    pub looks: Vec<Look>,
}
