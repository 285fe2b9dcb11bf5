//! The clients of a workload: each runs its operations one after another.

mod calls;

use std::sync::Arc;

use block::trace::Trace;
use ext::volume::{NewInode, Transactions};
use ext::{Error, Volume};
use layout::{InodeNr, Tid};

use super::holds::Holds;
use super::probe::Probe;
use super::volume_error;
use crate::crowd::tasks::{self, Running};
use crate::fault::Fault;
use crate::observe::observe;
use crate::op::Op;
use crate::recording::{Done, Ended, Hold, Mark, Outcome};
use crate::rule::RuleCounts;
use crate::run_error::RunError;
use crate::tag::number_of;
use crate::timetable::wait_for;
use crate::workload::Workload;

/// The outcomes of a lane's operations, and its files that were kept open.
type LaneEnd = (Vec<Done>, Vec<Hold>);

/// Runs all lanes and closes the volume.
pub(super) fn run_lanes(
    volume: Volume,
    workload: &Workload,
    trace: &Arc<Trace>,
    epoch: i64,
) -> Result<(Vec<Vec<Done>>, Ended), RunError> {
    let volume = Arc::new(volume);
    let lanes: Vec<_> = workload.lanes.iter().enumerate().collect();
    let fault = workload.setting.fault;
    let run = |lane: usize, ops: Vec<Op>| {
        let (volume, trace) = (Arc::clone(&volume), Arc::clone(trace));
        let prepared = workload.prepared[lane];
        move || {
            let mut client = Client {
                volume: &volume,
                lane: lane as u32,
                fault,
                holds: fault.map(|_| Holds::new(&trace)),
                append_from: None,
                moved_from: None,
                has_missed: false,
            };
            let done = client.run_lane(&trace, &ops, prepared, epoch)?;
            let holds = client.holds.map(|holds| holds.finish(&volume));
            Ok((done, holds.unwrap_or_default()))
        }
    };
    let begin = workload.prepared.iter().max().copied().unwrap_or(0);
    let crowd = workload.setting.crowd;
    let crowd = crowd.map(|crowd| tasks::start(&volume, crowd, begin, epoch));
    let crowd = crowd.transpose()?;
    let done: Vec<Result<LaneEnd, RunError>> = if let [(lane, ops)] = lanes[..] {
        vec![run(lane, ops.clone())()]
    } else {
        let spawn = |(lane, ops): (usize, &Vec<Op>)| {
            rt::spawn(&format!("lane{lane}"), run(lane, ops.clone()))
        };
        let handles: Vec<_> = lanes.into_iter().map(spawn).collect();
        let join = |handle: rt::JoinHandle<_>| {
            handle
                .join()
                .map_err(|panic| RunError::World(panic.message))?
        };
        handles.into_iter().map(join).collect()
    };
    let crowd = crowd.map_or(Ok(RuleCounts::default()), Running::join);
    let volume = Arc::into_inner(volume).expect("the lanes have ended");
    let mut ended = Ended {
        crowd: crowd?,
        ..Ended::default()
    };
    if fault.is_some() {
        (ended.is_read_only, ended.at) = (volume.is_read_only(), trace.len());
        let tries = 0..=fault.and_then(Fault::count).unwrap_or(0);
        ended.observation = tries.into_iter().find_map(|_| observe(&volume, false).ok());
        if ended.is_read_only {
            ended.accepted = accepted(&volume);
        }
    }
    let closed = volume.close().map_err(volume_error);
    ended.is_closed = closed.is_ok();
    let done: Result<Vec<LaneEnd>, RunError> = done.into_iter().collect();
    let (done, holds): (Vec<_>, Vec<_>) = done?.into_iter().unzip();
    ended.holds = holds.into_iter().flatten().collect();
    if fault.is_some() {
        return Ok((done, ended));
    }
    closed.map(|()| (done, ended))
}

/// Returns the calls that wrongly succeed on a volume that has become read-only.
fn accepted(volume: &Volume) -> Vec<&'static str> {
    let mut accepted = Vec::new();
    let late = volume.create(InodeNr::ROOT, b"late", &NewInode::default());
    if late.is_ok() {
        accepted.push("create");
    }
    if volume.sync().is_ok() {
        accepted.push("sync");
    }
    accepted
}

/// A client, which runs the operations of a lane.
struct Client<'v> {
    volume: &'v Volume,
    lane: u32,
    fault: Option<Fault>,
    /// The files that are kept open, if devices may fail.
    holds: Option<Holds>,
    /// The start of the append in progress, so that it can be repeated.
    append_from: Option<u64>,
    /// The size of the file in which the operation in progress moves blocks, so that it is not
    /// repeated.
    moved_from: Option<u64>,
    /// True if some operation could not be done.
    has_missed: bool,
}

impl Client<'_> {
    fn run_lane(
        &mut self,
        trace: &Trace,
        ops: &[Op],
        prepared: usize,
        epoch: i64,
    ) -> Result<Vec<Done>, RunError> {
        let lane = self.lane as usize;
        let mut all = Vec::new();
        for (number, op) in ops.iter().enumerate().skip(prepared) {
            wait_for(number, epoch);
            let mark = |is_end| {
                trace.mark(
                    Mark {
                        lane,
                        number,
                        is_end,
                    }
                    .encode(),
                );
            };
            mark(false);
            let was_read_only = self.fault.is_some() && self.volume.is_read_only();
            let before = transactions(self.volume);
            let outcome = self.try_op(op, number, was_read_only)?;
            self.has_missed |= matches!(
                outcome,
                Outcome::NoSpace | Outcome::Short(_) | Outcome::Refused
            );
            let done = Done::between(outcome, before, transactions(self.volume));
            all.push(Done {
                was_read_only,
                ..done
            });
            mark(true);
            if outcome == Outcome::Failed && !op.is_sync() && !self.volume.is_read_only() {
                break;
            }
        }
        Ok(all)
    }

    /// Runs an operation. On transient failures it is retried as often as commands fail.
    fn try_op(&mut self, op: &Op, number: usize, was_read_only: bool) -> Result<Outcome, RunError> {
        self.append_from = None;
        self.moved_from = None;
        let mut tries = self.fault.and_then(Fault::count).unwrap_or(0);
        let mut is_again = false;
        loop {
            match self.carry_out(op, number) {
                Ok(outcome) => return Ok(outcome),
                Err(
                    Error::NoSpace
                    | Error::NoInodes
                    | Error::AttributeTooLarge
                    | Error::DirectoryFull,
                ) => return Ok(Outcome::NoSpace),
                // The first attempt was done, but not completely: for example, deleting an inode
                // failed.
                Err(Error::Exists | Error::NotFound) if is_again => return Ok(Outcome::Unsynced),
                Err(_) if was_read_only && op.is_sync() => return Ok(Outcome::Failed),
                Err(_) if was_read_only => return Ok(Outcome::Refused),
                Err(error)
                    if tries > 0 && !self.volume.is_read_only() && self.is_failure(&error) =>
                {
                    // Once more would not repeat these, but undo them or go on from them.
                    let is_once = matches!(op, Op::Exchange(..) | Op::Whiteout(..));
                    if is_once && self.resolve(op, number) == Outcome::Unsynced {
                        return Ok(Outcome::Unsynced);
                    }
                    tries -= 1;
                    is_again = true;
                }
                Err(error) if self.fault.is_some() && self.is_failure(&error) => {
                    return Ok(self.resolve(op, number));
                }
                // A file that could not be created is missing later.
                Err(_) if self.has_missed => return Ok(Outcome::Refused),
                Err(error) => return Err(failed(op, &error)),
            }
        }
    }

    /// Returns the outcome of an operation that has failed.
    fn resolve(&self, op: &Op, number: usize) -> Outcome {
        if self.volume.is_read_only() {
            return Outcome::Failed;
        }
        let probe = Probe {
            volume: self.volume,
            op,
            number,
            write: number_of(self.lane as usize, number),
            append_from: self.append_from,
        };
        probe.outcome().unwrap_or(Outcome::Failed)
    }

    /// Runs a feasible operation.
    fn run(&mut self, op: &Op, number: usize) -> Result<Outcome, RunError> {
        match self.carry_out(op, number) {
            Ok(outcome) => Ok(outcome),
            Err(
                Error::NoSpace | Error::NoInodes | Error::AttributeTooLarge | Error::DirectoryFull,
            ) => Ok(Outcome::NoSpace),
            Err(error) => Err(failed(op, &error)),
        }
    }

    /// Returns true if an error is caused by devices.
    fn is_failure(&self, error: &Error) -> bool {
        self.volume.is_read_only()
            || matches!(
                error,
                Error::ReadOnly | Error::Journal(_) | Error::Device(_) | Error::DataLost { .. }
            )
    }
}

fn failed(op: &Op, error: &Error) -> RunError {
    RunError::Operation {
        op: op.to_string(),
        error: error.to_string(),
    }
}

/// Without a journal everything counts as one transaction, since nothing else is ordered.
const NO_TRANSACTIONS: Transactions = Transactions {
    running: Some(EVERYTHING),
    next: Tid::new(EVERYTHING.get() + 1),
};
/// Number of that transaction.
pub(crate) const EVERYTHING: Tid = Tid::new(1);

/// Returns the present numbers of transactions.
pub(crate) fn transactions(volume: &Volume) -> Transactions {
    volume.transactions().unwrap_or(NO_TRANSACTIONS)
}

/// Runs a feasible operation on devices that do not fail.
pub(crate) fn run(volume: &Volume, op: &Op, lane: u32, number: usize) -> Result<Outcome, RunError> {
    let mut client = Client {
        volume,
        lane,
        fault: None,
        holds: None,
        append_from: None,
        moved_from: None,
        has_missed: false,
    };
    client.run(op, number)
}
