//! Reads past the page cache of a block device that is opened buffered: another machine may have
//! written it. All users of a regular file share one cache.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use rt::Mutex;
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;

use super::alignment::direct_alignment;
use super::backing::Backing;
use crate::error::DeviceError;

/// Opens a device for direct reads when the first one is made.
pub(super) struct Opener {
    /// True for a block device behind the page cache.
    is_cached: bool,
    /// The same device, once it is opened once more; none in it where direct I/O is not possible.
    opened: Mutex<Option<Option<Arc<Backing>>>>,
}

impl Opener {
    pub(super) fn new(is_cached: bool) -> Self {
        Self {
            is_cached,
            opened: Mutex::default(),
        }
    }

    /// Returns the device without the cache; none if there is no other cache to pass.
    pub(super) fn backing(&self, cached: &Backing) -> Result<Option<Arc<Backing>>, DeviceError> {
        if !self.is_cached {
            return Ok(None);
        }
        let mut opened = self.opened.lock();
        if let Some(backing) = &*opened {
            return Ok(backing.clone());
        }
        let path = format!("/proc/self/fd/{}", cached.file.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let backing = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => {
                let alignment = direct_alignment(&file);
                let name = cached.name().to_owned();
                Some(Arc::new(Backing::new(file, name, Some(alignment), false)))
            }
            Err(Errno::INVAL) => None,
            Err(errno) => {
                let error = std::io::Error::from(errno);
                return Err(DeviceError::Open {
                    device: cached.name().to_owned(),
                    kind: error.kind(),
                    cause: format!("reading past the page cache: {error}"),
                });
            }
        };
        Ok(opened.insert(backing).clone())
    }

    /// Drops the clean pages of the device from the page cache.
    pub(super) fn drop_cached(&self, cached: &Backing) {
        if self.is_cached {
            // It fails for pipes only.
            let _ = rustix::fs::fadvise(&cached.file, 0, None, Advice::DontNeed);
        }
    }
}
