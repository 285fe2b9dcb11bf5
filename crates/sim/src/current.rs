//! Functions for devices and harnesses inside a world: [`spawn_device`], [`trace`],
//! [`requests_in_flight`], [`settle`], [`quiesce`], [`next_moment`].

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use crate::trace::Event;
use crate::watch::Role;
use crate::world::SimWorld;

thread_local! {
    static CURRENT: Cell<*const SimWorld> = const { Cell::new(ptr::null()) };
}

/// The OS thread's membership of a world.
pub(crate) struct Stay {
    not_send: PhantomData<*const ()>,
}

/// Makes `world` the current one for this module's functions.
///
/// # Safety
///
/// The world must outlive the returned value.
pub(crate) unsafe fn enter(world: &SimWorld) -> Stay {
    CURRENT.set(world);
    Stay {
        not_send: PhantomData,
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

/// Starts a task that represents a device and not software of the host.
///
/// The task may use everything in `rt`. Its work costs no time and no processor, and it is dropped
/// at its wait when the world ends. It does not hide a deadlock unless it reports requests with
/// [`requests_in_flight`].
///
/// # Panics
///
/// Panics outside a simulated world.
pub fn spawn_device(name: &str, body: impl FnOnce() + Send + 'static) {
    let id = with(|world| world.add(name, Role::Device, Box::new(body)));
    assert!(id.is_some(), "device `{name}` needs a simulated world");
    rt::point();
}

/// Adds an event of a device to the trace hash. Does nothing outside a simulated world.
pub fn trace(value: u64) {
    with(|world| world.trace(Event::Device, value));
}

/// Adds `delta` to the number of requests that a device is processing. While there are any, waiting
/// for them is no deadlock. Does nothing outside a simulated world.
pub fn requests_in_flight(delta: i64) {
    with(|world| world.requests_in_flight(delta));
}

/// Settles the calling task's debt of host work at once. A device calls this before an action that
/// others can observe, such as accepting a request. Does nothing outside a simulated world.
pub fn settle() {
    with(SimWorld::settle);
    rt::point();
}

/// Runs all other tasks that can run at this moment; no time passes. Only one task of a world may
/// do this. Does nothing outside a simulated world.
pub fn quiesce() {
    with(SimWorld::quiesce);
}

/// Returns the time of the next timer of all tasks: before it, only the calling task changes
/// anything if it has called [`quiesce`]. Returns `None` if there is none, and outside a simulated
/// world.
pub fn next_moment() -> Option<rt::Nanos> {
    with(SimWorld::next_moment).flatten()
}

/// True if code of a simulated task is running.
pub(crate) fn is_in_task() -> bool {
    with(SimWorld::is_in_task).unwrap_or(false)
}

/// True if this world captures backtraces.
pub(crate) fn captures_backtraces() -> bool {
    with(SimWorld::captures_backtraces).unwrap_or(false)
}

/// Returns the name of the running task if `address` is in the guard page below its stack.
///
/// # Safety
///
/// Call only from a signal handler that has interrupted a task's own code.
pub(crate) unsafe fn task_with_guard_at(address: usize) -> Option<&'static str> {
    // SAFETY: the world outlives its stay.
    let world = unsafe { CURRENT.get().as_ref() }?;
    // SAFETY: the caller keeps the same rule.
    unsafe { world.task_with_guard_at(address) }
}

fn with<R>(action: impl FnOnce(&SimWorld) -> R) -> Option<R> {
    let world = CURRENT.get();
    // SAFETY: `enter` requires the world to outlive its stay, and the pointer is null outside one.
    unsafe { world.as_ref() }.map(action)
}
