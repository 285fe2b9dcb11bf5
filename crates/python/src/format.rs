//! `mkfs` and `mkjournal`: the options of a new file system, and its making.

use std::sync::Arc;

use jext::BlockDevice;
use jext::device::text::Size;
use jext::mkfs::{
    FileSystemType, JournalDeviceOptions, JournalOption, Options, Summary, UsageType,
    format_journal_device_as,
};
use layout::feature::target::{TARGETS, Target};
use pyo3::exceptions::{PyFileExistsError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::device::{self, Part};
use crate::errors::Failure;
use crate::interruption::{Cancel, interruptible};
use crate::paths::Image;
use crate::shared::set_cause;

/// Bytes at the start of an image that have to be zero unless it may be replaced: most file systems
/// and tables of partitions have something there.
const LOOKED_AT_BYTES: u64 = 128 << 10;
/// The number of `errno` for something that exists.
const EXISTS: i32 = 17;

/// The options of a new file system, by the names of the Python half.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FormatOptions {
    kind: String,
    #[pyo3(default)]
    label: Option<String>,
    #[pyo3(default)]
    uuid: Option<String>,
    #[pyo3(default)]
    block_size: Option<u32>,
    #[pyo3(default)]
    cluster_size: Option<u32>,
    #[pyo3(default)]
    blocks_per_group: Option<u32>,
    #[pyo3(default)]
    bytes_per_inode: Option<u32>,
    #[pyo3(default)]
    inode_size: Option<u16>,
    #[pyo3(default)]
    inodes: Option<u32>,
    #[pyo3(default)]
    reserved_percent: Option<f64>,
    #[pyo3(default)]
    features: Option<String>,
    #[pyo3(default)]
    target: Option<String>,
    #[pyo3(default)]
    usage: Option<String>,
    #[pyo3(default)]
    journal_mib: Option<u32>,
    #[pyo3(default)]
    root_owner: Option<(u32, u32)>,
    #[pyo3(default)]
    hash_seed: Option<String>,
    #[pyo3(default)]
    lazy_itable_init: Option<bool>,
    #[pyo3(default)]
    created: Option<i64>,
}

impl FormatOptions {
    /// Returns the options of the engine.
    ///
    /// # Errors
    /// Names the wrong option.
    pub(crate) fn parse(self) -> Result<Options, Failure> {
        let file_system = match &*self.kind {
            "ext2" => FileSystemType::Ext2,
            "ext3" => FileSystemType::Ext3,
            "ext4" => FileSystemType::Ext4,
            _ => return Err(wrong("type", &self.kind, "ext2, ext3 or ext4")),
        };
        let defaults = Options::default();
        let mut options = Options {
            file_system,
            block_bytes: self.block_size,
            cluster_bytes: self.cluster_size,
            blocks_per_group: self.blocks_per_group,
            bytes_per_inode: self.bytes_per_inode,
            inode_count: self.inodes,
            inode_bytes: self.inode_size,
            reserved_percent: self.reserved_percent.unwrap_or(defaults.reserved_percent),
            label: self.label.unwrap_or_default(),
            uuid: uuid("uuid", self.uuid)?,
            hash_seed: uuid("hash_seed", self.hash_seed)?,
            root_owner: self.root_owner.unwrap_or(defaults.root_owner),
            lazy_inode_tables: self.lazy_itable_init.unwrap_or_default(),
            seconds: self.created,
            ..defaults
        };
        if let Some(name) = self.usage {
            let known = "floppy, small, default, big, huge, news, largefile or largefile4";
            let found = UsageType::from_name(&name);
            options.usage = Some(found.ok_or_else(|| wrong("usage", &name, known))?);
        }
        if let Some(mebibytes) = self.journal_mib {
            options.journal = JournalOption::Megabytes(mebibytes);
        }
        if let Some(name) = self.target {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            let target = Target::named(&name);
            let target = target.ok_or_else(|| wrong("target", &name, &names.join(", ")))?;
            if file_system != FileSystemType::Ext4 {
                let text =
                    format!("target={name:?}: it chooses features of ext4: use type=\"ext4\"");
                return Err(Failure::Argument(text));
            }
            options.features.add(target.edits)?;
        }
        if let Some(list) = self.features {
            options
                .features
                .add(&list)
                .map_err(|error| Failure::Argument(format!("features={list:?}: {error}")))?;
        }
        Ok(options)
    }
}

fn wrong(option: &str, value: &str, expected: &str) -> Failure {
    Failure::Argument(format!("{option}={value:?}: expected {expected}"))
}

fn uuid(option: &str, text: Option<String>) -> Result<Option<[u8; 16]>, Failure> {
    text.map(|text| parsed_uuid(option, &text)).transpose()
}

fn parsed_uuid(option: &str, text: &str) -> Result<[u8; 16], Failure> {
    match uuid::Uuid::parse_str(text) {
        Ok(uuid) => Ok(uuid.into_bytes()),
        Err(error) => Err(wrong(option, text, &format!("a UUID ({error})"))),
    }
}

/// Parses a size: a number of bytes, or text such as `64M`.
pub(crate) fn bytes(size: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(bytes) = size.extract() {
        return Ok(bytes);
    }
    let text: String = size.extract()?;
    match Size::parse(&text) {
        Ok(size) => Ok(size.bytes()),
        Err(expected) => Err(PyValueError::new_err(format!(
            "size={text:?}: expected {expected}"
        ))),
    }
}

/// Returns a size in bytes.
#[pyfunction]
pub(crate) fn size_of(size: Bound<'_, PyAny>) -> PyResult<u64> {
    bytes(&size)
}

/// Returns the description of a new file system.
pub(crate) fn described<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let geometry = &summary.geometry;
    let dict = PyDict::new(py);
    dict.set_item("uuid", uuid::Uuid::from_bytes(summary.uuid).to_string())?;
    dict.set_item("features", summary.features.names())?;
    dict.set_item("block_size", geometry.block_bytes)?;
    dict.set_item("blocks", geometry.block_count)?;
    dict.set_item("free_blocks", summary.free_blocks)?;
    dict.set_item("reserved_blocks", summary.reserved_blocks)?;
    dict.set_item("groups", geometry.group_count)?;
    dict.set_item("inodes", geometry.inode_count)?;
    dict.set_item("free_inodes", summary.free_inodes)?;
    dict.set_item("inode_size", geometry.inode_bytes)?;
    dict.set_item("journal_blocks", summary.journal_blocks)?;
    dict.set_item("warnings", &summary.warnings)?;
    Ok(dict)
}

/// Makes a file system on an image, with its journal on another device if one is given.
#[pyfunction]
#[pyo3(signature = (image, size, offset, force, journal, options))]
pub(crate) fn mkfs<'py>(
    py: Python<'py>,
    image: Image,
    size: Option<Bound<'py, PyAny>>,
    offset: u64,
    force: bool,
    journal: Option<Image>,
    options: FormatOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let options = options.parse();
    let options = options.map_err(|failure| failure.into_exception(py, None))?;
    let journal = match &journal {
        Some(journal) => Some(device::open(py, journal, false, None, Part::default())?.device),
        None => None,
    };
    let place = Place {
        image,
        size: size.as_ref().map(bytes).transpose()?,
        offset,
        force,
    };
    let summary = place.make(py, |device| match &journal {
        Some(journal) => jext::mkfs::format_with_journal(device, journal, &options),
        None => jext::mkfs::format(device, &options),
    })?;
    described(py, &summary)
}

/// Makes an external journal on an image.
#[pyfunction]
#[pyo3(signature = (image, size, force, block_size, uuid, label))]
pub(crate) fn mkjournal(
    py: Python<'_>,
    image: Image,
    size: Option<Bound<'_, PyAny>>,
    force: bool,
    block_size: u32,
    uuid: String,
    label: String,
) -> PyResult<()> {
    let uuid = parsed_uuid("uuid", &uuid);
    let options = JournalDeviceOptions {
        block_bytes: block_size,
        block_count: None,
        uuid: uuid.map_err(|failure| failure.into_exception(py, None))?,
        label,
        seconds: None,
    };
    let place = Place {
        image,
        size: size.as_ref().map(bytes).transpose()?,
        offset: 0,
        force,
    };
    place.make(py, |device| format_journal_device_as(device, &options))?;
    Ok(())
}

/// The place of a new file system or journal.
struct Place {
    image: Image,
    size: Option<u64>,
    offset: u64,
    /// True to replace what is there.
    force: bool,
}

impl Place {
    /// Opens the place and calls `work`, which can be interrupted.
    fn make<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Arc<dyn BlockDevice>) -> jext::Result<T> + Send,
    ) -> PyResult<T> {
        let Self { size, offset, .. } = *self;
        let create_bytes = size.map(|size| size.saturating_add(offset));
        let opened = device::open(py, &self.image, false, create_bytes, Part { offset, size })?;
        let cancel = Cancel::default();
        let device = cancel.over(opened.device);
        let made = interruptible(
            py,
            || cancel.request(),
            || {
                if !self.force
                    && let Some(found) = contents(&*device)?
                {
                    return Ok(Err(found));
                }
                work(&device).map(Ok)
            },
        )?;
        match made {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(found)) => Err(PyFileExistsError::new_err((
                EXISTS,
                format!("the image holds {found}; force=True replaces it"),
                device.name(),
            ))),
            Err(error) => {
                let exception = Failure::from(error).into_exception_at(py, device.name().into());
                set_cause(py, &exception, opened.raised.as_ref());
                Err(exception)
            }
        }
    }
}

/// Returns the name of what a device holds, if it holds something.
fn contents(device: &dyn BlockDevice) -> jext::Result<Option<&'static str>> {
    if device::superblock(device).is_some() {
        return Ok(Some("an ext file system or its journal"));
    }
    let size = device.geometry().size_bytes.min(LOOKED_AT_BYTES);
    let blocks = u32::try_from(size / 512).unwrap_or(u32::MAX);
    let found = device.read_blocks(0, blocks, 512)?;
    let is_empty = found
        .iter()
        .all(|block| block.iter().all(|byte| *byte == 0));
    Ok((!is_empty).then_some("data"))
}
