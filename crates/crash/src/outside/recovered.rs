//! Recovered images: e2fsck and `fsck` find nothing, before they are closed and after.

use ext::Volume;

use super::sample::Sample;
use super::{Counts, Difference};
use crate::disks::{Disks, quiet};
use crate::e2fsck;
use crate::recover;
use crate::rule::{Broken, Rule};
use crate::setting::Schedule;
use crate::timetable::RECOVERED_AT;
use crate::world::world;

/// The contents after recovery, and after the volume was closed.
struct Recovered {
    /// The contents after recovery; none if completing orphans has written to the log.
    open: Option<Disks>,
    closed: Disks,
}

/// Checks a sample and the volume that its workload closed with both checkers.
pub(super) fn check(sample: &Sample) -> Result<Counts, Box<Difference>> {
    let ask = || -> Result<Counts, Broken> {
        let recovered = recover(sample)?;
        let mut counts = Counts {
            recovered: 1,
            ..Counts::default()
        };
        if let Some(open) = &recovered.open {
            counts.just_recovered = 1;
            let unmarked = open.without_orphan_mark();
            ask_both(&unmarked).map_err(|broken| of("before it is closed", broken))?;
        }
        ask_both(&recovered.closed).map_err(|broken| of("after recovery and closing", broken))?;
        if sample.recording.workload.setting.fault.is_none() {
            counts.closed = 1;
            let last = &sample.recording.last;
            ask_both(last).map_err(|broken| of("closed by the workload", broken))?;
        }
        Ok(counts)
    };
    ask().map_err(|broken| sample.difference(broken))
}

fn of(when: &str, broken: Broken) -> Broken {
    Broken::new(broken.rule, format!("{when}: {}", broken.what))
}

fn ask_both(disks: &Disks) -> Result<(), Broken> {
    let devices = disks.devices();
    let (home, log) = (devices.home_device(), devices.log_device());
    recover::check(&*home, log.as_deref())?;
    e2fsck::check(disks)
}

fn recover(sample: &Sample) -> Result<Recovered, Broken> {
    let (disks, data) = (
        sample.disks.clone(),
        sample.recording.workload.setting.cell.data,
    );
    let failed = |error: &dyn core::fmt::Display| {
        Broken::new(Rule::U1, format!("recovery did not end well: {error}"))
    };
    let run = sim::run(world(Schedule::Fair, RECOVERED_AT, None), move || {
        let devices = disks.devices();
        let (home, log) = (devices.home_device(), devices.log_device());
        let (volume, report) = Volume::open_with_report(home, log, quiet(data))?;
        let is_finished = report.orphans_deleted + report.orphans_truncated > 0;
        let open = (!is_finished).then(|| devices.disks(&disks));
        volume.close()?;
        let closed = devices.disks(&disks);
        Ok(Recovered { open, closed })
    });
    run.map_err(|error| failed(&error))?
        .value
        .map_err(|error: ext::Error| failed(&error))
}
