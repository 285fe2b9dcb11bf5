//! Runs a workload in a separate world and records the requests to its devices.

mod client;
mod holds;
mod probe;

use std::sync::Arc;

use block::fault::FaultDevice;
use block::trace::{Event, Trace};
use block::{BlockDevice, Request};
use ext::Volume;
use sim::Failure;

use crate::disks::{Disks, mount_options};
use crate::fault::{each, strikes};
use crate::mode::Structures;
use crate::recording::{Outcome, Recording};
use crate::run_error::RunError;
use crate::setting::{Schedule, Setting};
use crate::timetable::{MADE_AT, seconds_of, wait_for};
use crate::workload::Workload;
use crate::world::world;

pub(crate) use client::{EVERYTHING, run as perform, transactions};

/// Seconds before the operations at which a volume is opened that another node may use. More than
/// multiple mount protection waits for.
const PROTECTION_SECONDS: i64 = 60;

/// Runs the operations before the recording, on a volume that is opened and closed for them, or cut
/// off after a sync.
///
/// # Errors
/// - [`RunError`] if they cannot be run.
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
                    let op = &ops[number];
                    let outcome = client::run(&volume, op, lane as u32, number)?;
                    if outcome != Outcome::Done {
                        let error = format!("it cannot be prepared: {outcome}");
                        let op = op.to_string();
                        return Err(RunError::Operation { op, error });
                    }
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
/// - [`RunError`] if it cannot be run.
pub fn record(workload: &Workload, prepared: &Disks) -> Result<Recording, RunError> {
    record_on(workload, prepared, |device| device)
}

/// Records a workload with a layer between the recording devices and the volume.
///
/// # Errors
/// - [`RunError`] if it cannot be run.
pub fn record_on(
    workload: &Workload,
    prepared: &Disks,
    wrap: impl Fn(Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> + 'static,
) -> Result<Recording, RunError> {
    let begin = workload.prepared.iter().max().copied().unwrap_or(0);
    let setting = workload.setting;
    // A volume that was not closed is waited for, where it may be in use.
    let waits = setting.is_dirty && setting.cell.structures == Structures::MultiMount;
    let epoch = seconds_of(begin) - if waits { PROTECTION_SECONDS } else { 1 };
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

/// Removes batches that only read and did not fail.
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
        | Event::Awaited { batch, .. }
        | Event::Detached { batch, .. } => !reads.contains(batch),
        Event::Mark(_) => true,
    });
    events
}

fn volume_error(error: ext::Error) -> RunError {
    RunError::Volume(error.to_string())
}
