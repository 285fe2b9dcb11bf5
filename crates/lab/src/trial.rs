//! One trial: devices, a file system, a workload, figures.
//!
//! | place | devices | time | repeatable |
//! |---|---|---|---|
//! | simulated | made in a new world | virtual | to the bit |
//! | process | memory or files | real | no |
//! | directory | whatever is mounted there | real | no |
//! | mounted | files, block devices, memory | real | no |
//!
//! A file system is always made anew, and closed before the trial ends: an error then fails the
//! trial. What mkfs, mount and close take is not part of the workload's time.

mod on_directory;
mod on_file_system;
mod simulated;

use std::sync::Arc;

use anyhow::{Result, anyhow};
use block::DeviceText;
use workload::{Control, Load, Outcome, Target};

use crate::file_system::{DeviceMaker, FileSystem};
use crate::plan::Trial;
use crate::record::Measured;
use crate::setup::{Environment, Setup};
use crate::targets::Watched;
use crate::timeline::{Counts, Recorder};

/// Opens the devices of a trial as it would, in a world of its own, and closes them again.
///
/// # Errors
/// If there cannot be such a device.
pub(crate) fn open_simulated(text: &DeviceText) -> Result<()> {
    let text = text.clone();
    let config = sim::Config::fair(0);
    let report = sim::run(config, move || DeviceMaker::default().open(&text).map(drop));
    report.map_err(|error| anyhow!(error))?.value
}

/// Runs a trial.
///
/// # Errors
/// Whatever went wrong; the trial has no figures then.
pub fn run(trial: &Trial, setup: &Setup, control: Arc<Control>) -> Result<Measured> {
    let work = Work {
        workload: setup.workload.clone(),
        has_timeline: setup.has_timeline && trial.repetition == 0 && !trial.is_warmup,
        control,
    };
    match &setup.place {
        Environment::Simulated {
            host,
            time_max,
            file_system,
        } => {
            let config = sim::Config {
                host: host.clone(),
                time_max: *time_max,
                ..sim::Config::fair(trial.seed)
            };
            simulated::run(config, file_system, work)
        }
        Environment::Process { file_system } => on_file_system::run(&**file_system, &work),
        Environment::Directory { path } => on_directory::run(path, &work),
        Environment::Mounted { file_system } => on_file_system::run(&**file_system, &work),
    }
}

/// Says what this system lacks for a trial, before anything is touched.
///
/// # Errors
/// The first thing that is missing.
pub fn check_system(setup: &Setup) -> Result<()> {
    setup.file_system().map_or(Ok(()), FileSystem::check_system)
}

/// The work of a trial once its target is there.
struct Work {
    workload: Load,
    has_timeline: bool,
    control: Arc<Control>,
}

impl Work {
    /// Runs the workload on a target; `counts` gives the engine's counters, where there is one.
    fn run(
        &self,
        target: Arc<dyn Target>,
        counts: impl Fn() -> Counts + Send + Sync + 'static,
    ) -> Result<Measured> {
        if !self.has_timeline {
            return Ok(measured(&self.workload.run(&target, &self.control)?));
        }
        let recorder = Arc::new(Recorder::new(counts));
        let target: Arc<dyn Target> = Arc::new(Watched::new(target, Arc::clone(&recorder)));
        let outcome = self.workload.run(&target, &self.control)?;
        let mut measured = measured(&outcome);
        measured.timeline = Some(recorder.finish(&outcome.phases));
        Ok(measured)
    }
}

/// The figures of a workload.
fn measured(outcome: &Outcome) -> Measured {
    let mut measured = Measured::default();
    for metric in &outcome.metrics {
        measured
            .metrics
            .insert(metric.name.to_owned(), metric.value);
    }
    if let Some(latencies) = &outcome.latencies {
        measured.add_latencies(latencies);
    }
    measured
}
