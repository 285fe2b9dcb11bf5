//! [`Policy`]: the choice of the next task.

/// A policy that chooses between ready tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// First come, first served by virtual time: for measurements. Locks are handed over in order.
    Fair,
    /// Any ready task, possibly another one at every point: for races.
    Random,
    /// Priorities that change at `depth` points: finds bugs that need few, badly placed switches.
    Pct {
        /// Number of times that a running task loses its priority.
        depth: u32,
    },
    /// The default choice, except for these decisions.
    Replay(Vec<Decision>),
}

/// A choice other than the default. Removing decisions from a list gives a schedule with fewer
/// switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decision {
    /// Number of the choice in the run, counting from 1.
    pub at: u64,
    /// Option chosen; 0 is the default.
    pub choice: u32,
}

impl Policy {
    /// True if points may switch tasks.
    pub(crate) fn is_hostile(&self) -> bool {
        !matches!(self, Self::Fair)
    }
}
