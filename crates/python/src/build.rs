//! `build`: an image of directories and archives.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use jext::BlockDevice;
use jext::device::{FileDevice, OpenOptions};
use jext::mkfs::{self, Options, Summary};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use transfer::new_image::{self, BLOCK_BYTES, BLOCK_BYTES_ALL};
use transfer::{Filling, Origin, Tally, Times, digest};

use crate::errors::Failure;
use crate::format::{FormatOptions, bytes, described};
use crate::interruption::{Cancel, interruptible};
use crate::paths::host_path;

/// The sources of an image, and its size.
struct Plan {
    /// The empty file that becomes the image.
    file: PathBuf,
    sources: Vec<PathBuf>,
    size: Option<u64>,
    slack_percent: u32,
    options: Options,
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
    let plan = Plan {
        file: host_path(&file)?,
        sources: sources.iter().map(host_path).collect::<PyResult<_>>()?,
        size: size.as_ref().map(bytes).transpose()?,
        slack_percent: slack,
        options,
    };
    let cancel = Cancel::default();
    let made = interruptible(py, || cancel.request(), || make(plan, &cancel))?;
    let (summary, tally) =
        made.map_err(|error| Failure::Context(error).into_exception(py, None))?;
    let dict = described(py, &summary)?;
    dict.set_item("files", tally.inodes)?;
    dict.set_item("data_bytes", tally.bytes)?;
    Ok(dict)
}

fn make(plan: Plan, cancel: &Cancel) -> Result<(Summary, Tally)> {
    let block_bytes = plan.options.block_bytes.unwrap_or(BLOCK_BYTES);
    if !BLOCK_BYTES_ALL.contains(&block_bytes) {
        bail!("block_size={block_bytes}: expected 1024, 2048 or 4096");
    }
    let options = Options {
        block_bytes: Some(block_bytes),
        ..plan.options
    };
    let origins = plan
        .sources
        .iter()
        .map(|path| Origin::open(path, &|_| None));
    let origins: Vec<Origin> = origins.collect::<Result<_>>()?;
    let tally = tally(&origins, &options)?;
    let clamps = options.seconds.is_some();
    let seconds = options.seconds.unwrap_or_else(now);
    let times = Times { seconds, clamps };
    let mut options = Options {
        inode_count: Some(new_image::inode_count(&options, &tally)?),
        seconds: Some(seconds),
        ..options
    };
    if clamps && options.uuid.is_none() {
        options.uuid = Some(digest::uuid(&origins, &options, times)?);
    }
    options.hash_seed = options.hash_seed.or(options.uuid);
    let size = match plan.size {
        Some(size) => size,
        None => new_image::size(&options, &tally, plan.slack_percent)?,
    };
    mkfs::preview(&new_image::geometry(size), &options)?;
    let open = OpenOptions::default();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&plan.file)?;
    file.set_len(size)?;
    let name = plan.file.display().to_string();
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::of_file(file.into(), &name, &open)?);
    let device = cancel.over(device);
    let summary = mkfs::format(&device, &options)?;
    let filling = Filling {
        times,
        count: &|_| {},
    };
    new_image::fill(&device, &origins, &filling)?;
    Ok((summary, tally))
}

/// Returns the space that trees need together.
fn tally(origins: &[Origin], options: &Options) -> Result<Tally> {
    let mut all = Tally::default();
    for origin in origins {
        let block_bytes = options.block_bytes.unwrap_or(BLOCK_BYTES);
        let tally = Tally::of(origin, block_bytes, options.allocation_bytes())?;
        all.inodes += tally.inodes;
        all.blocks += tally.blocks;
        all.bytes += tally.bytes;
    }
    Ok(all)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs() as i64)
}
