//! `build`: an image of directories, archives and container images.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Error, Result};
use envelope::{Partitioned, Tree, Verified, Wrapped, Wrapping};
use jext::mkfs::Summary;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use transfer::edits::{AttributeFilter, Edits, FileContexts, Owners};
use transfer::new_image::fit::Free;
use transfer::new_image::{Plan, Settings, SizeRule, device_in};
use transfer::publish::Complete;
use transfer::{Origin, Platform, Stop, Tally};

use crate::errors::Failure;
use crate::format::{FormatOptions, bytes, described};
use crate::interruption::{Cancel, interruptible};
use crate::paths::host_path;

/// The sources of an image, and its settings.
struct Wanted {
    /// The empty file that becomes the image.
    file: PathBuf,
    /// The empty file that becomes the hash tree.
    hashes: Option<PathBuf>,
    wrapping: Wrapping,
    sources: Vec<PathBuf>,
    choices: SourceOptions,
    settings: Settings,
}

/// The size of an image and what surrounds it, by the names of the Python half.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ShapeOptions<'py> {
    size: Option<Bound<'py, PyAny>>,
    free: Option<Bound<'py, PyAny>>,
    slack: u32,
    /// True to add a hash tree; it lies behind the image unless it has a file.
    verity: bool,
    hashes: Option<Bound<'py, PyAny>>,
    partitioned: bool,
}

impl ShapeOptions<'_> {
    fn size(&self) -> PyResult<SizeRule> {
        Ok(match (&self.size, &self.free) {
            (_, Some(free)) => SizeRule::Exact(parsed_free(free)?),
            (Some(size), None) => SizeRule::Bytes(bytes(size)?),
            (None, None) => SizeRule::Slack(self.slack),
        })
    }

    fn wrapping(&self) -> Wrapping {
        let tree = match self.hashes {
            Some(_) => Tree::Separate,
            None => Tree::Appended,
        };
        Wrapping {
            verity: self.verity.then_some(tree),
            is_partitioned: self.partitioned,
        }
    }
}

fn parsed_free(free: &Bound<'_, PyAny>) -> PyResult<Free> {
    if let Ok(bytes) = free.extract() {
        return Ok(Free::Bytes(bytes));
    }
    let text: String = free.extract()?;
    let free = Free::parse(&text);
    free.map_err(|expected| PyValueError::new_err(format!("free={text:?}: expected {expected}")))
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
    fn origins(&self, sources: &[PathBuf], stop: &Stop) -> Result<Vec<Origin>> {
        let platform = self.platform.as_deref().map(str::parse::<Platform>);
        let platform = platform.transpose().map_err(Error::msg)?;
        let sources = sources.iter();
        let origins = sources.map(|path| Origin::open(path, platform.as_ref(), &|_| None, stop));
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
/// replace files of earlier ones. What surrounds the image is written, too. All of it is synced.
#[pyfunction]
pub(crate) fn build<'py>(
    py: Python<'py>,
    file: Bound<'py, PyAny>,
    sources: Vec<Bound<'py, PyAny>>,
    shape: ShapeOptions<'py>,
    options: FormatOptions,
    choices: SourceOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let options = options.parse();
    let options = options.map_err(|failure| failure.into_exception(py, None))?;
    let cancel = Cancel::default();
    let wanted = Wanted {
        file: host_path(&file)?,
        hashes: shape.hashes.as_ref().map(host_path).transpose()?,
        wrapping: shape.wrapping(),
        sources: sources.iter().map(host_path).collect::<PyResult<_>>()?,
        choices,
        settings: Settings {
            options,
            size: shape.size()?,
            journal: None,
            now: now(),
            edits: Edits::default(),
            random_uuid: None,
            stop: cancel.stop().clone(),
        },
    };
    let made = interruptible(py, || cancel.request(), || make(wanted, &cancel))?;
    let (summary, tally, wrapped) =
        made.map_err(|error| Failure::Context(error).into_exception(py, None))?;
    let dict = described(py, &summary)?;
    let verity = wrapped.verity.map(|found| verity(py, &found)).transpose()?;
    dict.set_item("verity", verity)?;
    let partition = wrapped.partition;
    let partition = partition
        .map(|found| described_partition(py, &found))
        .transpose()?;
    dict.set_item("partition", partition)?;
    dict.set_item("files", tally.inodes)?;
    dict.set_item("data_bytes", tally.bytes)?;
    Ok(dict)
}

fn make(wanted: Wanted, cancel: &Cancel) -> Result<(Summary, Tally, Wrapped)> {
    let origins = wanted.choices.origins(&wanted.sources, cancel.stop())?;
    let settings = Settings {
        edits: wanted.choices.edits()?,
        ..wanted.settings
    };
    let plan = Plan::new(origins, &settings)?;
    let open = |path: &Path| {
        let file = File::options().read(true).write(true).open(path);
        file.with_context(|| path.display().to_string())
    };
    let file = open(&wanted.file)?;
    let hashes = wanted.hashes.as_deref().map(open).transpose()?;
    let (name, offset) = (
        wanted.file.display().to_string(),
        wanted.wrapping.image_offset(),
    );
    let mut device = |bytes| Ok(cancel.over(device_in(&file, &name, offset, bytes)?));
    let (summary, bytes) = plan.make(&mut device, &|_| {})?;
    let wrapping = wanted.wrapping;
    let is_stopped = || cancel.stop().is_requested();
    let uuid = summary.uuid;
    let wrapped = wrapping.finish(&file, hashes.as_ref(), bytes, uuid, &is_stopped)?;
    if !wrapping.is_none() {
        file.sync_data()?;
    }
    hashes.map_or(Ok(()), |hashes| hashes.sync_data())?;
    Ok((summary, plan.tally, wrapped))
}

fn verity<'py>(py: Python<'py>, found: &Verified) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("root_hash", hex(&found.root_hash))?;
    dict.set_item("salt", hex(&found.salt))?;
    dict.set_item("uuid", found.uuid.to_string())?;
    dict.set_item("hash_offset", found.hash_offset)?;
    dict.set_item("data_blocks", found.data_block_count)?;
    Ok(dict)
}

fn described_partition<'py>(py: Python<'py>, found: &Partitioned) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("offset", found.offset)?;
    dict.set_item("size", found.bytes)?;
    dict.set_item("uuid", found.uuid.to_string())?;
    dict.set_item("disk_uuid", found.disk_uuid.to_string())?;
    Ok(dict)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Gives complete files with hidden names their names, in order: all of them, or none. No handler
/// of a signal runs in between.
#[pyfunction]
pub(crate) fn publish(
    py: Python<'_>,
    files: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    force: bool,
) -> PyResult<()> {
    let paths = files.iter();
    let paths = paths.map(|(hidden, path)| Ok((host_path(hidden)?, host_path(path)?)));
    let paths = paths.collect::<PyResult<Vec<(PathBuf, PathBuf)>>>()?;
    let files: Vec<_> = paths
        .iter()
        .map(|(hidden, path)| Complete { hidden, path })
        .collect();
    let published = py.detach(|| transfer::publish::publish(&files, force));
    published.map_err(|unpublished| {
        let error = std::io::Error::from(unpublished.errno);
        let path = files[unpublished.number].path.to_owned();
        // `OSError` chooses its subclass by the number.
        PyOSError::new_err((error.raw_os_error(), error.to_string(), path))
    })
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs() as i64)
}
