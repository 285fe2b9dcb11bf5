//! The possible states of a lane after the last committed transaction.
//!
//! Most operations are one step: they are in a transaction, or they are not. A write is declared to
//! be several (`docs/crash-model.md`): if a transaction is closed during it, the next one may have
//! its end. Then a crash can leave the start of the write, up to the end of a block: the steps of a
//! write go from its first block to its last. A truncation and a deletion also take several
//! transactions, but recovery completes them: their visible effect comes with the first.

use layout::Tid;

use super::{Change, History, shortened};
use crate::image::{BLOCK_SECTORS, SECTOR_BYTES};
use crate::model::{Kind, Tree};
use crate::op::Op;
use crate::recording::{Done, Outcome};

/// A state, or an intermediate step to the next one.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The last state that was reached completely.
    pub state: usize,
    /// The tree with a part of the next operation, if there is one.
    pub part: Option<Tree>,
}

impl History {
    /// Returns the possible states if a transaction was the last committed one, earliest first.
    /// There is one state, unless an operation was in progress while a transaction was closed, or
    /// fast commits may have brought a part of the transaction.
    pub fn stages_at(&self, last: Tid, is_fast: bool) -> Vec<Stage> {
        let whole = match is_fast {
            true => Tid::new(last.get().wrapping_sub(1)),
            false => last,
        };
        let reach = |is_in: &dyn Fn(&Done) -> bool| {
            let done = self.done.iter().zip(&self.ops[self.base..]);
            // An operation without effect belongs to no transaction.
            let is_in = |(done, op): &(&Done, &Op)| {
                let changes_nothing = match done.outcome {
                    Outcome::NoSpace | Outcome::Refused => true,
                    // Its effect is unknown.
                    Outcome::Failed => false,
                    Outcome::Done | Outcome::Unsynced | Outcome::Short(_) => {
                        done.has_changed_nothing()
                    }
                };
                op.is_sync() || changes_nothing || is_in(done)
            };
            self.base + done.take_while(is_in).count()
        };
        // A failed operation need not be in any transaction.
        let least = reach(&|done| done.outcome != Outcome::Failed && !done.last.is_after(whole));
        let most = reach(&|done| !done.first.is_after(last)).max(least);
        let mut stages = Vec::new();
        for state in least..=most {
            stages.push(Stage { state, part: None });
            if state < most {
                let parts = self.parts(state).into_iter();
                stages.extend(parts.map(|part| Stage {
                    state,
                    part: Some(part),
                }));
            }
        }
        stages
    }

    /// Returns the states between those before and after an operation: a write of several blocks
    /// has been done up to the end of one of them.
    fn parts(&self, number: usize) -> Vec<Tree> {
        let before = &self.states[number];
        let change = Change::of(self.lane, number);
        match &self.ops[number] {
            Op::Punch(path, from, count) => {
                return before.punch_parts(path, (*from, *count), change);
            }
            Op::Collapse(path, from, count) => {
                return before.collapse_parts(path, (*from, *count), change);
            }
            Op::Insert(path, from, count) => {
                return before.insert_parts(path, (*from, *count), change);
            }
            _ => {}
        }
        let Some((from, count)) = self.range_of(number) else {
            return Vec::new();
        };
        let op = &self.ops[number];
        let is_end = |done: &u32| (from + *done as usize).is_multiple_of(BLOCK_SECTORS);
        (1..count)
            .filter(is_end)
            .filter_map(|done| before.after(&shortened(op, done), change))
            .collect()
    }
}

/// Returns the first sector of a write, and the number of sectors.
pub(super) fn sectors_of(op: &Op, before: &Tree) -> Option<(usize, u32)> {
    match op {
        Op::Write(_, from, count)
        | Op::WriteAs(_, _, from, count)
        | Op::Allocate(_, from, count)
        | Op::Zero(_, from, count) => Some((*from as usize, *count)),
        Op::Append(path, count) => match &before.get(before.find(path)?)?.kind {
            Kind::File { size, .. } => Some((size.div_ceil(SECTOR_BYTES as u64) as usize, *count)),
            _ => None,
        },
        _ => None,
    }
}
