//! One trial: devices, a file system, a workload, figures.
//!
//! | environment | devices | time | repeatable |
//! |---|---|---|---|
//! | simulated | created in a new world | virtual | to the bit |
//! | process | memory or files | real | no |
//! | directory | those of its file system | real | no |
//! | mounted | files, block devices, memory | real | no |
//! | guest | created in a new world; or files | virtual; or real | almost; or no |
//!
//! A file system is always created anew, and closed before the trial ends; an error in closing
//! fails the trial. The workload's time excludes mkfs, mount and close.

mod in_guest;
mod on_directory;
mod on_file_system;
mod perturbation;
mod simulated;
mod under_power_cut;

use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use block::DeviceText;
use rt::Nanos;
use sim::HostProfile;
use workload::{Control, Load, Target};

use crate::file_system::{Described, DeviceMaker, Stores};
use crate::guest::job::JobResult;
use crate::plan::{Replica, Trial};
use crate::record::Measured;
use crate::setup::{Environment, Setup};
use crate::targets::Watched;
use crate::timeline::{Counts, Recorder};
use perturbation::Perturbation;

/// The file of a recording.
pub type RecordOutput = Box<dyn std::io::Write + Send>;

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
    let work = Work::of(trial, setup, control)?;
    match &setup.place {
        Environment::Simulated {
            host,
            time_max,
            file_system,
        } => {
            let config = config(host, *time_max, replica);
            simulated::run(config, file_system, work, replica.is_perturbed, setup.cut)
        }
        Environment::Process { file_system } => {
            on_file_system::run(&**file_system, &work, &Perturbation::default())
        }
        Environment::Directory { path } => on_directory::run(path, &work),
        Environment::Mounted { file_system } => {
            on_file_system::run(&**file_system, &work, &Perturbation::default())
        }
        Environment::Guest {
            host,
            time_max,
            file_system,
        } => {
            let config = config(host, *time_max, replica);
            in_guest::run(file_system, config, replica, &work)
        }
    }
}

/// Runs the workload of a setup once in a guest, outside a plan; returns its phases as well. The
/// requests to its devices are recorded if there is a file for them: see [`block::Recording`].
///
/// # Errors
/// Fails as [`run`], if the target is not a guest, and if the recording cannot be written.
pub fn run_in_guest(
    setup: &Setup,
    seed: u64,
    control: Arc<Control>,
    record: Option<RecordOutput>,
) -> Result<JobResult> {
    let Environment::Guest {
        host,
        time_max,
        file_system,
    } = &setup.place
    else {
        bail!("the target is not a guest");
    };
    check_system(setup)?;
    let replica = Replica {
        seed,
        is_perturbed: false,
        workload_seed: None,
    };
    let work = Work {
        workload: setup.workload.clone(),
        has_timeline: false,
        control,
    };
    let mut file_system = file_system.clone();
    file_system.is_recorded = record.is_some();
    in_guest::run_in_full(
        &file_system,
        config(host, *time_max, replica),
        replica,
        &work,
        record,
    )
}

/// Returns the configuration of a trial's world.
fn config(host: &HostProfile, time_max: Nanos, replica: Replica) -> sim::Config {
    let host = host.clone();
    sim::Config {
        host: match replica.is_perturbed {
            true => Perturbation::host(host),
            false => host,
        },
        time_max,
        ..sim::Config::fair(replica.seed)
    }
}

/// Checks the prerequisites of a trial on this system. Changes nothing.
///
/// # Errors
/// Fails with the first missing prerequisite.
pub fn check_system(setup: &Setup) -> Result<()> {
    setup.file_system().map_or(Ok(()), Described::check_system)
}

/// The work of a trial after its target exists.
struct Work {
    workload: Load,
    has_timeline: bool,
    control: Arc<Control>,
}

impl Work {
    fn of(trial: &Trial, setup: &Setup, control: Arc<Control>) -> Result<Self> {
        Ok(Self {
            workload: match trial.replica.workload_seed {
                Some(seed) => setup.workload.reseeded(seed)?,
                None => setup.workload.clone(),
            },
            has_timeline: setup.has_timeline && trial.repetition == 0 && !trial.is_warmup,
            control,
        })
    }

    /// Runs the workload on a target; `counts` reads the engine's counters, if there is an engine.
    fn run(
        &self,
        target: Arc<dyn Target>,
        counts: impl Fn() -> Counts + Send + Sync + 'static,
    ) -> Result<Measured> {
        if !self.has_timeline {
            return Ok(Measured::of(&self.workload.run(&target, &self.control)?));
        }
        let recorder = Arc::new(Recorder::new(counts));
        let target: Arc<dyn Target> = Arc::new(Watched::new(target, Arc::clone(&recorder)));
        let outcome = self.workload.run(&target, &self.control)?;
        let mut measured = Measured::of(&outcome);
        measured.timeline = Some(recorder.finish(&outcome.phases));
        Ok(measured)
    }
}
