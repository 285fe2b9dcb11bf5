//! [`PlanError`]: what is wrong with a plan, and on which line of which file. [`Spot`]: where
//! something stands.

use std::sync::Arc;

/// Something wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct PlanError {
    /// The file: the plan's, or that of the plan which it is based on.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The fault, in one line.
    pub message: String,
}

/// A line of a file. The settings of a plan can stand in the plan which it is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl PlanError {
    /// Creates the error of a fault at a spot, in one line even if a library reports several.
    pub(crate) fn at(spot: &Spot, message: &str) -> Self {
        Self {
            file: spot.file.to_string(),
            line: spot.line,
            message: message.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}
