//! Why a run of PostMark failed.

use super::parameters::ParameterError;
use crate::error::TargetError;

/// Why a run failed. Its files were removed as far as the target allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostMarkError {
    /// The target could not do what it was asked.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A parameter makes no sense.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A file ended before the size that was written to it.
    #[error("{path} ends after {got} of {expected} bytes")]
    ShortFile {
        /// The file.
        path: String,
        /// How many bytes were written to it.
        expected: u64,
        /// How many could be read.
        got: u64,
    },
    /// The target wrote nothing and reported no error.
    #[error("the target wrote nothing to {path}")]
    WroteNothing {
        /// The file.
        path: String,
    },
    /// The bytes to write from need more memory than there is.
    #[error("failed to allocate source file of size {bytes}")]
    NoMemory {
        /// How many.
        bytes: u64,
    },
    /// The options ask for something that the original cannot do.
    #[error("the original neither syncs nor has threads: use the lab form")]
    NotCompatible,
    /// Every thread needs a file of its own.
    #[error("{threads} threads cannot share {files} files")]
    Threads {
        /// How many threads.
        threads: u32,
        /// How many files.
        files: u32,
    },
    /// A stream needs a buffer.
    #[error("the stdio buffer has no bytes")]
    NoBuffer,
    /// Somebody cancelled the run.
    #[error("the run was cancelled")]
    Cancelled,
    /// A thread of the workload panicked; its files are still there.
    #[error("thread {thread} panicked")]
    Panicked {
        /// Which.
        thread: u32,
    },
}
