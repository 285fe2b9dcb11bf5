//! Findings of an exploration: counts of what was tried, and a violation.

use crate::cut::Cut;
use crate::explore::silent::SilentTally;
use crate::rule::{Broken, Rule, RuleCounts};
use crate::run_error::RunError;

/// Counts of what was tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Workloads explored.
    pub workloads: u64,
    /// Moments at which the power was cut.
    pub moments: u64,
    /// Images that were recovered, checked and compared in full; each differs from all others of
    /// its workload.
    pub recovered: u64,
    /// Images that were equal to one of those.
    pub equal: u64,
    /// Comparisons of a recovered tree with what was promised at a moment.
    pub compared: u64,
    /// Recoveries that were interrupted and repeated.
    pub nested: u64,
    /// Volumes that were used and emptied.
    pub used: u64,
    /// Recoveries that were done twice.
    pub repeated: u64,
    /// Runs and recoveries in which commands have failed.
    pub failed: u64,
    /// Images that e2fsck looked at.
    pub e2fsck: u64,
    /// Images whose log was damaged.
    pub damaged: u64,
    /// Blocks that were changed silently, and how that was noticed.
    pub silent: SilentTally,
    /// Number of times that each rule was exercised.
    pub rules: RuleCounts,
}

/// A violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The broken rule.
    pub broken: Broken,
    /// The power cuts: in the run, in its recovery, in the recovery of that.
    pub cuts: Vec<Cut>,
}

impl Found {
    /// The violation of a workload that could not be run.
    pub(crate) fn run(error: &RunError) -> Self {
        let broken = match error {
            RunError::Broken(broken) => broken.clone(),
            RunError::Stuck(what) => Broken::new(Rule::C1, what.clone()),
            _ => Broken::new(Rule::U1, error.to_string()),
        };
        let cuts = Vec::new();
        Self { broken, cuts }
    }
}

impl core::ops::AddAssign<&Self> for Tally {
    fn add_assign(&mut self, other: &Self) {
        self.workloads += other.workloads;
        self.moments += other.moments;
        self.recovered += other.recovered;
        self.equal += other.equal;
        self.compared += other.compared;
        self.nested += other.nested;
        self.used += other.used;
        self.repeated += other.repeated;
        self.failed += other.failed;
        self.e2fsck += other.e2fsck;
        self.damaged += other.damaged;
        self.silent += &other.silent;
        self.rules += &other.rules;
    }
}
