//! Runs a workload in a world of its own and records what its devices were asked to do.

mod client;
mod holds;
mod probe;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use block::fault::FaultDevice;
use block::trace::{Event, Trace};
use block::{BlockDevice, Geometry, Request};
use ext::Volume;
use layout::Tid;
use rt::{Nanos, WallTime};
use sim::Failure;

use crate::disks::{Disks, MADE_AT, mount_options};
use crate::fault::{Fault, Strike, each, strikes};
use crate::op::Op;
use crate::rule::Broken;
use crate::setting::{PCT_DEPTH, Schedule, Setting};

pub use client::{Done, Ended, Mark, Outcome, number_of, place_of};
pub(crate) use client::{EVERYTHING, run as perform, transactions, wait_for};
pub use holds::{Hold, Look, Told};

/// The scheduling steps after which a world with a broken engine ends.
const MUTANT_STEPS_MAX: u64 = 50_000_000;

/// What clients do, and on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// On what.
    pub setting: Setting,
    /// How many operations of each lane come before the recording: they make what the others need, and are durable.
    pub prepared: Vec<usize>,
    /// What each lane does, in order.
    pub lanes: Vec<Vec<Op>>,
}

/// What was recorded.
#[derive(Clone)]
pub struct Recording {
    /// What it is a recording of.
    pub workload: Workload,
    /// What the devices held before.
    pub initial: Disks,
    /// What happened: requests that change something, flushes, their ends, and marks.
    pub events: Vec<Event>,
    /// What became of the operations, lane by lane.
    pub done: Vec<Vec<Done>>,
    /// The traced devices.
    pub geometries: Vec<Geometry>,
    /// What the devices held after.
    pub last: Disks,
    /// How it has ended, where devices may fail.
    pub ended: Ended,
    /// The commands that have failed. Their events are numbered with those that only read.
    pub strikes: Vec<Strike>,
    /// The faults of each command that the devices were given.
    pub faults: Vec<Fault>,
    /// The hash of all that happened in the world.
    pub hash: u64,
}

/// A workload could not be run to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// An operation failed that should not.
    #[error("{op} failed: {error}")]
    Operation {
        /// Which.
        op: String,
        /// How.
        error: String,
    },
    /// The volume could not be opened or closed.
    #[error("the volume could not be opened or closed: {0}")]
    Volume(String),
    /// A call of a crowd did not do what it should.
    #[error("{0}")]
    Broken(Broken),
    /// Calls wait for each other, or do not come to their end.
    #[error("{0}")]
    Stuck(String),
    /// The world ended badly: a panic.
    #[error("{0}")]
    World(String),
}

/// When operation `number` of a lane begins: one a second, so that times tell operations apart.
pub fn seconds_of(number: usize) -> i64 {
    MADE_AT + 1 + number as i64
}

/// How a world runs that begins at a time, with a rule of the engine broken or none.
pub fn world(schedule: Schedule, seconds: i64, mutant: Option<&'static str>) -> sim::Config {
    let config = match schedule {
        Schedule::Fair => sim::Config::fair(0),
        Schedule::Random(seed) => sim::Config::random(seed),
        Schedule::Pct(seed) => sim::Config::pct(seed, PCT_DEPTH),
    };
    sim::Config {
        epoch: WallTime { seconds, nanos: 0 },
        // A broken engine may run in circles.
        step_count_max: mutant.map_or(config.step_count_max, |_| MUTANT_STEPS_MAX),
        mutant,
        ..config
    }
}

/// Something that a world gives to those outside.
pub struct Shared<T>(Rc<RefCell<Option<T>>>);

impl<T> Shared<T> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self(Rc::new(RefCell::new(None)))
    }

    /// Gives it.
    pub fn set(&self, value: T) {
        self.0.replace(Some(value));
    }

    /// Takes it.
    pub fn take(&self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Does what comes before the recording, on a volume that is opened and closed for it, or cut off after a sync.
///
/// # Errors
/// [`RunError`].
pub fn prepare(workload: &Workload, empty: &Disks) -> Result<Disks, RunError> {
    if workload.prepared.iter().all(|count| *count == 0) {
        return Ok(empty.clone());
    }
    let (workload, empty) = (workload.clone(), empty.clone());
    let config = world(Schedule::Fair, MADE_AT, None);
    let run = sim::run(config, move || -> Result<Disks, RunError> {
        let devices = empty.devices();
        let options = mount_options(&Setting::new(workload.setting.cell));
        let volume = Volume::open(devices.home_device(), devices.log_device(), options)
            .map_err(volume_error)?;
        let most = workload.prepared.iter().max().copied().unwrap_or(0);
        for number in 0..most {
            wait_for(number, MADE_AT);
            for (lane, ops) in (0..).zip(&workload.lanes) {
                if number < workload.prepared[lane] {
                    client::run(&volume, &ops[number], lane as u32, number)?;
                }
            }
        }
        volume.sync().map_err(volume_error)?;
        let torn_off = devices.disks(&empty);
        volume.close().map_err(volume_error)?;
        Ok(if workload.setting.is_dirty {
            torn_off
        } else {
            devices.disks(&empty)
        })
    });
    run.map_err(|error| RunError::World(error.to_string()))?
        .value
}

/// Runs a workload on prepared disks and records it.
///
/// # Errors
/// [`RunError`].
pub fn record(workload: &Workload, prepared: &Disks) -> Result<Recording, RunError> {
    record_on(workload, prepared, |device| device)
}

/// The same, with something between the recording and whoever is recorded.
///
/// # Errors
/// [`RunError`].
pub fn record_on(
    workload: &Workload,
    prepared: &Disks,
    wrap: impl Fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> + 'static,
) -> Result<Recording, RunError> {
    let begin = workload.prepared.iter().max().copied().unwrap_or(0);
    let epoch = seconds_of(begin) - 1;
    let setting = workload.setting;
    let config = world(setting.schedule, epoch, setting.mutant);
    let (workload, prepared) = (workload.clone(), prepared.clone());
    let run = sim::run(config, move || {
        let trace = Trace::new();
        let devices = prepared.devices();
        let mut faulty: Vec<Arc<FaultDevice>> = Vec::new();
        let mut attach = |number: usize, mut device: Arc<dyn BlockDevice>| {
            if let Some(fault) = setting.fault.filter(|fault| fault.device == number) {
                let failing = Arc::new(FaultDevice::new(device, fault.plan()));
                failing.set_armed(false);
                faulty.push(Arc::clone(&failing));
                device = failing;
            }
            let traced = trace.attach(device);
            Arc::new(traced.with_volatile_cache(workload.setting.can_force))
        };
        let home = attach(0, devices.home_device());
        let log = devices.log_device().map(|log| attach(1, log));
        let geometries = [Some(&home), log.as_ref()].into_iter().flatten();
        let geometries = geometries.map(|device| device.geometry()).collect();
        let home_device = wrap(home);
        let log_device = log.map(|log| wrap(log));
        let options = mount_options(&setting);
        let volume = Volume::open(home_device, log_device, options).map_err(volume_error)?;
        let armed_at = trace.len();
        faulty.iter().for_each(|device| device.set_armed(true));
        let (done, ended) = client::run_lanes(volume, &workload, &trace, epoch)?;
        let events = trace.events();
        Ok(Recording {
            last: devices.disks(&prepared),
            ended,
            strikes: strikes(&events),
            faults: each(&events[armed_at..]),
            events: interesting(events),
            initial: prepared,
            workload,
            done,
            geometries,
            hash: 0,
        })
    });
    let report = run.map_err(|error| {
        let is_stuck = matches!(
            error.failure,
            Failure::Deadlock { .. } | Failure::TimeLimit { .. } | Failure::StepLimit { .. }
        );
        match is_stuck {
            true => RunError::Stuck(error.to_string()),
            false => RunError::World(error.to_string()),
        }
    })?;
    let hash = report.trace_hash;
    report
        .value
        .map(|recording| Recording { hash, ..recording })
}

/// Without batches that only read and did not fail.
fn interesting(mut events: Vec<Event>) -> Vec<Event> {
    let mut reads = std::collections::BTreeSet::new();
    for event in &events {
        match event {
            Event::Submitted {
                batch, requests, ..
            } => {
                let mut requests = requests.iter();
                if requests.all(|one| matches!(one, Request::Read { .. })) {
                    reads.insert(*batch);
                }
            }
            Event::Completed { batch, results, .. } if results.iter().any(Result::is_err) => {
                reads.remove(batch);
            }
            _ => {}
        }
    }
    events.retain(|event| match event {
        Event::Submitted { batch, .. }
        | Event::Completed { batch, .. }
        | Event::Detached { batch, .. } => !reads.contains(batch),
        Event::Mark(_) => true,
    });
    events
}

fn volume_error(error: ext::Error) -> RunError {
    RunError::Volume(error.to_string())
}

impl Recording {
    /// Where an operation's metadata can be: in a transaction of these numbers.
    pub fn transactions(&self, lane: usize, number: usize) -> Option<(Tid, Tid)> {
        let prepared = self.workload.prepared[lane];
        let done = self.done[lane].get(number.checked_sub(prepared)?)?;
        Some((done.first, done.last))
    }
}

/// A pause, in virtual time, until a moment of the world.
pub(crate) fn sleep_until(moment: Nanos) {
    if rt::monotonic() < moment {
        rt::sleep_until(moment);
    }
}
