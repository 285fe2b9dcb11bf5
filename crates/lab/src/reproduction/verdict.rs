//! [`Verdict`]: the outcome of a claim, and [`Tally`]: the number of claims with each outcome.

use std::ops::AddAssign;

use crate::statistics::Sample;
use crate::statistics::effect::{Effect, Ratio};

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Our figures agree with the claim.
    Reproduced,
    /// Our figures contradict the claim.
    NotReproduced,
    /// No run decides it.
    NotRun,
}

/// The number of claims with each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of reproduced claims.
    pub reproduced: usize,
    /// Number of claims that were not reproduced.
    pub not_reproduced: usize,
    /// Number of claims that no run decided.
    pub not_run: usize,
}

impl Verdict {
    /// Converts the outcome of a test; `None` is not run.
    pub(super) fn of(holds: Option<bool>) -> Self {
        match holds {
            Some(true) => Self::Reproduced,
            Some(false) => Self::NotReproduced,
            None => Self::NotRun,
        }
    }

    /// Returns the verdict as text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::NotReproduced => "not reproduced",
            Self::NotRun => "not run here",
        }
    }
}

impl Tally {
    /// Returns the number of decided claims.
    #[must_use]
    pub fn decided(self) -> usize {
        self.reproduced + self.not_reproduced
    }
}

impl FromIterator<Verdict> for Tally {
    fn from_iter<I: IntoIterator<Item = Verdict>>(verdicts: I) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            match verdict {
                Verdict::Reproduced => tally.reproduced += 1,
                Verdict::NotReproduced => tally.not_reproduced += 1,
                Verdict::NotRun => tally.not_run += 1,
            }
        }
        tally
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.reproduced += other.reproduced;
        self.not_reproduced += other.not_reproduced;
        self.not_run += other.not_run;
    }
}

/// Returns true if the mean of one sample is higher by more than a tie and, if there is an
/// interval, the interval confirms it.
pub(super) fn is_higher(more: &Sample, less: &Sample, tie: f64, seed: u64) -> bool {
    match Effect::of(less, more, Ratio::OverBaseline, seed) {
        Some(effect) => effect.share > tie && effect.is_certain(),
        // A mean of zero has no ratio.
        None => more.mean() > less.mean(),
    }
}
