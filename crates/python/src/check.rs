//! `check`: the independent checker.

use std::sync::Arc;

use jext::fsck::{self, Options, Problem, Report, Severity};
use jext::volume::OpenReport;
use jext::{BlockDevice, MountOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::device::{self, Part, overlay};
use crate::errors::Failure;
use crate::interruption::{Cancel, interruptible};
use crate::paths::Image;
use crate::shared::set_cause;

/// The result of a check.
struct Checked {
    report: Report,
    /// The replay of the journal in memory, if it was needed; its error, if it failed.
    replay: Option<Result<OpenReport, jext::Error>>,
}

/// Checks a file system, and writes nothing. A journal that has to be replayed is replayed in
/// memory.
#[pyfunction]
pub(crate) fn check<'py>(
    py: Python<'py>,
    image: Image,
    offset: u64,
    size: Option<u64>,
    journal: Option<Image>,
    now: Option<i64>,
) -> PyResult<Bound<'py, PyDict>> {
    let part = Part { offset, size };
    let opened = device::open(py, &image, true, None, part)?;
    let cancel = Cancel::default();
    let device = cancel.over(opened.device);
    let journal = match &journal {
        Some(journal) => {
            let opened = device::open(py, journal, true, None, Part::default())?;
            Some(cancel.over(opened.device))
        }
        None => None,
    };
    let name = device.name();
    let checked = interruptible(py, || cancel.request(), || run(device, journal, now))?;
    match checked {
        Ok(checked) => described(py, &checked),
        Err(error) => {
            let exception = Failure::from(error).into_exception_at(py, name.into());
            set_cause(py, &exception, opened.raised.as_ref());
            Err(exception)
        }
    }
}

fn run(
    device: Arc<dyn BlockDevice>,
    journal: Option<Arc<dyn BlockDevice>>,
    now: Option<i64>,
) -> Result<Checked, fsck::Error> {
    let options = Options { now };
    let check = |device: &dyn BlockDevice, journal: Option<&dyn BlockDevice>| {
        fsck::check(device, journal, &options)
    };
    if !device::needs_recovery(&*device) {
        let report = check(&*device, journal.as_deref())?;
        let replay = None;
        return Ok(Checked { report, replay });
    }
    let (over, journal_over) = (overlay(Arc::clone(&device)), journal.clone().map(overlay));
    let (report, replay) = match replay(&over, journal_over.as_ref()) {
        Ok(replayed) => (check(&*over, journal_over.as_deref())?, Ok(replayed)),
        Err(error) => (check(&*device, journal.as_deref())?, Err(error)),
    };
    let replay = Some(replay);
    Ok(Checked { report, replay })
}

/// Replays the journal on devices that nothing else sees.
fn replay(
    device: &Arc<dyn BlockDevice>,
    journal: Option<&Arc<dyn BlockDevice>>,
) -> jext::Result<OpenReport> {
    let options = MountOptions {
        read_only: true,
        is_private: true,
        ..MountOptions::default()
    };
    let (device, journal) = (Arc::clone(device), journal.cloned());
    let (volume, report) = jext::Volume::open_with_report(device, journal, options)?;
    volume.close()?;
    Ok(report)
}

fn described<'py>(py: Python<'py>, checked: &Checked) -> PyResult<Bound<'py, PyDict>> {
    let Checked { report, replay } = checked;
    let (replayed, is_left, why) = match replay {
        None => (0, false, None),
        Some(Ok(opened)) => (
            opened.replayed_transactions + opened.replayed_fast_commits,
            opened.lost.is_some(),
            opened.lost.as_ref().map(ToString::to_string),
        ),
        Some(Err(error)) => (0, true, Some(error.to_string())),
    };
    let problems = report.problems.iter().map(|found| problem(py, found));
    let statistics = &report.statistics;
    let dict = PyDict::new(py);
    dict.set_item("clean", report.is_clean() && !is_left)?;
    dict.set_item("problems", problems.collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("omitted", report.omitted)?;
    dict.set_item("needs_recovery", replay.is_some())?;
    dict.set_item("replayed", replayed)?;
    dict.set_item("not_replayed_because", why)?;
    dict.set_item("block_size", statistics.block_bytes)?;
    dict.set_item("blocks", statistics.blocks)?;
    dict.set_item("used_blocks", statistics.used_blocks)?;
    dict.set_item("inodes", statistics.inodes)?;
    dict.set_item("used_inodes", statistics.used_inodes)?;
    dict.set_item("regular_files", statistics.regular_files)?;
    dict.set_item("directories", statistics.directories)?;
    dict.set_item("symlinks", statistics.symlinks)?;
    Ok(dict)
}

fn problem<'py>(py: Python<'py>, problem: &Problem) -> PyResult<Bound<'py, PyDict>> {
    let place = &problem.place;
    let dict = PyDict::new(py);
    dict.set_item("number", problem.kind.number())?;
    dict.set_item("name", problem.kind.name())?;
    let is_error = problem.kind.severity() == Severity::Error;
    dict.set_item("is_error", is_error)?;
    dict.set_item("text", problem.to_string())?;
    dict.set_item("group", place.group)?;
    dict.set_item("inode", place.inode)?;
    dict.set_item("block", place.block)?;
    dict.set_item("file_block", place.file_block)?;
    let name = place.name.as_deref().map(|name| PyBytes::new(py, name));
    dict.set_item("entry_name", name)?;
    dict.set_item("found", problem.found)?;
    dict.set_item("expected", problem.expected)?;
    Ok(dict)
}
