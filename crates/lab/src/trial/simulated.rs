//! A trial in a simulated world of its own.

use anyhow::{Result, anyhow};

use super::{Work, on_volume};
use crate::record::Measured;
use crate::setup::VolumeSetup;

pub(super) fn run(config: sim::Config, volume: &VolumeSetup, work: Work) -> Result<Measured> {
    let volume = volume.clone();
    let report =
        sim::run(config, move || on_volume::run(&volume, &work)).map_err(|error| anyhow!(error))?;
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
