//! Devices: image files and block devices of the host, parts of them, devices of callbacks.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::Arc;

use jext::device::{FileDevice, OpenOptions, SliceDevice};
use jext::{BlockDevice, DeviceError};

use crate::call::call;
use crate::callbacks::{CallbackDevice, DeviceCallbacks, JEXT_DEVICE_READ_ONLY};
use crate::failure::{Failure, Result};
use crate::process::Process;
use crate::{pointers, versioned};

/// A block device: an image file, a disk, a part of one, or callbacks.
pub struct Device {
    device: Arc<dyn BlockDevice>,
    /// The process that made it, which has locked the image.
    process: Process,
}

impl Device {
    fn new(device: Arc<dyn BlockDevice>) -> Self {
        let process = Process::current();
        Self { device, process }
    }

    /// Returns the device, unless it belongs to the parent of this process.
    pub(crate) fn get(&self) -> Result<Arc<dyn BlockDevice>> {
        self.process.check("device")?;
        Ok(Arc::clone(&self.device))
    }
}

/// Opens an image file or a block device of the host. `flags` is 0 or JEXT_DEVICE_READ_ONLY. The
/// image is locked against other programs: -EBUSY if one uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_device_open(
    path: *const c_char,
    flags: u32,
    device: *mut *mut Device,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (out, path) = unsafe {
            (
                pointers::out(device, "device")?.cleared(),
                pointers::host_path(path, "path")?,
            )
        };
        if flags & !JEXT_DEVICE_READ_ONLY != 0 {
            return Err(Failure::invalid(format!(
                "flags of the device are {flags:#x}"
            )));
        }
        let device = open(path, flags & JEXT_DEVICE_READ_ONLY != 0, None)?;
        out.give(Device::new(device));
        Ok(())
    })
}

/// Makes a device of callbacks. The structure is copied. If this fails, `close` is not called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_device_new(
    callbacks: *const DeviceCallbacks,
    device: *mut *mut Device,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let out = unsafe { pointers::out(device, "device") }?.cleared();
        if callbacks.is_null() {
            return Err(Failure::invalid("the argument callbacks is NULL"));
        }
        // SAFETY: the contract of pointers, and of the callbacks.
        let device = unsafe { CallbackDevice::new(versioned::read(callbacks)?) }?;
        out.give(Device::new(Arc::new(device)));
        Ok(())
    })
}

/// Makes a device of the bytes from `offset` on of another, such as a partition; `length` 0 is the
/// rest. Both are multiples of the sector size. `whole` may be closed before the part.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_device_slice(
    whole: *mut Device,
    offset: u64,
    length: u64,
    device: *mut *mut Device,
) -> c_int {
    call(|| {
        // SAFETY: the contract of pointers.
        let (out, whole) = unsafe {
            (
                pointers::out(device, "device")?.cleared(),
                pointers::handle(whole, "whole")?,
            )
        };
        let device = slice(whole.get()?, offset, length)?;
        out.give(Device::new(device));
        Ok(())
    })
}

/// Gives up a device. The storage is closed when the volumes on it are, too. In the child of a fork
/// it stays open and locked for the parent, and the callback `close` is not called. NULL is
/// allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn jext_device_close(device: *mut Device) -> c_int {
    call(|| {
        if !device.is_null() {
            // SAFETY: the contract of pointers.
            drop(unsafe { pointers::take(device, "device") }?);
        }
        Ok(())
    })
}

/// Opens a file or block device of the host, and creates a missing or empty one of `create_bytes`.
pub(crate) fn open(
    path: &Path,
    is_read_only: bool,
    create_bytes: Option<u64>,
) -> Result<Arc<dyn BlockDevice>> {
    let options = OpenOptions {
        is_read_only,
        create_bytes,
        ..OpenOptions::default()
    };
    Ok(Arc::new(FileDevice::open(path, &options)?))
}

/// Returns a part of a device; the length 0 is the rest.
pub(crate) fn slice(
    whole: Arc<dyn BlockDevice>,
    offset: u64,
    length: u64,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let size = whole.geometry().size_bytes;
    let end = match length {
        0 => size,
        length => offset.saturating_add(length),
    };
    match offset == 0 && end == size {
        true => Ok(whole),
        false => Ok(Arc::new(SliceDevice::new(whole, offset, end)?)),
    }
}
