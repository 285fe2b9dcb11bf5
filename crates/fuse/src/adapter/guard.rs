//! What stands between an operation and its answer: a panic is caught, an error becomes a number.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use fuser::Errno;

use super::Adapter;
use crate::errno;
use crate::vfs::Vfs;

/// Why an operation has no result.
pub(super) enum Failure {
    /// The file system says so.
    Engine(ext::Error),
    /// The request says so.
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

impl<V: Vfs> Adapter<V> {
    /// Does what a request asks for. After a panic nothing is done any more: what was half done stays in memory, and others
    /// would wait for what the panic has left behind.
    pub(super) fn guard<T>(
        &self,
        name: &'static str,
        operation: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        if self.has_panicked.load(Ordering::Acquire) {
            return Err(Errno::EIO);
        }
        let result = match catch_unwind(AssertUnwindSafe(operation)) {
            Ok(result) => result,
            Err(_) => {
                tracing::error!(name, "a panic: nothing is done from here on");
                self.has_panicked.store(true, Ordering::Release);
                self.vfs.abort(&format!("a panic in {name}"));
                return Err(Errno::EIO);
            }
        };
        result.map_err(|failure| match failure {
            Failure::Request(errno) => errno,
            Failure::Engine(error) => {
                let errno = errno::of(&error);
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
