//! A trial in a new simulated world.

use std::sync::Arc;

use anyhow::{Result, anyhow};

use super::perturbation::Perturbation;
use super::{Work, on_file_system, under_power_cut};
use crate::file_system::FileSystem;
use crate::power_cut::PowerCut;
use crate::record::Measured;

pub(super) fn run(
    config: sim::Config,
    file_system: &Arc<dyn FileSystem>,
    work: Work,
    is_perturbed: bool,
    cut: Option<PowerCut>,
) -> Result<Measured> {
    let file_system = Arc::clone(file_system);
    let run = move || {
        // First of all, so that it is the same in every combination.
        let cut_after = cut.map(|cut| (cut, cut.draw()));
        let perturbation = match is_perturbed {
            true => Perturbation::draw(),
            false => Perturbation::default(),
        };
        match &cut_after {
            None => on_file_system::run(&*file_system, &work, &perturbation),
            Some((cut, after)) => {
                under_power_cut::run(&*file_system, &work, &perturbation, (cut, *after))
            }
        }
    };
    let report = sim::run(config, run).map_err(|error| anyhow!(error))?;
    let mut measured = report.value?;
    let seconds = [
        ("virtual_time", report.elapsed),
        ("cpu_time", report.cpu_busy),
    ];
    for (name, span) in seconds {
        measured.metrics.insert(name.to_owned(), span.as_secs_f64());
    }
    measured.trace_hash = Some(format!("{:016x}", report.trace_hash));
    measured.replay = Some(report.replay.to_string());
    Ok(measured)
}
