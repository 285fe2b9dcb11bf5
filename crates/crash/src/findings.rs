//! Findings of an exploration: counts of what was tried, and a violation.

use crate::cut::Cut;
use crate::explore::silent::SilentTally;
use crate::rule::{Broken, Rule, RuleCounts};
use crate::run_error::RunError;

/// Counts of what was tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of workloads explored.
    pub workloads: u64,
    /// Number of moments at which the power was cut.
    pub moments: u64,
    /// Number of images that were recovered, checked and compared in full; each differs from all
    /// others of its workload.
    pub recovered: u64,
    /// Number of images that were equal to one of those, or to one of a workload of its family.
    pub equal: u64,
    /// Number of comparisons of a recovered tree with the promises at a moment.
    pub compared: u64,
    /// Number of recoveries that were interrupted and repeated.
    pub nested: u64,
    /// Number of volumes that were used and emptied.
    pub used: u64,
    /// Number of repeated recoveries.
    pub repeated: u64,
    /// Number of runs and recoveries in which commands failed.
    pub failed: u64,
    /// Number of images checked by e2fsck.
    pub e2fsck: u64,
    /// Number of images whose log was damaged.
    pub damaged: u64,
    /// Numbers of blocks that were changed silently, by detector.
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
    /// Returns the violation of a workload that could not be run.
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
