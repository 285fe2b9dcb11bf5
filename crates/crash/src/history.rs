//! The history of a lane: its states, by operation and by transaction, and the promises of sync
//! calls.
//!
//! State `n` is the lane's part of the tree after its operation `n - 1`. States between two others
//! are in `stages`. A completed sync call is binding: no state before the one that it covers may
//! come back.

mod stages;

use std::collections::BTreeMap;

use crate::mode::{DataMode, OrderedScope, Structures};

use crate::model::{Change, NodeId, Tree};
use crate::op::{How, Op};
use crate::recording::{Done, Mark, Outcome, Recording};
use crate::setting::Synchronous;
use crate::tag::number_of;
use crate::timetable::{MADE_AT, seconds_of};
use crate::workload::Workload;

pub use stages::Stage;

/// Interval between the starts of operations in milliseconds; see [`seconds_of`].
pub(crate) const OPERATION_MS: u64 = 1000;

/// The states of one lane.
#[derive(Clone)]
pub struct History {
    /// The lane's number.
    pub lane: usize,
    /// The operations of the lane.
    pub ops: Vec<Op>,
    /// The states of the tree: one more than operations.
    pub states: Vec<Tree>,
    /// Number of the state at which the recording starts.
    pub base: usize,
    pub(crate) done: Vec<Done>,
}

/// The promises at a moment.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The promises to each lane.
    pub lanes: Vec<LaneBounds>,
    /// True if the model's times are those of the volume, as in a simulated world.
    pub(crate) has_times: bool,
    /// The data that ordered mode orders.
    pub(crate) ordered: OrderedScope,
    /// True if blocks are allocated when data is written back.
    pub(crate) is_delayed: bool,
    /// True if there may be fast commits.
    pub(crate) is_fast: bool,
    /// True if contents may lie within inodes.
    pub(crate) is_inline: bool,
    /// True if device commands fail.
    pub(crate) has_faults: bool,
    data: DataMode,
    /// Age in milliseconds at which a change is committed without a request; 0 for never.
    commit_ms: u64,
    /// Maximum duration of a commit in milliseconds: 0, or the time for which threads lose their
    /// processor.
    commit_takes_ms: u64,
    synchronous: Synchronous,
    /// For sync calls in progress: the states that they will bind, by calling lane.
    pending: BTreeMap<usize, Vec<usize>>,
}

/// The promises to one lane.
#[derive(Debug, Clone, Default)]
pub struct LaneBounds {
    /// No state before this one may return.
    pub state: usize,
    /// For each file, the state before which no contents may return.
    pub files: BTreeMap<NodeId, usize>,
    /// The state after the last operation that has returned.
    pub returned: usize,
    /// The state after the last operation that has started.
    pub begun: usize,
    /// The kind of the last binding sync call.
    pub binding: Option<Binding>,
}

/// The kinds of sync calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// fsync of a file.
    Fsync,
    /// fdatasync.
    Fdatasync,
    /// No sync call: the commit interval has passed.
    Age,
    /// A write through a file that was opened with O_SYNC or O_DSYNC.
    Write,
    /// fsync of a directory, or sync.
    Wide,
}

impl Workload {
    /// Returns the states of a lane if space never runs out; `None` if an operation cannot be done.
    pub fn states(&self, lane: usize) -> Option<Vec<Tree>> {
        states(&self.lanes[lane], lane, |_| Outcome::Done)
    }
}

fn states(ops: &[Op], lane: usize, outcome: impl Fn(usize) -> Outcome) -> Option<Vec<Tree>> {
    let mut states = vec![Tree::new(MADE_AT)];
    for (number, op) in ops.iter().enumerate() {
        let change = Change::of(lane, number);
        let before = &states[number];
        states.push(next(before, op, outcome(number), change)?);
    }
    Some(states)
}

impl Change {
    /// Returns the change of operation `number` of a lane.
    pub fn of(lane: usize, number: usize) -> Self {
        Self {
            state: number + 1,
            seconds: seconds_of(number),
            new_node: number_of(lane, number),
            write: number_of(lane, number),
        }
    }
}

/// Returns the state after an operation with this outcome.
pub(crate) fn next(before: &Tree, op: &Op, outcome: Outcome, change: Change) -> Option<Tree> {
    match outcome {
        Outcome::Done | Outcome::Unsynced => before.after(op, change),
        Outcome::NoSpace | Outcome::Refused => Some(before.clone()),
        // A sync call changes nothing. Another failed operation may have been done: then this is
        // the state.
        Outcome::Failed => Some(before.after(op, change).unwrap_or_else(|| before.clone())),
        Outcome::Short(count) => before.after(&shortened(op, count), change),
    }
}

/// Returns the part of a write that was done.
fn shortened(op: &Op, count: u32) -> Op {
    match op {
        Op::Write(path, from, _) => Op::Write(path.clone(), *from, count),
        Op::WriteAs(how, path, from, _) => Op::WriteAs(*how, path.clone(), *from, count),
        Op::Append(path, _) => Op::Append(path.clone(), count),
        Op::Allocate(path, from, _) => Op::Allocate(path.clone(), *from, count),
        Op::Zero(path, from, _) => Op::Zero(path.clone(), *from, count),
        other => other.clone(),
    }
}

impl History {
    /// Returns the history of a lane of a recording.
    pub fn of(recording: &Recording, lane: usize) -> Option<Self> {
        let base = recording.workload.prepared[lane];
        let done = recording.done[lane].clone();
        let mut ops = recording.workload.lanes[lane].clone();
        // The last operation of a lane may be a failed one.
        ops.truncate(base + done.len());
        let states = states(&ops, lane, |number| match number.checked_sub(base) {
            Some(index) => done[index].outcome,
            None => Outcome::Done,
        })?;
        Some(Self {
            lane,
            ops,
            states,
            base,
            done,
        })
    }

    /// Returns the first sector of an operation's write, and the number of sectors; `None` if it is
    /// not a write.
    pub(crate) fn range_of(&self, number: usize) -> Option<(usize, u32)> {
        let op = match self.outcome(number) {
            Outcome::Short(count) => shortened(&self.ops[number], count),
            Outcome::NoSpace | Outcome::Refused => return None,
            Outcome::Done | Outcome::Unsynced | Outcome::Failed => self.ops[number].clone(),
        };
        stages::sectors_of(&op, &self.states[number])
    }

    /// Returns the outcome of an operation.
    fn outcome(&self, number: usize) -> Outcome {
        let done = number.checked_sub(self.base).map(|index| self.done[index]);
        done.map_or(Outcome::Done, |done| done.outcome)
    }
}

impl Bounds {
    /// Creates the promises before the first event.
    pub fn new(histories: &[History], recording: &Recording) -> Self {
        let setting = recording.workload.setting;
        let lanes = histories.iter().map(|history| {
            let mut bounds = LaneBounds {
                returned: history.base,
                begun: history.base,
                ..LaneBounds::default()
            };
            bounds.bind_all(history, history.base);
            bounds.binding = None;
            bounds
        });
        Self {
            lanes: lanes.collect(),
            has_times: true,
            ordered: setting.ordered,
            is_delayed: setting.is_delayed,
            is_fast: setting.cell.is_fast,
            is_inline: setting.cell.structures == Structures::Inline,
            has_faults: setting.fault.is_some(),
            data: setting.cell.data,
            // On failing devices, commits fail as well.
            commit_ms: setting.fault.map_or(setting.commit_ms, |_| 0),
            commit_takes_ms: setting.schedule.delay_ms(),
            synchronous: setting.synchronous,
            pending: BTreeMap::new(),
        }
    }

    /// Notes the start of an operation: the operations that returned a commit interval, and the
    /// duration of a commit, before are committed. Returns true if the promises have changed.
    fn note_age(&mut self, number: usize) -> bool {
        let age = self.commit_ms + self.commit_takes_ms;
        let old = (number as u64 * OPERATION_MS).saturating_sub(age);
        if self.commit_ms == 0 || !self.has_times {
            return false;
        }
        let due = old.div_ceil(OPERATION_MS) as usize;
        let mut has_grown = false;
        for bounds in &mut self.lanes {
            let state = due.min(bounds.returned);
            if state > bounds.state {
                bounds.bind(state, Binding::Age);
                has_grown = true;
            }
        }
        has_grown
    }

    /// Notes that the volume was closed: all operations that have returned are durable.
    pub fn note_closed(&mut self, histories: &[History]) {
        for (bounds, history) in self.lanes.iter_mut().zip(histories) {
            bounds.bind_all(history, bounds.returned);
        }
    }

    /// Notes that an operation has started or returned. Returns true if the promises have changed.
    pub fn note(&mut self, histories: &[History], mark: Mark) -> bool {
        let Mark {
            lane,
            number,
            is_end,
        } = mark;
        if !is_end {
            self.lanes[lane].begun = number + 1;
            let returned = self.lanes.iter().map(|bounds| bounds.returned).collect();
            self.pending.insert(lane, returned);
            return self.note_age(number);
        }
        let before = self.pending.remove(&lane).unwrap_or_default();
        let history = &histories[lane];
        let outcome = history.outcome(number);
        // A failed operation may not have been done: no sync call covers it.
        if outcome == Outcome::Failed {
            return false;
        }
        self.lanes[lane].returned = number + 1;
        let promises_nothing = [Outcome::NoSpace, Outcome::Refused, Outcome::Unsynced];
        // An operation on a range that ran out of space was refused, though a part of it was done.
        let is_refused_range =
            matches!(outcome, Outcome::Short(_)) && history.ops[number].is_range();
        if promises_nothing.contains(&outcome) || is_refused_range {
            return false;
        }
        let state = &history.states[number];
        let own = &mut self.lanes[lane];
        match &history.ops[number] {
            Op::Sync => {
                for ((bounds, history), state) in self.lanes.iter_mut().zip(histories).zip(before) {
                    bounds.bind_all(history, state);
                }
            }
            Op::SyncDirectory(path) => {
                let changed = state.find(path).map_or(0, |id| state.node(id).changed_in);
                own.bind(changed, Binding::Wide);
            }
            Op::Fsync(path) | Op::Fdatasync(path) => {
                let Some(id) = state.find(path) else {
                    return false;
                };
                let node = state.node(id);
                own.files.insert(id, node.data_in);
                if matches!(history.ops[number], Op::Fsync(_)) {
                    own.bind(node.changed_in, Binding::Fsync);
                } else if self.data == DataMode::Journal {
                    own.bind(node.map_in.max(node.data_in), Binding::Fdatasync);
                } else {
                    own.bind(node.map_in, Binding::Fdatasync);
                }
            }
            op if is_synchronous(self.synchronous, op) || state.changes_dirsync(op) => {
                // An operation without effect, such as a rename to the same name, belongs to no
                // transaction.
                if history.states[number + 1] == *state {
                    return false;
                }
                own.bind(number + 1, Binding::Wide);
                if let Op::Write(path, ..)
                | Op::WriteAs(_, path, ..)
                | Op::Append(path, _)
                | Op::Truncate(path, _)
                | Op::Allocate(path, ..)
                | Op::Punch(path, ..)
                | Op::Zero(path, ..)
                | Op::Collapse(path, ..)
                | Op::Insert(path, ..) = op
                {
                    let after = &history.states[number + 1];
                    if let Some(id) = after.find(path) {
                        own.files.insert(id, after.node(id).data_in);
                    }
                }
            }
            Op::WriteAs(how @ (How::Sync | How::DataSync), path, ..) => {
                let after = &history.states[number + 1];
                let Some(id) = after.find(path) else {
                    return false;
                };
                let node = after.node(id);
                own.files.insert(id, node.data_in);
                let bound = match (how, self.data) {
                    (How::Sync, _) => node.changed_in,
                    (_, DataMode::Journal) => node.map_in.max(node.data_in),
                    _ => node.map_in,
                };
                own.bind(bound, Binding::Write);
            }
            _ => return false,
        }
        true
    }
}

/// Returns true if a mount option makes an operation durable when it returns.
fn is_synchronous(synchronous: Synchronous, op: &Op) -> bool {
    match op {
        Op::Write(..)
        | Op::WriteAs(..)
        | Op::Append(..)
        | Op::Truncate(..)
        | Op::Allocate(..)
        | Op::Punch(..)
        | Op::Zero(..)
        | Op::Collapse(..)
        | Op::Insert(..)
        | Op::Journaled(..)
        | Op::Dirsync(..)
        | Op::Chmod(..)
        | Op::Chown(..)
        | Op::Setxattr(..)
        | Op::Removexattr(..)
        | Op::Setfacl(..)
        | Op::SetDefaultFacl(..)
        | Op::Utimes(..) => synchronous == Synchronous::All,
        _ => synchronous != Synchronous::No,
    }
}

impl LaneBounds {
    fn bind(&mut self, state: usize, binding: Binding) {
        self.state = self.state.max(state);
        self.binding = Some(binding);
    }

    /// Notes that all operations up to a state are durable.
    fn bind_all(&mut self, history: &History, number: usize) {
        self.bind(number, Binding::Wide);
        let state = &history.states[number];
        for (id, node) in state.nodes() {
            if state.sectors(id).is_some() {
                self.files.insert(id, node.data_in);
            }
        }
    }
}
