//! [`RunError`]: a workload could not be run to its end.

use crate::rule::Broken;

/// A workload could not be run to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// An operation failed that should not.
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
    /// The world ended badly: a panic.
    #[error("{0}")]
    World(String),
}
