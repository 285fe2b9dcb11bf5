//! [`World`]: the services of a simulated world to its tasks, and the pointer to the world of a
//! thread.
//!
//! # Rules
//!
//! - The pointer is null in the real world. A simulated world [`enter`]s itself on its one OS
//!   thread and leaves at its end; nothing else sets the pointer.
//! - A world is used by one OS thread only, so none of its methods needs to be thread-safe.
//! - The closures given to [`World::park`] and [`World::unpark`] run without a task switch in
//!   between.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::cost::Cost;
use crate::nanos::Nanos;
use crate::wall_time::WallTime;

/// Id of the real world in debug builds.
pub const REAL_WORLD_ID: u64 = 0;

thread_local! {
    static WORLD: Cell<Option<NonNull<dyn World>>> = const { Cell::new(None) };
    static HOSTILE: Cell<bool> = const { Cell::new(false) };
}

/// A simulated world, as its tasks see it.
pub trait World {
    /// Returns the id of the world: unique in this process, and not [`REAL_WORLD_ID`].
    fn id(&self) -> u64;

    /// Returns the virtual time since the world started.
    fn monotonic(&self) -> Nanos;

    /// Returns the virtual time for an observer, without settling the calling task's debt.
    fn glance(&self) -> Nanos;

    /// Returns the virtual time of day.
    fn wall(&self) -> WallTime;

    /// Suspends the calling task until a moment.
    fn sleep_until(&self, moment: Nanos);

    /// Creates a task that runs `body`, and returns its number.
    fn spawn(&self, name: &str, is_daemon: bool, body: TaskBody) -> u64;

    /// Suspends the calling task until another has ended.
    fn join(&self, task: u64);

    /// Adds host work to the calling task's debt of virtual time.
    fn charge(&self, cost: Cost);

    /// Switches to another task, if the world chooses to.
    fn point(&self);

    /// Returns the next random number of the world.
    fn random(&self) -> u64;

    /// Returns the calling task's tag: see [`crate::tag`].
    fn tag(&self) -> u64;

    /// Replaces the calling task's tag and returns the old one.
    fn replace_tag(&self, tag: u64) -> u64;

    /// Returns the rule that is broken in this world: see [`crate::mutant`](mod@crate::mutant).
    fn mutant(&self) -> Option<&str> {
        None
    }

    /// Returns the number of the calling task, which is never reused in this world.
    fn task(&self) -> u64;

    /// True if debug builds record the order of locks, and panic if two orders contradict each
    /// other.
    fn records_lock_order(&self) -> bool {
        true
    }

    /// Suspends the calling task at `place` until it is unparked or the deadline passes.
    fn park(&self, place: WaitPoint, deadline: Option<Nanos>, hooks: &mut dyn ParkHooks) -> Parked;

    /// Wakes tasks parked at an address.
    fn unpark(&self, address: usize, scope: UnparkScope, hooks: &mut dyn UnparkHooks);
}

/// The body of a task.
pub type TaskBody = Box<dyn FnOnce() + Send>;

/// A place where a task waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPoint {
    /// Address of the object waited for.
    pub address: usize,
    /// Kind of wait.
    pub wait: Wait,
}

/// The kinds of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Waits for a mutex.
    Mutex,
    /// Waits for a read-write lock, to read.
    Read,
    /// Waits for a read-write lock, to write.
    Write,
    /// Waits for a notification of a condition variable.
    Condvar,
}

impl Wait {
    /// Returns the name of the wait, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read lock",
            Self::Write => "write lock",
            Self::Condvar => "condition variable",
        }
    }
}

/// Callbacks of a parking task.
pub trait ParkHooks {
    /// Checks once more that the wait is still necessary; nothing can be unparked meanwhile.
    fn validate(&mut self) -> bool;

    /// Runs after the task is queued and before it is suspended.
    fn before_sleep(&mut self);

    /// Runs when the deadline has passed; `was_last` is true if the queue is now empty.
    fn timed_out(&mut self, was_last: bool);
}

/// The result of [`World::park`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parked {
    /// The task was not parked: [`ParkHooks::validate`] returned false.
    Invalid,
    /// The deadline passed.
    TimedOut,
    /// Another task woke it with this token.
    Unparked(usize),
}

/// The waiters that [`World::unpark`] considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnparkScope {
    /// One; a fair world takes the first, a hostile one any.
    One,
    /// All in order of arrival, until [`UnparkHooks::wants`] returns false.
    WhileWanted,
}

/// Decisions of the waking task.
pub trait UnparkHooks {
    /// True if the next waiter is to be woken. The first `false` ends the search.
    fn wants(&mut self, wait: Wait) -> bool;

    /// Runs before the waiters do, and returns the token passed to all of them. Also runs if there
    /// were none.
    fn found(&mut self, woken: Woken) -> usize;
}

/// The result of an unpark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// Number of waiters about to wake.
    pub count: usize,
    /// True if other tasks remain parked at the address.
    pub has_more: bool,
    /// True if the world wants the lock handed over to the waiter, so that no other task overtakes
    /// it.
    pub is_fair: bool,
}

/// A thread's membership of a simulated world; it ends when this is dropped.
#[must_use = "the world is left when this is dropped"]
pub struct Entered {
    outer: (Option<NonNull<dyn World>>, bool),
    not_send: PhantomData<*const ()>,
}

/// Moves the calling OS thread into a simulated world.
///
/// # Safety
///
/// The world must outlive the returned value, which must be dropped on the thread that created it.
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

/// True if the calling thread is a task of a simulated world.
#[inline]
pub fn is_simulated() -> bool {
    WORLD.get().is_some()
}

/// Marks a point at which a hostile simulated world may switch tasks. Otherwise it costs a load and
/// a branch.
#[inline]
pub fn point() {
    if HOSTILE.get() {
        hostile_point();
    }
}

/// Returns the simulated world of the calling thread.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a dyn World> {
    // SAFETY: `enter` requires the world to outlive its stay. Every caller drops the reference
    // before it returns to code that could leave the world.
    WORLD.get().map(|world| unsafe { world.as_ref() })
}

/// Returns the id of the calling thread's world.
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
