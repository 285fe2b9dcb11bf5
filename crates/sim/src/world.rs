//! [`SimWorld`]: the implementation of `rt`'s world, and the loop that runs its tasks.
//!
//! # Rules
//!
//! - The state is never borrowed across a switch or while foreign code runs, except for the short
//!   closures of the locks.
//! - A task settles its debt before any action that others can observe.
//! - While the locks' closures run ([`SimWorld::quietly`]), nothing switches: parking is one step.
//! - A *dead* world runs no task any more: it only drops what its devices hold.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use rand_core::Rng;
use rt::world::{ParkHooks, Parked, TaskBody, UnparkHooks, UnparkScope, Wait, WaitPoint, World};
use rt::{Cost, Nanos, WallTime};

use crate::config::Config;
use crate::error::Failure;
use crate::state::State;
use crate::tasks::{NONE, Status};
use crate::trace::Event;
use crate::watch::Role;
use crate::{panics, stacks};

/// Debt in nanoseconds at which it is settled at the latest.
const DEBT_MAX: u64 = 20_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

type Fiber = Coroutine<(), (), (), DefaultStack>;

/// A simulated world.
pub(crate) struct SimWorld {
    id: u64,
    epoch: WallTime,
    mutant: Option<&'static str>,
    is_hostile: bool,
    captures_backtraces: bool,
    records_lock_order: bool,
    pub(crate) state: RefCell<State>,
    fibers: RefCell<Vec<Option<Fiber>>>,
    current: Cell<u32>,
    is_quiet: Cell<bool>,
    is_dead: Cell<bool>,
}

impl SimWorld {
    pub(crate) fn new(config: &Config) -> Self {
        /// Distinguishes worlds in assertions; no run depends on it.
        static WORLD_COUNT: AtomicU64 = AtomicU64::new(rt::world::REAL_WORLD_ID);
        Self {
            id: WORLD_COUNT.fetch_add(1, Ordering::Relaxed) + 1,
            epoch: config.epoch,
            mutant: config.mutant,
            is_hostile: config.policy.is_hostile(),
            captures_backtraces: config.capture_backtraces,
            records_lock_order: config.record_lock_order,
            state: RefCell::new(State::new(config)),
            fibers: RefCell::new(Vec::new()),
            current: Cell::new(NONE),
            is_quiet: Cell::new(false),
            is_dead: Cell::new(false),
        }
    }

    /// Runs tasks until the world is over or has failed.
    pub(crate) fn drive(&self) {
        loop {
            let next = self.state.borrow_mut().pick_next();
            let Some(task) = next else { break };
            let fiber = self.fibers.borrow_mut()[task as usize].take();
            let mut fiber = fiber.expect("a task that can run has a coroutine");
            self.current.set(task);
            let result = fiber.resume(());
            self.current.set(NONE);
            match result {
                CoroutineResult::Yield(()) => self.fibers.borrow_mut()[task as usize] = Some(fiber),
                CoroutineResult::Return(()) => {
                    stacks::give_back(fiber.into_stack());
                    self.state.borrow_mut().tasks.remove(task);
                }
            }
        }
    }

    /// Drops the devices. Other tasks remain only after a failure, interrupted; their values are
    /// leaked.
    pub(crate) fn end(&self) {
        self.is_dead.set(true);
        let fibers = self.fibers.take();
        for (task, fiber) in (0..).zip(fibers) {
            let Some(mut fiber) = fiber else { continue };
            if self.state.borrow().tasks.get(task).role == Role::Device {
                fiber.force_unwind();
                stacks::give_back(fiber.into_stack());
            } else {
                std::mem::forget(fiber);
            }
        }
    }

    /// Creates a task and returns its id.
    pub(crate) fn add(&self, name: &str, role: Role, body: Box<dyn FnOnce()>) -> u64 {
        assert!(
            !self.is_dead.get(),
            "task `{name}` is spawned after the end of its world"
        );
        self.settle();
        let stack = match stacks::take() {
            Ok(stack) => stack,
            Err(error) => {
                let (task, message) = (name.to_owned(), error.to_string());
                self.stop(Failure::NoStack { task, message });
                return 0;
            }
        };
        let (task, id) = {
            let mut state = self.state.borrow_mut();
            let task = state.add_task(name, role);
            state.tasks.get_mut(task).guard = stack.limit().get();
            (task, state.tasks.id(task))
        };
        let world: *const Self = self;
        let fiber = Fiber::with_stack(stack, move |yielder, ()| {
            // SAFETY: the world is in a box that `run` keeps until no coroutine can run any more.
            let world = unsafe { &*world };
            world.run_task(task, yielder, body);
        });
        let mut fibers = self.fibers.borrow_mut();
        if fibers.len() <= task as usize {
            fibers.resize_with(task as usize + 1, || None);
        }
        fibers[task as usize] = Some(fiber);
        id
    }

    fn run_task(&self, task: u32, yielder: &Yielder<(), ()>, body: Box<dyn FnOnce()>) {
        self.state.borrow_mut().tasks.get_mut(task).yielder = yielder;
        let result = catch_unwind(AssertUnwindSafe(body));
        if self.is_dead.get() {
            return;
        }
        match result {
            Ok(()) => {
                self.settle();
                let mut state = self.state.borrow_mut();
                state.end_task(task);
                if task == 0 && state.root_ended_at.is_none() {
                    state.root_ended_at = Some(state.now);
                }
            }
            Err(payload) => {
                let said = panics::take(&*payload);
                let mut state = self.state.borrow_mut();
                let task = state.tasks.get(task).name.clone();
                let (message, backtrace) = (said.message, said.backtrace);
                state.fail(|_| Failure::Panicked {
                    task,
                    message,
                    backtrace,
                });
            }
        }
    }

    /// Settles the calling task's debt by occupying a processor.
    pub(crate) fn settle(&self) {
        let task = self.current.get();
        if task == NONE || self.is_quiet.get() || self.is_dead.get() {
            return;
        }
        let mut state = self.state.borrow_mut();
        if state.tasks.get(task).debt == 0 || std::thread::panicking() {
            return;
        }
        let debt = std::mem::take(&mut state.tasks.get_mut(task).debt);
        let debt = Nanos::new(state.jittered(debt));
        let now = state.now;
        let done_at = state.cpus.occupy(now, debt);
        state.trace.moment(Event::Cpu, task, done_at);
        if state.is_alone_until(done_at) {
            if state.count_step() && state.advance(done_at) {
                return;
            }
        } else {
            state.block(task, Status::Computing, Some(done_at));
        }
        drop(state);
        self.suspend(task);
    }

    /// Runs all other tasks that can run now, until nothing more happens at this moment.
    pub(crate) fn quiesce(&self) {
        let task = self.caller("let others run");
        self.settle();
        loop {
            let mut state = self.state.borrow_mut();
            let now = state.now;
            if state.is_alone_until(now) {
                return;
            }
            state.block(task, Status::Sleeping, Some(now));
            drop(state);
            self.suspend(task);
        }
    }

    /// Returns the time of the next timer.
    pub(crate) fn next_moment(&self) -> Option<Nanos> {
        self.state.borrow().timers.first()
    }

    /// Adds an event to the trace on behalf of the calling task.
    pub(crate) fn trace(&self, event: Event, value: u64) {
        if !self.is_dead.get() {
            let task = self.current.get();
            self.state.borrow_mut().trace.event(event, task, value);
        }
    }

    /// Adds to the number of requests that devices are processing.
    pub(crate) fn requests_in_flight(&self, delta: i64) {
        if !self.is_dead.get() {
            self.trace(Event::InFlight, delta.cast_unsigned());
            self.state.borrow_mut().watch.in_flight += delta;
        }
    }

    /// True if points may switch tasks.
    pub(crate) fn is_hostile(&self) -> bool {
        self.is_hostile
    }

    /// Returns the name of the running task if `address` is in the guard page below its stack.
    ///
    /// # Safety
    ///
    /// Call only from a signal handler that has interrupted a task's own code: the state must not
    /// be in the middle of a change.
    pub(crate) unsafe fn task_with_guard_at(&self, address: usize) -> Option<&'static str> {
        let task = self.current.get();
        if task == NONE {
            return None;
        }
        // SAFETY: the caller keeps the same rule. The name lives until the process is aborted.
        let state = unsafe { &*self.state.as_ptr() };
        let task = state.tasks.get(task);
        let is_in_guard = (task.guard..task.guard + stacks::GUARD_BYTES).contains(&address);
        is_in_guard.then_some(&*task.name)
    }

    /// True if the world captures backtraces.
    pub(crate) fn captures_backtraces(&self) -> bool {
        self.captures_backtraces
    }

    /// True if code of a task is running, and not the world's own.
    pub(crate) fn is_in_task(&self) -> bool {
        self.current.get() != NONE
    }

    /// Switches to the loop. Returns when the task is chosen again.
    fn suspend(&self, task: u32) {
        let yielder = self.state.borrow().tasks.get(task).yielder;
        // SAFETY: the yielder lives at the base of the running coroutine's stack, from where the
        // pointer was taken.
        unsafe { (*yielder).suspend(()) };
    }

    /// Fails the world. Does not return to a task.
    fn stop(&self, failure: Failure) {
        self.state.borrow_mut().fail(|_| failure);
        while self.is_in_task() {
            self.suspend(self.current.get());
        }
    }

    /// Returns the calling task, which is about to wait.
    fn caller(&self, what: &str) -> u32 {
        let task = self.current.get();
        assert!(task != NONE, "only tasks can {what} in a simulated world");
        task
    }

    /// Runs a closure of a lock without task switches.
    fn quietly<R>(&self, closure: impl FnOnce() -> R) -> R {
        let was_quiet = self.is_quiet.replace(true);
        let result = closure();
        self.is_quiet.set(was_quiet);
        result
    }

    /// Fails the world if a task waits while it unwinds: a wait would corrupt the panic count,
    /// which all tasks of the OS thread share.
    fn refuse_wait_in_panic(&self, task: u32, wait: Wait) {
        if std::thread::panicking() && !self.is_dead.get() {
            let name = self.state.borrow().tasks.get(task).name.clone();
            let message = panics::last_message();
            eprintln!(
                "task `{name}` waits for a {} while it unwinds; it panicked {message}",
                wait.name()
            );
            std::process::abort();
        }
    }
}

impl World for SimWorld {
    fn id(&self) -> u64 {
        self.id
    }

    fn monotonic(&self) -> Nanos {
        self.settle();
        self.state.borrow().now
    }

    fn glance(&self) -> Nanos {
        self.state.borrow().now
    }

    fn wall(&self) -> WallTime {
        let nanos = self.monotonic().get() + u64::from(self.epoch.nanos);
        let seconds = i64::try_from(nanos / NANOS_PER_SECOND).expect("2^64 ns fit");
        WallTime {
            seconds: self.epoch.seconds + seconds,
            nanos: u32::try_from(nanos % NANOS_PER_SECOND).expect("a rest below 10^9"),
        }
    }

    fn sleep_until(&self, moment: Nanos) {
        let task = self.caller("sleep");
        self.settle();
        let mut state = self.state.borrow_mut();
        if moment <= state.now {
            return;
        }
        // A host task that sleeps alone need not be switched; other tasks must be checked for a
        // stall.
        if state.tasks.get(task).role == Role::Host && state.is_alone_until(moment) {
            state.trace.moment(Event::Timer, task, moment);
            if state.count_step() && state.advance(moment) {
                return;
            }
        } else {
            state.block(task, Status::Sleeping, Some(moment));
        }
        drop(state);
        self.suspend(task);
    }

    fn spawn(&self, name: &str, is_daemon: bool, body: TaskBody) -> u64 {
        self.add(
            name,
            if is_daemon { Role::Daemon } else { Role::Host },
            body,
        )
    }

    fn join(&self, id: u64) {
        let task = self.caller("join");
        self.settle();
        let mut state = self.state.borrow_mut();
        let Some(other) = state.tasks.find(id) else {
            return;
        };
        state.tasks.get_mut(other).joiner = task;
        state.block(task, Status::Joining(other), None);
        drop(state);
        self.suspend(task);
    }

    #[inline]
    fn charge(&self, cost: Cost) {
        let task = self.current.get();
        if task == NONE || self.is_dead.get() {
            return;
        }
        let is_due = {
            let mut state = self.state.borrow_mut();
            if state.tasks.get(task).role == Role::Device {
                return;
            }
            let nanos = state.nanos_of(task, cost);
            let entry = state.tasks.get_mut(task);
            entry.debt = entry.debt.saturating_add(nanos);
            entry.debt >= DEBT_MAX
        };
        if is_due {
            self.settle();
        }
    }

    fn point(&self) {
        let task = self.current.get();
        if task == NONE || self.is_quiet.get() || self.is_dead.get() || std::thread::panicking() {
            return;
        }
        let is_switch = self.state.borrow_mut().switch_at_point(task);
        if is_switch {
            self.suspend(task);
        }
    }

    fn random(&self) -> u64 {
        let number = self.state.borrow_mut().random.next_u64();
        self.trace(Event::Random, number);
        number
    }

    fn tag(&self) -> u64 {
        let task = self.current.get();
        if task == NONE {
            return 0;
        }
        self.state.borrow().tasks.get(task).tag
    }

    fn replace_tag(&self, tag: u64) -> u64 {
        let task = self.current.get();
        if task == NONE {
            return 0;
        }
        std::mem::replace(&mut self.state.borrow_mut().tasks.get_mut(task).tag, tag)
    }

    fn mutant(&self) -> Option<&str> {
        self.mutant
    }

    fn task(&self) -> u64 {
        let task = self.current.get();
        if task == NONE {
            return 0;
        }
        self.state.borrow().tasks.id(task) + 1
    }

    fn records_lock_order(&self) -> bool {
        self.records_lock_order && !self.is_dead.get()
    }

    fn park(&self, place: WaitPoint, deadline: Option<Nanos>, hooks: &mut dyn ParkHooks) -> Parked {
        let task = self.caller("wait");
        self.settle();
        if !self.quietly(|| hooks.validate()) {
            return Parked::Invalid;
        }
        self.refuse_wait_in_panic(task, place.wait);
        self.state.borrow_mut().park(task, place, deadline);
        self.quietly(|| hooks.before_sleep());
        self.suspend(task);
        let (token, was_last) = {
            let state = self.state.borrow();
            (
                state.tasks.get(task).token,
                state.waiters.count(place.address) == 0,
            )
        };
        match token {
            Some(token) => Parked::Unparked(token),
            None => {
                self.quietly(|| hooks.timed_out(was_last));
                Parked::TimedOut
            }
        }
    }

    fn unpark(&self, address: usize, scope: UnparkScope, hooks: &mut dyn UnparkHooks) {
        if self.is_dead.get() {
            return;
        }
        self.settle();
        self.state.borrow_mut().wake(address, scope, hooks);
    }
}
