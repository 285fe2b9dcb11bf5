//! [`PlanError`]: an error in a plan, with its file and line. [`Spot`]: a position in a file.

use std::sync::Arc;

/// An error in a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct PlanError {
    /// The file: the plan's, or that of its base.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The fault, in one line.
    pub message: String,
}

/// A line of a file. The settings of a plan can come from the file of its base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl PlanError {
    /// Creates an error at a position, in one line even if a library reports several.
    pub(crate) fn at(spot: &Spot, message: &str) -> Self {
        Self {
            file: spot.file.to_string(),
            line: spot.line,
            message: message.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}
