//! The state that a volume and its open files share.

use std::mem;
use std::sync::{PoisonError, RwLock};

use pyo3::prelude::*;

use crate::errors::Failure;
use crate::object_device::Raised;
use crate::paths::VolumePath;

/// An open volume, and the process that it belongs to.
pub(crate) struct Shared {
    // [lock] Held for reading during calls, for writing by `close`; taken with the GIL released.
    volume: RwLock<Option<jext::Volume>>,
    /// The process that opened it. The threads of the engine do not exist in a forked one.
    process: u32,
    /// The exceptions of a device that is a Python object.
    raised: Option<Raised>,
}

impl Shared {
    /// Takes a volume that was just opened.
    pub(crate) fn new(volume: jext::Volume, raised: Option<Raised>) -> Self {
        Self {
            volume: RwLock::new(Some(volume)),
            process: std::process::id(),
            raised,
        }
    }

    /// Calls `work` with the volume and the GIL released. An exception names `path`.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        path: Option<&VolumePath>,
        work: impl FnOnce(&jext::Volume) -> jext::Result<T> + Send,
    ) -> PyResult<T> {
        self.check_process(py)?;
        let done = py.detach(|| {
            let volume = self.volume.read().unwrap_or_else(PoisonError::into_inner);
            match &*volume {
                Some(volume) => work(volume).map_err(Failure::from),
                None => Err(Failure::Closed),
            }
        });
        done.map_err(|failure| self.exception(py, failure, path))
    }

    /// Calls `work` with the bytes of a path.
    pub(crate) fn call_at<T: Send>(
        &self,
        py: Python<'_>,
        path: &VolumePath,
        work: impl FnOnce(&jext::Volume, &[u8]) -> jext::Result<T> + Send,
    ) -> PyResult<T> {
        let bytes = path.bytes();
        self.call(py, Some(path), |volume| match bytes {
            [] => Err(jext::Error::NotFound),
            bytes => work(volume, bytes),
        })
    }

    /// Closes the volume; waits for calls of other threads. Does nothing if it is closed, or in a
    /// forked process.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_own() {
            return Ok(());
        }
        let closed = py.detach(|| {
            let mut volume = self.volume.write().unwrap_or_else(PoisonError::into_inner);
            match volume.take() {
                Some(volume) => volume.close().map_err(Failure::from),
                None => Ok(()),
            }
        });
        closed.map_err(|failure| self.exception(py, failure, None))
    }

    /// Returns true if the volume was closed, or belongs to another process.
    pub(crate) fn is_closed(&self, py: Python<'_>) -> bool {
        !self.is_own()
            || py.detach(|| {
                let volume = self.volume.read().unwrap_or_else(PoisonError::into_inner);
                volume.is_none()
            })
    }

    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        match self.is_own() {
            true => Ok(()),
            false => Err(Failure::OtherProcess(self.process).into_exception(py, None)),
        }
    }

    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Returns the exception of a failed call. Its cause is what a Python object has raised.
    fn exception(&self, py: Python<'_>, failure: Failure, path: Option<&VolumePath>) -> PyErr {
        let is_of_engine = matches!(failure, Failure::Engine(_));
        let exception = failure.into_exception(py, path);
        if is_of_engine {
            set_cause(py, &exception, self.raised.as_ref());
        }
        exception
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.is_own() {
            // Another thread may have held a lock of the engine when the process was forked.
            let volume = self.volume.get_mut();
            mem::forget(volume.unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

/// Makes the newest exception of a Python object the cause of another.
pub(crate) fn set_cause(py: Python<'_>, exception: &PyErr, raised: Option<&Raised>) {
    let Some(raised) = raised else {
        return;
    };
    // The lock is held for memory work only.
    let newest = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    if newest.is_some() {
        exception.set_cause(py, newest);
    }
}
