//! [`RunError`]: why a run of a workload failed.

use crate::error::TargetError;
use crate::parameter::ParameterError;

/// Why a run failed. Its files were removed as far as the target allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The target could not do what it was asked.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A parameter makes no sense.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The bytes to write from need more memory than there is.
    #[error("failed to allocate source file of size {bytes}")]
    NoMemory {
        /// Their number.
        bytes: u64,
    },
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
    /// A file does not hold what was written to it.
    #[error("{path} does not hold what was written to it, from byte {offset} on")]
    WrongContents {
        /// The file.
        path: String,
        /// Where the first wrong byte is.
        offset: u64,
    },
    /// The names or attributes of a tree are not what they must be.
    #[error("{path}: {fact}")]
    WrongTree {
        /// Where.
        path: String,
        /// What is wrong.
        fact: String,
    },
    /// The target wrote nothing and reported no error.
    #[error("the target wrote nothing to {path}")]
    WroteNothing {
        /// The file.
        path: String,
    },
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
