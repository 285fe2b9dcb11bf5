//! [`PlanError`]: what is wrong with a plan, and on which line.

/// Something wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct PlanError {
    /// The file, or the name of a plan that is built in.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, in one line.
    pub message: String,
}
