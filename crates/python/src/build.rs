//! `build`: an image of directories, archives and container images.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Error, Result};
use jext::mkfs::Summary;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use transfer::edits::{AttributeFilter, Edits, FileContexts, Owners};
use transfer::new_image::{Plan, Settings, SizeRule, device_in};
use transfer::{Origin, Platform, Tally};

use crate::errors::Failure;
use crate::format::{FormatOptions, bytes, described};
use crate::interruption::{Cancel, interruptible};
use crate::paths::host_path;

/// The sources of an image, and its settings.
struct Wanted {
    /// The empty file that becomes the image.
    file: PathBuf,
    sources: Vec<PathBuf>,
    choices: SourceOptions,
    settings: Settings,
}

/// Choices among the sources, and changes of files, by the names of the Python half.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SourceOptions {
    platform: Option<String>,
    owner: Option<(u32, u32)>,
    owner_map: Option<String>,
    file_contexts: Option<PathBuf>,
    xattrs: Option<String>,
    dumpfile: Option<PathBuf>,
    basedir: Option<PathBuf>,
}

impl SourceOptions {
    /// Opens the sources, in order.
    fn origins(&self, sources: &[PathBuf]) -> Result<Vec<Origin>> {
        let platform = self.platform.as_deref().map(str::parse::<Platform>);
        let platform = platform.transpose().map_err(Error::msg)?;
        let sources = sources.iter();
        let origins = sources.map(|path| Origin::open(path, platform.as_ref(), &|_| None));
        let dump = self.dumpfile.iter();
        let dump = dump.map(|path| Origin::open_dump(path, self.basedir.as_deref()));
        origins.chain(dump).collect()
    }

    /// Returns the changes of files.
    fn edits(&self) -> Result<Edits> {
        let contexts = self.file_contexts.as_deref().map(contexts).transpose()?;
        Ok(Edits {
            owners: match (self.owner, &self.owner_map) {
                (Some((uid, gid)), _) => Owners::All { uid, gid },
                (None, Some(map)) => Owners::parse_ranges([&**map]).context("owner_map")?,
                (None, None) => Owners::Kept,
            },
            attributes: AttributeFilter::parse(self.xattrs.as_deref()).context("xattrs")?,
            contexts,
        })
    }
}

fn contexts(path: &Path) -> Result<FileContexts> {
    let context = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(context)?;
    let mut contexts = FileContexts::default();
    contexts.add(&text).with_context(context)?;
    Ok(contexts)
}

/// Makes an image of directories, archives and container images in an empty file; later sources
/// replace files of earlier ones.
#[pyfunction]
pub(crate) fn build<'py>(
    py: Python<'py>,
    file: Bound<'py, PyAny>,
    sources: Vec<Bound<'py, PyAny>>,
    size: Option<Bound<'py, PyAny>>,
    slack: u32,
    options: FormatOptions,
    choices: SourceOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let options = options.parse();
    let options = options.map_err(|failure| failure.into_exception(py, None))?;
    let size = size.as_ref().map(bytes).transpose()?;
    let wanted = Wanted {
        file: host_path(&file)?,
        sources: sources.iter().map(host_path).collect::<PyResult<_>>()?,
        choices,
        settings: Settings {
            options,
            size: size.map_or(SizeRule::Slack(slack), SizeRule::Bytes),
            journal: None,
            now: now(),
            edits: Edits::default(),
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
    let origins = wanted.choices.origins(&wanted.sources)?;
    let settings = Settings {
        edits: wanted.choices.edits()?,
        ..wanted.settings
    };
    let plan = Plan::new(origins, &settings)?;
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&wanted.file)?;
    let name = wanted.file.display().to_string();
    let mut device = |bytes| Ok(cancel.over(device_in(&file, &name, 0, bytes)?));
    let (summary, _) = plan.make(&mut device, &|_| {})?;
    Ok((summary, plan.tally))
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs() as i64)
}
