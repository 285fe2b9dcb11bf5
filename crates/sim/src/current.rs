//! What devices and harnesses inside a world call: [`spawn_device`], [`trace`], [`requests_in_flight`], [`settle`].

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

use crate::trace::Event;
use crate::watch::Role;
use crate::world::SimWorld;

thread_local! {
    static CURRENT: Cell<*const SimWorld> = const { Cell::new(ptr::null()) };
}

/// The OS thread's stay in a world.
pub(crate) struct Stay {
    not_send: PhantomData<*const ()>,
}

/// Makes `world` the one that this module's functions speak of.
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

/// Starts a task that is a device and not software of the host.
///
/// It may use everything that `rt` offers. It is charged nothing, needs no processor, and is dropped where it waits when
/// the world ends. A deadlock is seen in spite of it unless it says that it has work, with [`requests_in_flight`].
///
/// # Panics
///
/// Outside a simulated world.
pub fn spawn_device(name: &str, body: impl FnOnce() + Send + 'static) {
    let id = with(|world| world.add(name, Role::Device, Box::new(body)));
    assert!(id.is_some(), "device `{name}` needs a simulated world");
    rt::point();
}

/// Adds something that a device did, or saw, to the trace hash. Outside a simulated world nothing happens.
pub fn trace(value: u64) {
    with(|world| world.trace(Event::Device, value));
}

/// Tells the world how many more requests (or fewer, if negative) a device works on: while there are any, waiting for them
/// is no deadlock. Outside a simulated world nothing happens.
pub fn requests_in_flight(delta: i64) {
    with(|world| world.requests_in_flight(delta));
}

/// Lets the calling task pay at once for the host work that it was charged, as before anything that the outside could
/// notice, such as handing a request to a device. Outside a simulated world nothing happens.
pub fn settle() {
    with(SimWorld::settle);
    rt::point();
}

/// Whether code of a simulated task is running.
pub(crate) fn is_in_task() -> bool {
    with(SimWorld::is_in_task).unwrap_or(false)
}

/// Whether backtraces are wanted in this world.
pub(crate) fn captures_backtraces() -> bool {
    with(SimWorld::captures_backtraces).unwrap_or(false)
}

/// The name of the running task if `address` is in the guard page below its stack.
///
/// # Safety
///
/// Only for a signal handler that has interrupted a task's own code.
pub(crate) unsafe fn task_with_guard_at(address: usize) -> Option<&'static str> {
    // SAFETY: the world outlives its stay.
    let world = unsafe { CURRENT.get().as_ref() }?;
    // SAFETY: the caller.
    unsafe { world.task_with_guard_at(address) }
}

fn with<R>(action: impl FnOnce(&SimWorld) -> R) -> Option<R> {
    let world = CURRENT.get();
    // SAFETY: `enter` requires the world to outlive its stay, and the pointer is null outside one.
    unsafe { world.as_ref() }.map(action)
}
