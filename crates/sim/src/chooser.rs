//! [`Chooser`]: makes and records all choices of a world.
//!
//! Every choice is a number below the count of its options. 0 is always the default: continue, take
//! the first, hand the lock over. A recorded list contains only the other choices.

use std::collections::VecDeque;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::Config;
use crate::policy::{Decision, Policy};

/// Separates the choices from the world's random numbers, which come from the same seed.
const STREAM: u64 = 0x5eed_c401_ce5e_ed00;
/// Inverse of the probability of a switch at a point in a random world.
const SWITCH_ONE_IN: u64 = 8;
/// Change points are spread over the first 2 to 2^20 points of a run, each power of two equally
/// likely.
const CHANGE_POINT_BITS: u64 = 20;
/// Lowest priority of new tasks; tasks that have lost their priority lie below it.
const PRIORITY_NEW: u64 = 1 << 63;

/// A source of choices according to a policy.
#[derive(Debug)]
pub(crate) struct Chooser {
    kind: Kind,
    random: Xoshiro256PlusPlus,
    choice_count: u64,
    recorded: Option<Vec<Decision>>,
}

#[derive(Debug)]
enum Kind {
    Fair,
    Random,
    Pct(Pct),
    Replay {
        decisions: Vec<Decision>,
        next: usize,
    },
}

/// Priorities by task, and the points at which a running task loses its priority.
#[derive(Debug)]
struct Pct {
    priorities: Vec<u64>,
    change_points: Vec<u64>,
    point_count: u64,
    lowest: u64,
}

impl Chooser {
    pub(crate) fn new(config: &Config) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed ^ STREAM);
        let kind = match &config.policy {
            Policy::Fair => Kind::Fair,
            Policy::Random => Kind::Random,
            Policy::Pct { depth } => Kind::Pct(Pct::new(*depth, &mut random)),
            Policy::Replay(decisions) => Kind::Replay {
                decisions: decisions.clone(),
                next: 0,
            },
        };
        let recorded = config.record_decisions.then(Vec::new);
        Self {
            kind,
            random,
            choice_count: 0,
            recorded,
        }
    }

    /// Assigns a priority to a new task.
    pub(crate) fn add_task(&mut self, task: u32) {
        if let Kind::Pct(pct) = &mut self.kind {
            let needed = task as usize + 1;
            if pct.priorities.len() < needed {
                pct.priorities.resize(needed, 0);
            }
            pct.priorities[task as usize] = PRIORITY_NEW | self.random.next_u64();
        }
    }

    /// Chooses one of the tasks that are ready.
    #[inline]
    pub(crate) fn ready(&mut self, ready: &VecDeque<u32>) -> usize {
        if matches!(self.kind, Kind::Fair) || ready.len() < 2 {
            return 0;
        }
        let proposal = match &self.kind {
            Kind::Random => below(&mut self.random, ready.len()),
            Kind::Pct(pct) => pct.first_of(ready),
            Kind::Fair | Kind::Replay { .. } => 0,
        };
        self.decide(ready.len(), proposal)
    }

    /// Chooses what happens at a point: 0 continues, `n` runs the nth ready task, and one more lets
    /// time pass until the next timer.
    pub(crate) fn at_point(&mut self, me: u32, ready: &VecDeque<u32>, has_timer: bool) -> usize {
        let count = 1 + ready.len() + usize::from(has_timer);
        if count < 2 {
            return 0;
        }
        let proposal = match &mut self.kind {
            Kind::Random => match below(&mut self.random, SWITCH_ONE_IN as usize) {
                0 => below(&mut self.random, count),
                _ => 0,
            },
            Kind::Pct(pct) => pct.at_point(me, ready, has_timer, &mut self.random),
            Kind::Fair | Kind::Replay { .. } => 0,
        };
        self.decide(count, proposal)
    }

    /// Chooses the waiter at an address to be woken.
    pub(crate) fn waiter(&mut self, count: u32) -> u32 {
        if matches!(self.kind, Kind::Fair) || count < 2 {
            return 0;
        }
        let proposal = match self.kind {
            Kind::Random | Kind::Pct(_) => below(&mut self.random, count as usize),
            Kind::Fair | Kind::Replay { .. } => 0,
        };
        self.decide(count as usize, proposal) as u32
    }

    /// Chooses whether other tasks may overtake a woken waiter.
    pub(crate) fn may_overtake(&mut self) -> bool {
        let proposal = match self.kind {
            Kind::Fair => return false,
            Kind::Random | Kind::Pct(_) => below(&mut self.random, 2),
            Kind::Replay { .. } => 0,
        };
        self.decide(2, proposal) == 1
    }

    /// Returns the decisions, if they were recorded.
    pub(crate) fn into_decisions(self) -> Vec<Decision> {
        self.recorded.unwrap_or_default()
    }

    fn decide(&mut self, count: usize, proposal: usize) -> usize {
        self.choice_count += 1;
        let choice = match &mut self.kind {
            Kind::Replay { decisions, next } => match decisions.get(*next) {
                Some(decision) if decision.at == self.choice_count => {
                    *next += 1;
                    (decision.choice as usize).min(count - 1)
                }
                _ => 0,
            },
            _ => proposal,
        };
        if choice != 0
            && let Some(recorded) = &mut self.recorded
        {
            recorded.push(Decision {
                at: self.choice_count,
                choice: choice as u32,
            });
        }
        choice
    }
}

impl Pct {
    fn new(depth: u32, random: &mut Xoshiro256PlusPlus) -> Self {
        let mut change_points: Vec<u64> = (0..depth)
            .map(|_| {
                let magnitude = 1 << (1 + random.next_u64() % CHANGE_POINT_BITS);
                magnitude + random.next_u64() % magnitude
            })
            .collect();
        change_points.sort_unstable_by(|left, right| right.cmp(left));
        Self {
            priorities: Vec::new(),
            change_points,
            point_count: 0,
            lowest: PRIORITY_NEW,
        }
    }

    fn priority(&self, task: u32) -> u64 {
        self.priorities[task as usize]
    }

    fn first_of(&self, ready: &VecDeque<u32>) -> usize {
        let first = (0..ready.len())
            .max_by_key(|&index| (self.priority(ready[index]), ready.len() - index));
        first.expect("some task can run")
    }

    fn at_point(
        &mut self,
        me: u32,
        ready: &VecDeque<u32>,
        has_timer: bool,
        random: &mut Xoshiro256PlusPlus,
    ) -> usize {
        self.point_count += 1;
        if self
            .change_points
            .last()
            .is_some_and(|&point| point <= self.point_count)
        {
            self.change_points.pop();
            self.lowest -= 1;
            self.priorities[me as usize] = self.lowest;
            if has_timer && below(random, 2) == 1 {
                return 1 + ready.len();
            }
        }
        if ready.is_empty() {
            return 0;
        }
        let first = self.first_of(ready);
        if self.priority(ready[first]) > self.priority(me) {
            1 + first
        } else {
            0
        }
    }
}

/// Returns a random number below `count`.
fn below(random: &mut Xoshiro256PlusPlus, count: usize) -> usize {
    ((u128::from(random.next_u64()) * count as u128) >> 64) as usize
}
