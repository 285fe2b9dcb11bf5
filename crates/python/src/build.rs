//! `build`: an image of directories and archives.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use jext::BlockDevice;
use jext::device::{FileDevice, OpenOptions};
use jext::mkfs::Summary;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use transfer::new_image::{Plan, Settings, SizeRule};
use transfer::{Origin, Tally};

use crate::errors::Failure;
use crate::format::{FormatOptions, bytes, described};
use crate::interruption::{Cancel, interruptible};
use crate::paths::host_path;

/// The sources of an image, and its settings.
struct Wanted {
    /// The empty file that becomes the image.
    file: PathBuf,
    sources: Vec<PathBuf>,
    settings: Settings,
}

/// Makes an image of directories and archives in an empty file; later sources replace files of
/// earlier ones.
#[pyfunction]
pub(crate) fn build<'py>(
    py: Python<'py>,
    file: Bound<'py, PyAny>,
    sources: Vec<Bound<'py, PyAny>>,
    size: Option<Bound<'py, PyAny>>,
    slack: u32,
    options: FormatOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let options = options.parse();
    let options = options.map_err(|failure| failure.into_exception(py, None))?;
    let size = size.as_ref().map(bytes).transpose()?;
    let wanted = Wanted {
        file: host_path(&file)?,
        sources: sources.iter().map(host_path).collect::<PyResult<_>>()?,
        settings: Settings {
            options,
            size: size.map_or(SizeRule::Slack(slack), SizeRule::Bytes),
            journal: None,
            now: now(),
            random_uuid: None,
        },
    };
    let cancel = Cancel::default();
    let made = interruptible(py, || cancel.request(), || make(wanted, &cancel))?;
    let (summary, tally) =
        made.map_err(|error| Failure::Context(error).into_exception(py, None))?;
    let dict = described(py, &summary)?;
    dict.set_item("files", tally.inodes)?;
    dict.set_item("data_bytes", tally.bytes)?;
    Ok(dict)
}

fn make(wanted: Wanted, cancel: &Cancel) -> Result<(Summary, Tally)> {
    let sources = wanted.sources.iter();
    let origins = sources.map(|path| Origin::open(path, &|_| None));
    let plan = Plan::new(origins.collect::<Result<_>>()?, &wanted.settings)?;
    let open = OpenOptions::default();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&wanted.file)?;
    file.set_len(plan.bytes)?;
    let name = wanted.file.display().to_string();
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::of_file(file.into(), &name, &open)?);
    let summary = plan.make(&cancel.over(device), None, &|_| {})?;
    Ok((summary, plan.tally))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs() as i64)
}
