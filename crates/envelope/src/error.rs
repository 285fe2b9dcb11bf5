//! Errors of envelopes.

use std::io;

/// An error of an envelope.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{what}: {cause}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The host's error.
        cause: io::Error,
    },
    /// The caller has ended the work.
    #[error("the call was interrupted")]
    Stopped,
    /// A parameter is out of range.
    #[error("{0}")]
    Invalid(&'static str),
    /// The partition table cannot be written.
    #[error("the partition table: {0}")]
    Partition(String),
}

impl Error {
    /// Returns a function that adds an operation to an error of the host.
    pub(crate) fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |cause| Self::Io { what, cause }
    }
}
