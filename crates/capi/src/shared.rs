//! The state that a volume and its open files share.

use std::sync::{Arc, PoisonError, RwLock};

use jext::volume::{NewInode, OpenReport};
use rustix::io::Errno;

use crate::failure::{Failure, Result};
use crate::process::Process;

/// An open volume, and the process that it belongs to.
pub(crate) struct Shared {
    // [lock] Held for reading during calls, for writing by `close`.
    volume: RwLock<Option<jext::Volume>>,
    /// The process that opened it. The threads of the engine do not exist in a forked one.
    process: Process,
    /// The events of the open.
    pub(crate) report: OpenReport,
    /// User and group of new files.
    owner: (u32, u32),
}

impl Shared {
    /// Takes a volume that was just opened.
    pub(crate) fn new(volume: jext::Volume, report: OpenReport, owner: (u32, u32)) -> Arc<Self> {
        Arc::new(Self {
            volume: RwLock::new(Some(volume)),
            process: Process::current(),
            report,
            owner,
        })
    }

    /// Calls `work` with the volume.
    pub(crate) fn with<T, E: Into<Failure>>(
        &self,
        work: impl FnOnce(&jext::Volume) -> Result<T, E>,
    ) -> Result<T> {
        self.process.check("volume")?;
        let volume = self.volume.read().unwrap_or_else(PoisonError::into_inner);
        match &*volume {
            Some(volume) => work(volume).map_err(Into::into),
            None => Err(Failure::new(Errno::BADF, "the volume is closed")),
        }
    }

    /// Calls `work` with the volume and a path. A message begins with the path.
    pub(crate) fn at<T, E: Into<Failure>>(
        &self,
        path: &[u8],
        work: impl FnOnce(&jext::Volume) -> Result<T, E>,
    ) -> Result<T> {
        let done = match path {
            [] => Err(Failure::new(Errno::NOENT, "the path is empty")),
            _ => self.with(work),
        };
        done.map_err(|failure| failure.at(path))
    }

    /// Closes the volume; waits for calls of other threads.
    pub(crate) fn close(&self) -> Result<()> {
        self.process.check("volume")?;
        let mut volume = self.volume.write().unwrap_or_else(PoisonError::into_inner);
        match volume.take() {
            Some(volume) => Ok(volume.close()?),
            None => Ok(()),
        }
    }

    /// Returns the chosen fields of a new inode.
    pub(crate) fn new_inode(&self, mode: u32) -> NewInode {
        NewInode {
            permissions: (mode & 0o7777) as u16,
            umask: 0,
            uid: self.owner.0,
            gid: self.owner.1,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // Another thread may have held a lock of the engine when the process was forked.
            let volume = self.volume.get_mut();
            std::mem::forget(volume.unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
