//! One trial: devices, a file system, a workload, figures.
//!
//! | environment | devices | time | repeatable |
//! |---|---|---|---|
//! | simulated | created in a new world | virtual | to the bit |
//! | process | memory or files | real | no |
//! | directory | those of its file system | real | no |
//! | mounted | files, block devices, memory | real | no |
//!
//! A file system is always created anew, and closed before the trial ends; an error in closing
//! fails the trial. The workload's time excludes mkfs, mount and close.

mod on_directory;
mod on_file_system;
mod perturbation;
mod simulated;
mod under_power_cut;

use std::sync::Arc;

use anyhow::{Result, anyhow};
use block::DeviceText;
use workload::{Control, Load, Outcome, Target};

use crate::file_system::{DeviceMaker, FileSystem, Stores};
use crate::plan::Trial;
use crate::record::Measured;
use crate::setup::{Environment, Setup};
use crate::targets::Watched;
use crate::timeline::{Counts, Recorder};
use perturbation::Perturbation;

/// Opens the devices of a simulated trial in a separate world, and closes them again.
///
/// # Errors
/// Fails if the device is invalid, or if its power is to be cut and cannot be.
pub(crate) fn open_simulated(text: &DeviceText, is_cut: bool) -> Result<()> {
    let text = text.clone();
    let config = sim::Config::fair(0);
    let report = sim::run(config, move || {
        if !is_cut {
            return DeviceMaker::default().open(&text).map(drop);
        }
        let mut maker = DeviceMaker::with_stores(Stores::default());
        maker.open(&text)?;
        maker
            .switch()
            .map_or(Ok(()), |switch| switch.cut().map(drop))
    });
    report.map_err(|error| anyhow!(error))?.value
}

/// Runs a trial.
///
/// # Errors
/// Fails if any step fails; the trial then has no figures.
pub fn run(trial: &Trial, setup: &Setup, control: Arc<Control>) -> Result<Measured> {
    let replica = trial.replica;
    let work = Work {
        workload: match replica.workload_seed {
            Some(seed) => setup.workload.reseeded(seed)?,
            None => setup.workload.clone(),
        },
        has_timeline: setup.has_timeline && trial.repetition == 0 && !trial.is_warmup,
        control,
    };
    match &setup.place {
        Environment::Simulated {
            host,
            time_max,
            file_system,
        } => {
            let host = host.clone();
            let config = sim::Config {
                host: match replica.is_perturbed {
                    true => Perturbation::host(host),
                    false => host,
                },
                time_max: *time_max,
                ..sim::Config::fair(replica.seed)
            };
            simulated::run(config, file_system, work, replica.is_perturbed, setup.cut)
        }
        Environment::Process { file_system } => {
            on_file_system::run(&**file_system, &work, &Perturbation::default())
        }
        Environment::Directory { path } => on_directory::run(path, &work),
        Environment::Mounted { file_system } => {
            on_file_system::run(&**file_system, &work, &Perturbation::default())
        }
    }
}

/// Checks the prerequisites of a trial on this system. Changes nothing.
///
/// # Errors
/// Fails with the first missing prerequisite.
pub fn check_system(setup: &Setup) -> Result<()> {
    setup.file_system().map_or(Ok(()), FileSystem::check_system)
}

/// The work of a trial after its target exists.
struct Work {
    workload: Load,
    has_timeline: bool,
    control: Arc<Control>,
}

impl Work {
    /// Runs the workload on a target; `counts` reads the engine's counters, if there is an engine.
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

/// Returns the figures of a workload.
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
