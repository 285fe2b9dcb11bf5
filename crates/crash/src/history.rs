//! The history of a lane: the states that there were, by operation and by transaction, and what sync calls bind.
//!
//! State `n` is what the lane's part of the tree is after its operation `n - 1`. An operation is one step: its last
//! transaction brings all of it. A sync call that has returned binds: no state before the one that it covers may come back.

mod former;

use std::collections::BTreeMap;

use ext::options::DataMode;
use layout::Tid;

use crate::disks::MADE_AT;
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::model::{Change, Kind, NodeId, Tree};
use crate::op::Op;
use crate::run::{Done, Mark, Outcome, Recording, Workload, number_of, seconds_of};
use crate::setting::Synchronous;
use former::Former;

/// The states of one lane.
#[derive(Clone)]
pub struct History {
    /// What the lane does.
    pub ops: Vec<Op>,
    /// One more than operations.
    pub states: Vec<Tree>,
    /// The state at which the recording begins.
    pub base: usize,
    lane: usize,
    done: Vec<Done>,
}

/// What is promised at a moment, lane by lane.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Lane by lane.
    pub lanes: Vec<LaneBounds>,
    /// Whether the model's times are those of the volume: in a simulated world they are.
    pub(crate) has_times: bool,
    pub(crate) former: Former,
    data: DataMode,
    synchronous: Synchronous,
    /// For sync calls on their way: the states that they will bind, by lane that calls.
    pending: BTreeMap<usize, Vec<usize>>,
}

/// What is promised to one lane.
#[derive(Debug, Clone, Default)]
pub struct LaneBounds {
    /// No state before this one may come back.
    pub state: usize,
    /// For files: no contents before this state.
    pub files: BTreeMap<NodeId, usize>,
    /// The state after the last operation that has returned.
    pub returned: usize,
    /// The state after the last operation that has begun.
    pub begun: usize,
    /// Which kind of sync call bound last.
    pub binding: Option<Binding>,
}

/// The kinds of sync calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// fsync of a file.
    Fsync,
    /// fdatasync.
    Fdatasync,
    /// fsync of a directory, or sync.
    Wide,
}

impl Workload {
    /// The states of a lane if nothing runs out of space. None if an operation cannot be done.
    pub fn states(&self, lane: usize) -> Option<Vec<Tree>> {
        states(&self.lanes[lane], lane, |_| Outcome::Done)
    }
}

fn states(ops: &[Op], lane: usize, outcome: impl Fn(usize) -> Outcome) -> Option<Vec<Tree>> {
    let mut states = vec![Tree::new(MADE_AT)];
    for (number, op) in ops.iter().enumerate() {
        let change = Change {
            state: number + 1,
            seconds: seconds_of(number),
            new_node: number_of(lane, number),
            write: number_of(lane, number),
        };
        let before = &states[number];
        states.push(next(before, op, outcome(number), change)?);
    }
    Some(states)
}

/// The state after an operation that came to this.
pub(crate) fn next(before: &Tree, op: &Op, outcome: Outcome, change: Change) -> Option<Tree> {
    match outcome {
        Outcome::Done => before.after(op, change),
        Outcome::NoSpace => Some(before.clone()),
        // A sync call changes nothing, and the other that failed may have been done: then this is the state.
        Outcome::Failed => Some(before.after(op, change).unwrap_or_else(|| before.clone())),
        Outcome::Short(count) => before.after(&shortened(op, count), change),
    }
}

/// A write of which a part was done.
fn shortened(op: &Op, count: u32) -> Op {
    match op {
        Op::Write(path, from, _) => Op::Write(path.clone(), *from, count),
        Op::Append(path, _) => Op::Append(path.clone(), count),
        other => other.clone(),
    }
}

impl History {
    /// The history of a lane of a recording.
    pub fn of(recording: &Recording, lane: usize) -> Option<Self> {
        let base = recording.workload.prepared[lane];
        let done = recording.done[lane].clone();
        let mut ops = recording.workload.lanes[lane].clone();
        // A lane ends with what failed.
        ops.truncate(base + done.len());
        let states = states(&ops, lane, |number| match number.checked_sub(base) {
            Some(index) => done[index].outcome,
            None => Outcome::Done,
        })?;
        Some(Self {
            ops,
            states,
            base,
            lane,
            done,
        })
    }

    /// The same, as if only so many sectors of the write that leads to a state had been written: a write is a step for each
    /// piece of its file that is mapped at once, so that a transaction may end between two blocks of it. None if it is no
    /// write, or is not cut between two blocks.
    pub(crate) fn cut_short(&self, state: usize, count: u32) -> Option<Self> {
        let (number, before) = (
            state.checked_sub(1)?,
            self.states.get(state.checked_sub(1)?)?,
        );
        let (path, from, all) = match self.ops.get(number)? {
            Op::Write(path, from, all) => (path, Some(*from), *all),
            Op::Append(path, all) => (path, None, *all),
            _ => return None,
        };
        let size = match &before.get(before.find(path)?)?.kind {
            Kind::File { size, .. } => *size,
            _ => return None,
        };
        let from = from.map_or(size.div_ceil(SECTOR_BYTES as u64), u64::from);
        if count >= all || !(from + u64::from(count)).is_multiple_of(BLOCK_SECTORS as u64) {
            return None;
        }
        let after = &self.states[state];
        let node = after.get(after.find(path)?)?;
        let change = Change {
            state,
            seconds: node.changed,
            new_node: self.write_number(state)?,
            write: self.write_number(state)?,
        };
        let mut history = self.clone();
        history.states[state] = before.after(&shortened(&self.ops[number], count), change)?;
        Some(history)
    }

    /// What the write that leads to a state is known by.
    fn write_number(&self, state: usize) -> Option<u32> {
        Some(number_of(self.lane, state.checked_sub(1)?))
    }

    /// What became of an operation.
    fn outcome(&self, number: usize) -> Outcome {
        let done = number.checked_sub(self.base).map(|index| self.done[index]);
        done.map_or(Outcome::Done, |done| done.outcome)
    }

    /// The states that it can be in when a transaction was the last to be committed. They are several only where an
    /// operation was on its way while a transaction was closed.
    pub fn states_at(&self, last: Tid) -> core::ops::RangeInclusive<usize> {
        let reach = |is_in: &dyn Fn(&Done) -> bool| {
            let done = self.done.iter().zip(&self.ops[self.base..]);
            // What changed nothing belongs to no transaction.
            let is_in = |(done, op): &(&Done, &Op)| {
                op.is_sync() || done.outcome == Outcome::NoSpace || is_in(done)
            };
            self.base + done.take_while(is_in).count()
        };
        // What failed need not be in any.
        let least = reach(&|done| done.outcome != Outcome::Failed && !done.last.is_after(last));
        least..=reach(&|done| !done.first.is_after(last)).max(least)
    }
}

impl Bounds {
    /// Before the first event.
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
            former: Former::of(recording),
            data: setting.cell.data,
            synchronous: setting.synchronous,
            pending: BTreeMap::new(),
        }
    }

    /// An operation begins or has returned. Whether the promises have changed.
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
            return false;
        }
        self.lanes[lane].returned = number + 1;
        let before = self.pending.remove(&lane).unwrap_or_default();
        let history = &histories[lane];
        let outcome = history.outcome(number);
        if matches!(outcome, Outcome::Failed | Outcome::NoSpace) {
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
            op if is_synchronous(self.synchronous, op) => {
                // What changed nothing, such as a rename to the same name, belongs to no transaction.
                if history.states[number + 1] == *state {
                    return false;
                }
                own.bind(number + 1, Binding::Wide);
                if let Op::Write(path, ..) | Op::Append(path, _) | Op::Truncate(path, _) = op {
                    let after = &history.states[number + 1];
                    if let Some(id) = after.find(path) {
                        own.files.insert(id, after.node(id).data_in);
                    }
                }
            }
            _ => return false,
        }
        true
    }
}

/// Whether an operation is durable when it returns, on a volume that is mounted so.
fn is_synchronous(synchronous: Synchronous, op: &Op) -> bool {
    match op {
        Op::Write(..) | Op::Append(..) | Op::Truncate(..) => synchronous == Synchronous::All,
        _ => synchronous != Synchronous::No,
    }
}

impl LaneBounds {
    fn bind(&mut self, state: usize, binding: Binding) {
        self.state = self.state.max(state);
        self.binding = Some(binding);
    }

    /// Everything up to a state is durable.
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
