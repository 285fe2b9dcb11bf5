//! [`RunError`]: the error of a workload that could not be run to its end.

use crate::rule::Broken;

/// The error of a workload that could not be run to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// An unexpected failure of an operation.
    #[error("{op} failed: {error}")]
    Operation {
        /// The operation.
        op: String,
        /// The error.
        error: String,
    },
    /// The volume could not be opened or closed.
    #[error("the volume could not be opened or closed: {0}")]
    Volume(String),
    /// A call of a crowd broke a rule.
    #[error("{0}")]
    Broken(Broken),
    /// Calls wait for each other, or do not return.
    #[error("{0}")]
    Stuck(String),
    /// The world ended with a panic.
    #[error("{0}")]
    World(String),
}
