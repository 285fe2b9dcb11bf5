//! A client on a separate thread: it chooses operations by its model until the devices are gone.

use block::trace::Trace;
use ext::Volume;
use rt::split_mix::SplitMix;

use super::gate::Gate;
use crate::generator::races::choose_racing;
use crate::generator::stress::{DIRECTORIES, choose, directory_path};
use crate::history::next;
use crate::model::{Change, Tree};
use crate::op::Op;
use crate::recording::{Done, Mark, Outcome};
use crate::run::{perform, transactions};
use crate::tag::number_of;
use crate::timetable::{MADE_AT, seconds_of};

/// Maximum number of operations of a lane in a round.
const OPS_MAX: usize = 20_000;

/// A client.
pub(super) struct Lane<'a> {
    pub(super) number: usize,
    pub(super) volume: &'a Volume,
    pub(super) trace: &'a Trace,
    pub(super) gate: &'a Gate,
    /// True if half of its operations are sync calls.
    pub(super) races: bool,
    pub(super) random: SplitMix,
}

/// The work of a client.
#[derive(Debug, Clone, Default)]
pub(super) struct Work {
    pub(super) ops: Vec<Op>,
    pub(super) done: Vec<Done>,
    /// The failure of an operation while the devices were there.
    pub(super) failure: Option<String>,
}

impl Lane<'_> {
    /// Runs operations until the devices are gone.
    pub(super) fn work(mut self) -> Work {
        let mut work = Work::default();
        let mut tree = Tree::new(MADE_AT);
        while work.ops.len() < OPS_MAX && !self.gate.is_closed() {
            let number = work.ops.len();
            let op = self.choose(number, &tree);
            let change = Change {
                state: number + 1,
                seconds: seconds_of(number),
                new_node: number_of(self.number, number),
                write: number_of(self.number, number),
            };
            if tree.after(&op, change).is_none() {
                continue;
            }
            let done = self.perform(&op, number, &mut work.failure);
            let after = next(&tree, &op, done.outcome, change);
            work.ops.push(op);
            work.done.push(done);
            if done.outcome == Outcome::Failed {
                break;
            }
            tree = after.expect("a part of what can be done can be done");
        }
        work
    }

    fn choose(&mut self, number: usize, tree: &Tree) -> Op {
        match number as u64 {
            first if first < DIRECTORIES => Op::Mkdir(directory_path(self.number, first)),
            _ if self.races => choose_racing(self.number, tree, &mut self.random),
            _ => choose(self.number, tree, &mut self.random),
        }
    }

    fn perform(&self, op: &Op, number: usize, failure: &mut Option<String>) -> Done {
        let mark = |is_end| {
            let mark = Mark {
                lane: self.number,
                number,
                is_end,
            };
            self.trace.mark(mark.encode());
        };
        mark(false);
        let before = transactions(self.volume);
        let result = perform(self.volume, op, self.number as u32, number);
        let after = transactions(self.volume);
        let outcome = match result {
            Ok(outcome) => {
                mark(true);
                outcome
            }
            Err(error) => {
                if !self.gate.is_closed() {
                    *failure = Some(error.to_string());
                }
                Outcome::Failed
            }
        };
        Done::between(outcome, before, after)
    }
}
