//! Recovers an image, looks at all of it, closes it and has it checked.

use std::sync::Arc;

use block::BlockDevice;
use ext::options::DataMode;
use ext::volume::OpenReport;
use ext::{Error, Volume};
use fsck::ProblemKind;

use crate::device::Reads;
use crate::disks::{Devices, Disks, quiet};
use crate::leftover::{Leftovers, leftovers};
use crate::observe::observe;
use crate::oracle::Recovered;
use crate::rule::{Broken, Rule};

/// How many problems are named.
const PROBLEMS_SHOWN: usize = 5;

/// A recovered image.
pub struct Checked {
    /// What was found.
    pub recovered: Recovered,
    /// In data=writeback, where files show what the cut left in their blocks.
    pub leftovers: Leftovers,
    /// What was read on the way, of the home device and of the journal's.
    pub reads: [Reads; 2],
    /// What the devices hold in the end.
    pub after: Disks,
}

/// What else is done with a recovered volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// It is read and closed.
    Read,
    /// It is used: files are made everywhere, and then everything is deleted.
    Use,
}

/// Recovers what disks hold.
///
/// # Errors
/// - U1 if it cannot be opened, read or closed.
/// - U2 if the check finds something.
/// - E2 if an error that was noted is forgotten.
/// - U7 if it cannot be used.
pub fn recover(disks: &Disks, data: DataMode, extent: Extent) -> Result<Checked, Broken> {
    let devices = disks.devices();
    let (home, log) = (devices.home_device(), devices.log_device());
    let recovered = recover_on(Arc::clone(&home), log.clone(), &devices, data, extent)?;
    check(&*home, log.as_deref())?;
    // What was committed and is lost is noted, too, and the log may bring a note.
    let is_noted = disks.has_error() || recovered.has_lost;
    let what = match (recovered.has_error, is_noted) {
        (true, false) if !disks.may_log_error() => {
            Some("the volume says that there was an error, which nobody had noted")
        }
        (false, true) => Some("an error that was noted is forgotten"),
        _ => None,
    };
    if let Some(what) = what {
        return Err(Broken::new(Rule::E2, what));
    }
    let after = devices.disks(disks);
    let log_reads = devices.log.as_ref().map(|log| log.reads());
    Ok(Checked {
        leftovers: match data {
            DataMode::Writeback => leftovers(&recovered.observation, &disks.home),
            DataMode::Ordered | DataMode::Journal => Leftovers::new(),
        },
        recovered,
        reads: [devices.home.reads(), log_reads.unwrap_or_default()],
        after,
    })
}

/// The same on devices that are given, such as traced ones; `devices` is what lies below them.
///
/// # Errors
/// U1, U7.
pub fn recover_on(
    home: Arc<dyn BlockDevice>,
    log: Option<Arc<dyn BlockDevice>>,
    devices: &Devices,
    data: DataMode,
    extent: Extent,
) -> Result<Recovered, Broken> {
    let failed = |error: Error| Broken::new(Rule::U1, format!("recovery failed: {error}"));
    let (volume, report) = Volume::open_with_report(home, log, quiet(data)).map_err(failed)?;
    let recovered = look(&volume, &report, data);
    if recovered.is_ok() && extent == Extent::Use {
        crate::epilogue::run(&volume)?;
    }
    let closed = volume.close();
    let recovered = recovered?;
    closed.map_err(failed)?;
    Ok(Recovered {
        has_error: devices.has_error(),
        ..recovered
    })
}

fn look(volume: &Volume, report: &OpenReport, data: DataMode) -> Result<Recovered, Broken> {
    if let Some(why) = &report.read_only_because {
        return Err(Broken::new(Rule::U1, format!("it is read-only: {why}")));
    }
    let last = report.last_committed;
    let last = last.ok_or_else(|| Broken::new(Rule::U1, "its journal was left alone"))?;
    let observation = observe(volume, data == DataMode::Writeback)
        .map_err(|error| Broken::new(Rule::U1, format!("it cannot be read: {error}")))?;
    Ok(Recovered {
        last,
        has_truncated: report.orphans_truncated > 0,
        has_lost: report.lost.is_some(),
        has_error: false,
        observation,
    })
}

/// That a volume was closed: it is consistent as it lies, and needs no recovery. Where devices have failed, orphans may be left
/// to the next open.
///
/// # Errors
/// U2.
pub fn check_closed(disks: &Disks, has_failed: bool) -> Result<(), Broken> {
    let devices = disks.devices();
    let (home, log) = (devices.home_device(), devices.log_device());
    let report = report(&*home, log.as_deref())?;
    let statistics = &report.statistics;
    if !has_failed || statistics.orphans == 0 {
        expect_clean(&report)?;
    }
    if statistics.needs_recovery {
        return Err(Broken::new(
            Rule::U2,
            "it was closed, and needs recovery all the same",
        ));
    }
    Ok(())
}

/// That a volume is consistent as it lies.
pub(crate) fn check(home: &dyn BlockDevice, log: Option<&dyn BlockDevice>) -> Result<(), Broken> {
    expect_clean(&report(home, log)?)
}

fn report(home: &dyn BlockDevice, log: Option<&dyn BlockDevice>) -> Result<fsck::Report, Broken> {
    fsck::check(home, log, &fsck::Options::default())
        .map_err(|error| Broken::new(Rule::U2, format!("it cannot be checked: {error}")))
}

fn expect_clean(report: &fsck::Report) -> Result<(), Broken> {
    let mut problems = report.problems.iter();
    let is_copy = problems.any(|problem| problem.kind == ProblemKind::CopyChecked);
    if report.is_clean() && !is_copy {
        return Ok(());
    }
    let problems: Vec<String> = report
        .problems
        .iter()
        .take(PROBLEMS_SHOWN)
        .map(ToString::to_string)
        .collect();
    Err(Broken::new(Rule::U2, problems.join("; ")))
}
