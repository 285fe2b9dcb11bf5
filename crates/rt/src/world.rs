//! [`World`]: what a simulated world does for the tasks in it, and the pointer that says which world a thread is in.
//!
//! # Rules
//!
//! - The pointer is null in the real world. A simulated world [`enter`]s itself on its one OS thread and leaves at its
//!   end; nothing else sets the pointer.
//! - A world is used by one OS thread only, so none of its methods needs to be thread-safe.
//! - The closures given to [`World::park`] and [`World::unpark`] run without a task switch in between.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::{Cost, Nanos, WallTime};

/// The number by which debug builds know the real world.
pub const REAL_WORLD_ID: u64 = 0;

thread_local! {
    static WORLD: Cell<Option<NonNull<dyn World>>> = const { Cell::new(None) };
    static HOSTILE: Cell<bool> = const { Cell::new(false) };
}

/// A simulated world, as its tasks see it.
pub trait World {
    /// A number unlike that of any other world of this process, and not [`REAL_WORLD_ID`].
    fn id(&self) -> u64;

    /// The virtual time since the world began.
    fn monotonic(&self) -> Nanos;

    /// The virtual time as somebody sees it who watches from outside: the calling task's debt stays as it is.
    fn glance(&self) -> Nanos;

    /// The virtual time of day.
    fn wall(&self) -> WallTime;

    /// Suspends the calling task until a moment.
    fn sleep_until(&self, moment: Nanos);

    /// Makes a task that runs `body`, and returns its number.
    fn spawn(&self, name: &str, is_daemon: bool, body: TaskBody) -> u64;

    /// Suspends the calling task until another has ended.
    fn join(&self, task: u64);

    /// Adds host work to the calling task's debt.
    fn charge(&self, cost: Cost);

    /// May let another task run.
    fn point(&self);

    /// The next random number of the world.
    fn random(&self) -> u64;

    /// The calling task's tag: see [`crate::tag`].
    fn tag(&self) -> u64;

    /// Replaces the calling task's tag and returns the old one.
    fn replace_tag(&self, tag: u64) -> u64;

    /// The rule that is broken in this world: see [`crate::mutant`](mod@crate::mutant).
    fn mutant(&self) -> Option<&str> {
        None
    }

    /// The number of the calling task: no other of this world has or had it.
    fn task(&self) -> u64;

    /// Whether debug builds record the order in which locks are taken, and panic when two orders contradict each other.
    fn records_lock_order(&self) -> bool {
        true
    }

    /// Suspends the calling task at `place` until it is unparked or the deadline comes.
    fn park(&self, place: Place, deadline: Option<Nanos>, hooks: &mut dyn ParkHooks) -> Parked;

    /// Wakes tasks parked at an address.
    fn unpark(&self, address: usize, scope: UnparkScope, hooks: &mut dyn UnparkHooks);
}

/// What a task runs.
pub type TaskBody = Box<dyn FnOnce() + Send>;

/// Where a task waits, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The address of the object waited for.
    pub address: usize,
    /// What the task wants of it.
    pub wait: Wait,
}

/// What a parked task wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// A mutex.
    Mutex,
    /// A read-write lock, for reading.
    Read,
    /// A read-write lock, for writing.
    Write,
    /// A notification of a condition variable.
    Condvar,
}

impl Wait {
    /// In words, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read lock",
            Self::Write => "write lock",
            Self::Condvar => "condition variable",
        }
    }
}

/// What the parking side does at the moments that matter.
pub trait ParkHooks {
    /// Looks again, when nothing can be unparked in between, whether there is still something to wait for.
    fn validate(&mut self) -> bool;

    /// Runs when the task is in the queue and before it is suspended.
    fn before_sleep(&mut self);

    /// Runs when the deadline came, with whether the queue is empty now.
    fn timed_out(&mut self, was_last: bool);
}

/// How a task came back from [`World::park`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// It was never parked: [`ParkHooks::validate`] said no.
    Invalid,
    /// The deadline came.
    TimedOut,
    /// Another task woke it with this token.
    Unparked(usize),
}

/// Which waiters [`World::unpark`] looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnparkScope {
    /// One; a fair world takes the first, a hostile one any.
    One,
    /// All in the order in which they came, as far as [`UnparkHooks::wants`] says yes.
    WhileWanted,
}

/// What the waking side decides.
pub trait UnparkHooks {
    /// Whether to wake the next waiter. The first no ends the search.
    fn wants(&mut self, wait: Wait) -> bool;

    /// Runs before any waiter does, and returns the token that they all get. Also called when there was none.
    fn found(&mut self, woken: Woken) -> usize;
}

/// What an unpark found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// How many waiters are about to wake.
    pub count: usize,
    /// Whether others remain parked at the address.
    pub has_more: bool,
    /// Whether the world wants what was waited for to be handed over to the waiter, so that nobody overtakes it.
    pub is_fair: bool,
}

/// The thread's stay in a simulated world; it ends when this is dropped.
#[must_use = "the world is left when this is dropped"]
pub struct Entered {
    outer: (Option<NonNull<dyn World>>, bool),
    not_send: PhantomData<*const ()>,
}

/// Puts the calling OS thread into a simulated world.
///
/// # Safety
///
/// The world must outlive the returned value, which must be dropped on the thread that made it.
pub unsafe fn enter(world: NonNull<dyn World>, is_hostile: bool) -> Entered {
    let outer = (WORLD.replace(Some(world)), HOSTILE.replace(is_hostile));
    Entered {
        outer,
        not_send: PhantomData,
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        WORLD.set(self.outer.0);
        HOSTILE.set(self.outer.1);
    }
}

/// Whether the calling thread is a task of a simulated world.
#[inline]
pub fn is_simulated() -> bool {
    WORLD.get().is_some()
}

/// A place at which a hostile simulated world may switch tasks. Anywhere else it is a load and a branch.
#[inline]
pub fn point() {
    if HOSTILE.get() {
        hostile_point();
    }
}

/// The simulated world of the calling thread.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a dyn World> {
    // SAFETY: `enter` requires the world to outlive its stay. Every caller lets go of the reference before it
    // returns to code that could leave the world.
    WORLD.get().map(|world| unsafe { world.as_ref() })
}

/// The number of the calling thread's world.
#[cfg(debug_assertions)]
pub(crate) fn current_id() -> u64 {
    current().map_or(REAL_WORLD_ID, World::id)
}

#[cold]
#[inline(never)]
fn hostile_point() {
    if let Some(world) = current() {
        world.point();
    }
}
