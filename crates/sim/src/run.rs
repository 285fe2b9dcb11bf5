//! [`run`]: one world from start to end.

use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

use rt::Nanos;
use rt::world::World;

use crate::config::Config;
use crate::error::{Failure, SimError};
use crate::policy::Decision;
use crate::replay::ReplayId;
use crate::watch::Role;
use crate::world::SimWorld;
use crate::{current, overflow, panic_hook};

/// The name of the root task.
const ROOT_NAME: &str = "root";

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report<T> {
    /// Value returned by the root task.
    pub value: T,
    /// Virtual time at which the root task returned.
    pub elapsed: Nanos,
    /// Host work that was settled, over all processors.
    pub cpu_busy: Nanos,
    /// Hash of all events.
    pub trace_hash: u64,
    /// Number of scheduling steps.
    pub step_count: u64,
    /// Replay id of the run.
    pub replay: ReplayId,
    /// Choices other than the default, if the configuration asked for them.
    pub decisions: Vec<Decision>,
}

/// Runs `root` as the first task of a new world, on the calling OS thread, until it returns.
///
/// # Errors
///
/// [`SimError`]: see [`Failure`]. After a failure, values held by the tasks are never dropped: the
/// tasks were interrupted.
pub fn run<T: 'static>(
    config: Config,
    root: impl FnOnce() -> T + 'static,
) -> Result<Report<T>, SimError> {
    let replay = config.replay_id();
    if rt::is_simulated() {
        let (failure, at, trace_hash) = (Failure::Nested, rt::monotonic(), 0);
        return Err(SimError {
            failure,
            at,
            trace_hash,
            replay: Box::new(replay),
        });
    }
    panic_hook::install();
    overflow::install_handler();
    let value = Rc::new(Cell::new(None));
    let world = Box::new(SimWorld::new(&config));
    live(&world, {
        let value = Rc::clone(&value);
        Box::new(move || value.set(Some(root())))
    });
    let state = world.state.into_inner();
    let trace_hash = state.trace.hash();
    if let Some(failure) = state.failure {
        return Err(SimError {
            failure,
            at: state.now,
            trace_hash,
            replay: Box::new(replay),
        });
    }
    Ok(Report {
        value: value.take().expect("a root task that has returned"),
        elapsed: state.root_ended_at.expect("a root task that has returned"),
        cpu_busy: state.cpus.busy(),
        trace_hash,
        step_count: state.step_count,
        replay,
        decisions: state.chooser.into_decisions(),
    })
}

/// Runs `root` as [`run`] does. A run that fails is repeated with a backtrace captured at each
/// wait, so that the error shows where every task was. The root must do the same each time.
///
/// # Errors
///
/// Fails as [`run`] does.
pub fn run_explained<T: 'static>(
    config: Config,
    root: impl Fn() -> T + 'static,
) -> Result<Report<T>, SimError> {
    let root = Rc::new(root);
    let repeated = Rc::clone(&root);
    let error = match run(config.clone(), move || root()) {
        Err(error) if !config.capture_backtraces => error,
        result => return result,
    };
    match run(
        Config {
            capture_backtraces: true,
            ..config
        },
        move || repeated(),
    ) {
        Err(explained) if explained.trace_hash == error.trace_hash => Err(explained),
        _ => Err(error),
    }
}

/// Runs a world to its end. The world must not move meanwhile.
fn live(world: &SimWorld, root: Box<dyn FnOnce()>) {
    let pointer: NonNull<SimWorld> = NonNull::from(world);
    let is_hostile = world.is_hostile();
    // SAFETY: the world outlives this function, which drops what `enter` returns before it ends.
    let entered = unsafe { rt::world::enter(pointer as NonNull<dyn World>, is_hostile) };
    // SAFETY: likewise.
    let stay = unsafe { current::enter(world) };
    world.add(ROOT_NAME, Role::Host, root);
    world.drive();
    world.end();
    drop(stay);
    drop(entered);
}
