//! [`State`]: the whole state of a world, and the step from one task to the next.
//!
//! # Stalls
//!
//! If no task is ready, time jumps to the next timer, unless the world has *stalled*. It has
//! stalled if no timer is set; or if every host task waits without a timeout, no request is in
//! flight, and each timer of a daemon or device has fired twice without waking a host task. Before
//! the root task returns, a stall is a deadlock. Afterwards it ends the world, and the remaining
//! tasks are an error.

use std::backtrace::Backtrace;
use std::collections::VecDeque;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rt::world::{UnparkHooks, UnparkScope, WaitPoint, Woken};
use rt::{Cost, Nanos};

use crate::caches::Caches;
use crate::chooser::Chooser;
use crate::config::Config;
use crate::cpus::Cpus;
use crate::error::{Failure, StuckTask};
use crate::host::HostProfile;
use crate::tasks::{Status, Task, Tasks, wait_number};
use crate::timers::Timers;
use crate::trace::{Event, Trace};
use crate::waiters::Waiters;
use crate::watch::{Role, Watch};

/// Separates the world's random numbers from its choices.
const STREAM: u64 = 0x0dd5_eed0_0dd5_eed0;
/// Separates the host's jitter from both.
const JITTER_STREAM: u64 = 0x71_77e2_0071_77e2;
/// Number of times that a timer fires in vain before it counts as useless.
const FIRED_MIN: u32 = 2;
/// Time that may pass at a point of a hostile world: the slice for which a thread can lose its
/// processor.
const SLICE: Nanos = Nanos::from_millis(10);

/// The state of a world.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) now: Nanos,
    pub(crate) tasks: Tasks,
    pub(crate) ready: VecDeque<u32>,
    /// The next task to run, regardless of the policy, if a choice at a point selected it.
    pub(crate) forced: Option<u32>,
    pub(crate) timers: Timers,
    pub(crate) waiters: Waiters,
    pub(crate) cpus: Cpus,
    pub(crate) chooser: Chooser,
    pub(crate) trace: Trace,
    pub(crate) random: Xoshiro256PlusPlus,
    jitter: Xoshiro256PlusPlus,
    pub(crate) watch: Watch,
    pub(crate) host: HostProfile,
    caches: Caches,
    pub(crate) step_count: u64,
    pub(crate) root_ended_at: Option<Nanos>,
    pub(crate) failure: Option<Failure>,
    time_max: Nanos,
    step_count_max: u64,
    capture_backtraces: bool,
}

impl State {
    pub(crate) fn new(config: &Config) -> Self {
        let host = config.host.resolved();
        Self {
            now: Nanos::ZERO,
            tasks: Tasks::default(),
            ready: VecDeque::new(),
            forced: None,
            timers: Timers::default(),
            waiters: Waiters::default(),
            cpus: Cpus::new(host.cpu_count),
            chooser: Chooser::new(config),
            trace: Trace::new(config.seed),
            random: Xoshiro256PlusPlus::seed_from_u64(config.seed ^ STREAM),
            jitter: Xoshiro256PlusPlus::seed_from_u64(config.seed ^ JITTER_STREAM),
            watch: Watch::default(),
            caches: Caches::new(&host),
            host,
            step_count: 0,
            root_ended_at: None,
            failure: None,
            time_max: config.time_max,
            step_count_max: config.step_count_max,
            capture_backtraces: config.capture_backtraces,
        }
    }

    /// Returns the task that runs next; `None` if the world is over or has failed.
    pub(crate) fn pick_next(&mut self) -> Option<u32> {
        loop {
            if !self.count_step() || (self.root_ended_at.is_some() && self.watch.is_over()) {
                return None;
            }
            let picked = match self.forced.take() {
                Some(task) => Some(task),
                None => self.pick_ready(),
            };
            if let Some(task) = picked {
                self.tasks.get_mut(task).status = Status::Running;
                self.trace.moment(Event::Resume, task, self.now);
                return Some(task);
            }
            if self.is_stalled() {
                self.fail(Self::stall);
                return None;
            }
            self.fire_due();
        }
    }

    /// Returns the time of some work of a task in nanoseconds.
    #[inline]
    pub(crate) fn nanos_of(&mut self, task: u32, cost: Cost) -> u64 {
        self.caches.nanos(&self.host, task, cost)
    }

    /// Returns the time that work of this length takes now, by the host's jitter.
    pub(crate) fn jittered(&mut self, work: u64) -> u64 {
        let jitter = u64::from(self.host.jitter_permille);
        if jitter == 0 {
            return work;
        }
        let permille = 1000 - jitter + self.jitter.next_u64() % (2 * jitter + 1);
        work.saturating_mul(permille) / 1000
    }

    #[inline]
    fn pick_ready(&mut self) -> Option<u32> {
        if self.ready.len() < 2 {
            return self.ready.pop_front();
        }
        let index = self.chooser.ready(&self.ready);
        self.trace_choice(self.ready.len(), index);
        self.ready.remove(index)
    }

    /// Counts a step. Returns false if the world has failed.
    pub(crate) fn count_step(&mut self) -> bool {
        self.step_count += 1;
        if self.step_count > self.step_count_max {
            let limit = self.step_count_max;
            self.fail(|state| Failure::StepLimit {
                limit,
                tasks: state.describe(|_| true),
            });
        }
        self.failure.is_none()
    }

    /// Adds a task, which is ready.
    pub(crate) fn add_task(&mut self, name: &str, role: Role) -> u32 {
        let task = self.tasks.add(name, role);
        self.chooser.add_task(task);
        self.watch.started(role);
        self.trace.event(Event::Spawn, task, role as u64);
        self.ready.push_back(task);
        task
    }

    /// Chooses whether the running task yields at a point, and to which task.
    pub(crate) fn switch_at_point(&mut self, task: u32) -> bool {
        if !self.count_step() {
            return true;
        }
        let horizon = self.now.saturating_add(SLICE);
        let timer = self.timers.first().filter(|&moment| moment <= horizon);
        let ready_count = self.ready.len();
        let choice = self.chooser.at_point(task, &self.ready, timer.is_some());
        if choice == 0 {
            return false;
        }
        self.trace_choice(ready_count + 1, choice);
        self.forced = match timer {
            Some(moment) if choice > ready_count => {
                let is_within_limit = self.advance(self.now.max(moment));
                let fired = if is_within_limit {
                    self.fire_one()
                } else {
                    None
                };
                fired.and_then(|_| self.ready.pop_back())
            }
            _ => self.ready.remove(choice - 1),
        };
        self.tasks.get_mut(task).status = Status::Ready;
        self.ready.push_back(task);
        true
    }

    /// Wakes tasks parked at an address.
    pub(crate) fn wake(&mut self, address: usize, scope: UnparkScope, hooks: &mut dyn UnparkHooks) {
        let waiting = self.waiters.count(address);
        let (skip, count, is_fair) = match scope {
            UnparkScope::One if waiting == 0 => (0, 0, true),
            UnparkScope::One => {
                let skip = self.chooser.waiter(waiting);
                let is_fair = !self.chooser.may_overtake();
                self.trace_choice(waiting as usize, skip as usize * 2 + usize::from(is_fair));
                (skip, 1, is_fair)
            }
            UnparkScope::WhileWanted => (0, self.count_wanted(address, waiting, hooks), true),
        };
        let has_more = waiting > count;
        let token = hooks.found(Woken {
            count: count as usize,
            has_more,
            is_fair,
        });
        for _ in 0..count {
            let task = self
                .waiters
                .nth(address, skip)
                .expect("as many wait as were counted");
            self.unpark(task, address, token);
        }
    }

    fn count_wanted(&self, address: usize, waiting: u32, hooks: &mut dyn UnparkHooks) -> u32 {
        let mut next = self.waiters.nth(address, 0);
        for count in 0..waiting {
            let task = next.expect("as many wait as were counted");
            let Status::Parked(place) = self.tasks.get(task).status else {
                unreachable!("who waits at an address is parked")
            };
            if !hooks.wants(place.wait) {
                return count;
            }
            next = self.waiters.after(task);
        }
        waiting
    }

    /// Ends the running task and wakes the task that joins it.
    pub(crate) fn end_task(&mut self, task: u32) {
        let ended = self.tasks.get_mut(task);
        ended.status = Status::Ended;
        let (role, joiner) = (ended.role, ended.joiner);
        self.watch.ended(role);
        self.trace.moment(Event::End, task, self.now);
        if joiner != crate::tasks::NONE {
            self.make_ready(joiner, Some(0));
        }
    }

    /// Blocks the running task.
    pub(crate) fn block(&mut self, task: u32, status: Status, deadline: Option<Nanos>) {
        let is_stuck = deadline.is_none();
        if let Some(deadline) = deadline {
            self.timers.set(task, deadline.max(self.now));
        }
        let entry = self.tasks.get_mut(task);
        entry.status = status;
        entry.since = self.now;
        entry.is_stuck = is_stuck && entry.role == Role::Host;
        if entry.is_stuck {
            self.watch.stuck();
        }
        if self.capture_backtraces {
            self.tasks.get_mut(task).backtrace = Some(Backtrace::force_capture());
        }
    }

    /// Parks the running task at a place.
    pub(crate) fn park(&mut self, task: u32, place: WaitPoint, deadline: Option<Nanos>) {
        self.trace.event(Event::Park, task, wait_number(place.wait));
        self.waiters.push(place.address, task);
        self.block(task, Status::Parked(place), deadline);
    }

    /// Removes a parked task from its queue and makes it ready.
    fn unpark(&mut self, task: u32, address: usize, token: usize) {
        self.waiters.remove(address, task);
        self.timers.cancel(task);
        self.make_ready(task, Some(token));
    }

    /// Makes a task ready whose wait is over; without a token if its deadline passed.
    fn make_ready(&mut self, task: u32, token: Option<usize>) {
        self.trace
            .event(Event::Wake, task, u64::from(token.is_some()));
        let entry = self.tasks.get_mut(task);
        entry.status = Status::Ready;
        entry.token = token;
        if std::mem::take(&mut entry.is_stuck) {
            self.watch.unstuck();
        }
        self.ready.push_back(task);
    }

    /// True if nothing else can happen before a moment, so that the running task need not be
    /// switched.
    #[inline]
    pub(crate) fn is_alone_until(&self, moment: Nanos) -> bool {
        self.ready.is_empty() && self.timers.first().is_none_or(|first| first > moment)
    }

    /// Advances the clock. Returns false if that exceeds the limit.
    pub(crate) fn advance(&mut self, moment: Nanos) -> bool {
        self.now = moment;
        if moment > self.time_max {
            let limit = self.time_max;
            self.fail(|state| Failure::TimeLimit {
                limit,
                tasks: state.describe(|_| true),
            });
        }
        self.failure.is_none()
    }

    /// Advances to the next timer and fires all that are due then.
    fn fire_due(&mut self) {
        let Some(moment) = self.timers.first() else {
            return;
        };
        if self.advance(moment.max(self.now)) {
            while self.fire_one().is_some() {}
        }
    }

    /// Fires the first timer that is due now, and returns its task.
    fn fire_one(&mut self) -> Option<u32> {
        let task = self.timers.pop_due(self.now)?;
        self.trace.moment(Event::Timer, task, self.now);
        let epoch = self.watch.epoch;
        let entry = self.tasks.get_mut(task);
        if entry.status != Status::Computing {
            let count = if entry.fired.0 == epoch {
                entry.fired.1
            } else {
                0
            };
            entry.fired = (epoch, count + 1);
        }
        if let Status::Parked(place) = entry.status {
            self.waiters.remove(place.address, task);
        }
        self.make_ready(task, None);
        Some(task)
    }

    /// True if no timer can help. Called when no task is ready.
    fn is_stalled(&self) -> bool {
        if self.timers.first().is_none() {
            return true;
        }
        let is_hopeless = |(slot, task): (u32, &Task)| match task.status {
            Status::Computing => false,
            _ if self.timers.moment_of(slot).is_none() => true,
            _ => task.fired.0 == self.watch.epoch && task.fired.1 >= FIRED_MIN,
        };
        self.watch.is_silent() && self.tasks.iter().all(is_hopeless)
    }

    fn stall(&self) -> Failure {
        match self.root_ended_at {
            None => Failure::Deadlock {
                tasks: self.describe(|_| true),
            },
            Some(_) => Failure::TasksLeft {
                tasks: self.describe(|task| task.role != Role::Device),
            },
        }
    }

    /// Records the first failure.
    pub(crate) fn fail(&mut self, failure: impl FnOnce(&Self) -> Failure) {
        if self.failure.is_none() {
            self.failure = Some(failure(self));
        }
    }

    /// Adds a choice to the trace.
    #[inline]
    pub(crate) fn trace_choice(&mut self, count: usize, choice: usize) {
        self.trace.event(Event::Choice, choice as u32, count as u64);
    }

    fn describe(&self, wanted: impl Fn(&Task) -> bool) -> Vec<StuckTask> {
        let stuck = self.tasks.iter().filter(|(_, task)| wanted(task));
        stuck
            .map(|(slot, task)| self.describe_task(slot, task))
            .collect()
    }

    fn describe_task(&self, slot: u32, task: &Task) -> StuckTask {
        let mut address = None;
        let waits_for = match task.status {
            Status::Absent | Status::Ended => "nothing".to_owned(),
            Status::Ready | Status::Running => "its turn".to_owned(),
            Status::Sleeping => "a moment".to_owned(),
            Status::Computing => "a processor".to_owned(),
            Status::Parked(place) => {
                address = Some(place.address);
                place.wait.name().to_owned()
            }
            Status::Joining(other) => format!("the end of task `{}`", self.tasks.get(other).name),
        };
        StuckTask {
            name: task.name.clone(),
            is_daemon: task.role == Role::Daemon,
            is_device: task.role == Role::Device,
            waits_for,
            address,
            since: task.since,
            until: self.timers.moment_of(slot),
            backtrace: task.backtrace.as_ref().map(Backtrace::to_string),
        }
    }
}
