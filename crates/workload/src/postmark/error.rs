//! Why a run of PostMark failed.

use super::parameters::ParameterError;
use crate::error::TargetError;
use crate::run_error::RunError;

/// Why a run failed. Its files were removed as far as the target allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostMarkError {
    /// What can happen to every workload.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A parameter makes no sense.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
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
}

impl From<TargetError> for PostMarkError {
    fn from(error: TargetError) -> Self {
        Self::Run(error.into())
    }
}
