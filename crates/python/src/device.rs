//! Devices: image files of the host, and Python objects.

use std::sync::Arc;

use jext::device::{FileDevice, OpenOptions, OverlayDevice, SliceDevice};
use jext::{BlockDevice, DeviceError};
use layout::feature::Incompatible;
use layout::superblock::{MAGIC, OFFSET, SIZE, Superblock};
use pyo3::prelude::*;
use zerocopy::FromBytes;

use crate::errors::Failure;
use crate::object_device::{ObjectDevice, Raised};
use crate::paths::Image;

/// The part of an image that holds a file system.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    /// First byte.
    pub(crate) offset: u64,
    /// Length in bytes; none for the rest.
    pub(crate) size: Option<u64>,
}

/// An open image.
pub(crate) struct Opened {
    pub(crate) device: Arc<dyn BlockDevice>,
    /// The exceptions of a Python object.
    pub(crate) raised: Option<Raised>,
}

/// Opens an image. A path is locked against other programs; `create_bytes` is the size of one that
/// does not exist or is empty.
///
/// # Errors
/// Fails if it cannot be opened, or has no such part.
pub(crate) fn open(
    py: Python<'_>,
    image: &Image,
    is_read_only: bool,
    create_bytes: Option<u64>,
    part: Part,
) -> PyResult<Opened> {
    let (device, raised): (Arc<dyn BlockDevice>, _) = match image {
        Image::Path(path) => {
            let options = OpenOptions {
                is_read_only,
                create_bytes,
                ..OpenOptions::default()
            };
            let opened = py.detach(|| FileDevice::open(path, &options));
            let device = opened.map_err(|error| {
                let given = path.as_os_str().to_owned();
                Failure::from(error).into_exception_at(py, given)
            })?;
            (Arc::new(device), None)
        }
        Image::Object(object) => {
            let device = ObjectDevice::open(object.bind(py), is_read_only, create_bytes)?;
            let raised = device.raised();
            (Arc::new(device), Some(raised))
        }
    };
    let sliced = slice(device, part).map_err(Failure::from);
    Ok(Opened {
        device: sliced.map_err(|failure| failure.into_exception(py, None))?,
        raised,
    })
}

fn slice(device: Arc<dyn BlockDevice>, part: Part) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let whole = device.geometry().size_bytes;
    let end = match part.size {
        Some(size) => part.offset.saturating_add(size),
        None => whole,
    };
    if part.offset == 0 && end == whole {
        return Ok(device);
    }
    Ok(Arc::new(SliceDevice::new(device, part.offset, end)?))
}

/// Returns the superblock of a file system, unchecked apart from its magic number.
pub(crate) fn superblock(device: &dyn BlockDevice) -> Option<Superblock> {
    let bytes = device.read_block(OFFSET, SIZE as u32).ok()?;
    let (superblock, _) = Superblock::read_from_prefix(&bytes).ok()?;
    (superblock.magic.get() == MAGIC).then_some(superblock)
}

/// Returns true if the journal of the file system on a device has to be replayed.
pub(crate) fn needs_recovery(device: &dyn BlockDevice) -> bool {
    superblock(device).is_some_and(|superblock| {
        let incompatible = superblock.features().incompatible;
        incompatible.contains(Incompatible::NEEDS_RECOVERY)
            && !incompatible.contains(Incompatible::JOURNAL_DEV)
    })
}

/// Returns a device whose changes stay in memory.
pub(crate) fn overlay(below: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    Arc::new(OverlayDevice::new(below))
}
