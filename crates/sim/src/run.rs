//! [`run`]: one world from its beginning to its end.

use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

use rt::Nanos;
use rt::world::World;

use crate::config::Config;
use crate::error::{Failure, SimError};
use crate::replay::{Decision, ReplayId};
use crate::watch::Role;
use crate::world::SimWorld;
use crate::{current, overflow, panics};

/// The name of the root task.
const ROOT_NAME: &str = "root";

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report<T> {
    /// What the root task returned.
    pub value: T,
    /// The virtual time at which it returned.
    pub elapsed: Nanos,
    /// The host work that was settled, over all processors.
    pub cpu_busy: Nanos,
    /// The hash of everything that happened.
    pub trace_hash: u64,
    /// How many scheduling steps there were.
    pub step_count: u64,
    /// From what the run is repeated.
    pub replay: ReplayId,
    /// The choices that were not the plain ones, if the configuration asked for them.
    pub decisions: Vec<Decision>,
}

/// Runs `root` as the first task of a new world, on the calling OS thread, until it returns.
///
/// # Errors
///
/// [`SimError`]: see [`Failure`]. Then what the tasks held is never dropped, because they were in the middle of something.
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
    panics::install_hook();
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

/// As [`run`]; but a run that fails is repeated with a backtrace captured at each wait, so that the error says where
/// every task was. The root must do the same each time.
///
/// # Errors
///
/// As [`run`].
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

/// Lets a world live. It must stay where it is meanwhile.
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
