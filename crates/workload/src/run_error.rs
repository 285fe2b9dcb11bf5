//! [`RunError`]: causes of a failed run of a workload.

use crate::error::TargetError;
use crate::parameter::ParameterError;

/// Cause of a failed run. The files of the run were removed as far as the target allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// An operation of the target failed.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A parameter is invalid.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The memory for the bytes to write could not be allocated.
    #[error("failed to allocate source file of size {bytes}")]
    NoMemory {
        /// Number of bytes.
        bytes: u64,
    },
    /// A file is shorter than the data that was written to it.
    #[error("{path} ends after {got} of {expected} bytes")]
    ShortFile {
        /// Path of the file.
        path: String,
        /// Expected end of the data in bytes.
        expected: u64,
        /// Actual end of the data in bytes.
        got: u64,
    },
    /// The contents of a file differ from the data that was written to it.
    #[error("{path} does not hold what was written to it, from byte {offset} on")]
    WrongContents {
        /// Path of the file.
        path: String,
        /// Offset of the first wrong byte.
        offset: u64,
    },
    /// The names or attributes of a tree are not as expected.
    #[error("{path}: {fact}")]
    WrongTree {
        /// Path of the entry.
        path: String,
        /// Description of the difference.
        fact: String,
    },
    /// The target wrote nothing and reported no error.
    #[error("the target wrote nothing to {path}")]
    WroteNothing {
        /// Path of the file.
        path: String,
    },
    /// The run was cancelled through its control.
    #[error("the run was cancelled")]
    Cancelled,
    /// A thread of the workload panicked; its files still exist.
    #[error("thread {thread} panicked")]
    Panicked {
        /// Number of the thread.
        thread: u32,
    },
}
