//! The guard of every operation: it catches panics and converts errors to numbers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fuser::Errno;

use crate::served::Served;
use crate::wakeups::Meter;

/// The failure of an operation.
pub(super) enum Failure {
    /// An error of the file system.
    Engine(ext::Error),
    /// An error of the request.
    Request(Errno),
}

impl From<ext::Error> for Failure {
    fn from(error: ext::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Request(errno)
    }
}

/// A file system, guarded against panics.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) fs: Arc<Served>,
    /// True if an operation has panicked. Its state is lost, so that no operation runs any more.
    has_panicked: Arc<AtomicBool>,
    meter: Arc<Meter>,
}

impl Guard {
    pub(super) fn new(served: Arc<Served>) -> Self {
        Self {
            fs: served,
            has_panicked: Arc::default(),
            meter: Arc::default(),
        }
    }

    /// Returns the flag that is set when an operation has panicked.
    pub(super) fn panic_mark(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_panicked)
    }

    /// Returns the counter of requests.
    pub(crate) fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// True if an operation has panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::Acquire)
    }

    /// Runs an operation. After a panic none runs any more: its half-finished changes remain in
    /// memory, and its locks may never be released.
    pub(super) fn run<T>(
        &self,
        name: &'static str,
        operation: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        self.meter.count();
        if self.has_panicked() {
            return Err(Errno::EIO);
        }
        let result = match catch_unwind(AssertUnwindSafe(operation)) {
            Ok(result) => result,
            Err(_) => {
                tracing::error!(name, "a panic: nothing is done from here on");
                self.has_panicked.store(true, Ordering::Release);
                self.fs.abort(&format!("a panic in {name}"));
                return Err(Errno::EIO);
            }
        };
        result.map_err(|failure| match failure {
            Failure::Request(errno) => errno,
            Failure::Engine(error) => {
                let errno = Errno::from_i32(errno::of(&error));
                if errno.code() == Errno::EIO.code() || matches!(error, ext::Error::Corrupt(_)) {
                    tracing::error!(name, %error, "failed");
                } else {
                    tracing::debug!(name, %error, "refused");
                }
                errno
            }
        })
    }
}
