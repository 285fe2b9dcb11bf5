//! [`Verdict`]: what became of a claim, and [`Tally`]: how many came out how.
//!
//! | claim | reproduced | not reproduced |
//! |---|---|---|
//! | higher | the ratio is certainly above 1, and its size agrees | it is certainly below 1 |
//! | about the same | the ratio certainly differs by less than a share | by more |
//! | within limits | the mean is certainly within | certainly outside |
//!
//! *Certainly* is by the 95 % interval over repetitions; what is not certain is undecided, and so
//! is every claim of single trials. The size agrees where the logarithm of our ratio is between
//! half and double that of the published one; a claim whose size does not is reproduced in its
//! direction only. A source that gives no figures claims a direction, and has it reproduced.

use std::ops::AddAssign;

use crate::statistics::paired::LogRatio;
use crate::statistics::{Interval, Mean};

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Our figures agree with the claim.
    Reproduced,
    /// The direction is the same here; the size of the difference is less than half or more than
    /// double.
    DirectionOnly,
    /// It is not so here.
    NotReproduced,
    /// It was run, and the difference may be chance.
    Undecided,
    /// Nothing was run that decides it.
    NotRun,
}

/// The number of claims with each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of reproduced claims.
    pub reproduced: usize,
    /// In direction only.
    pub direction_only: usize,
    /// Otherwise.
    pub not_reproduced: usize,
    /// Run, and not decided.
    pub undecided: usize,
    /// Not run.
    pub not_run: usize,
}

impl Verdict {
    /// All verdicts, in the order of a table.
    pub const ALL: [Self; 5] = [
        Self::Reproduced,
        Self::DirectionOnly,
        Self::NotReproduced,
        Self::Undecided,
        Self::NotRun,
    ];

    /// Judges a claim that one figure is higher than another, from their ratio here and the ratio
    /// where it was published, if it was.
    pub(super) fn of_order(ours: Option<LogRatio>, published: Option<f64>) -> Self {
        let Some(ours) = ours else {
            return Self::NotRun;
        };
        let Some(interval) = ours.interval.filter(|interval| !interval.contains(0.0)) else {
            return Self::Undecided;
        };
        if interval.high < 0.0 {
            return Self::NotReproduced;
        }
        let size = published.map(|ratio| ours.mean / libm::log(ratio));
        match size.is_none_or(|size| (0.5..=2.0).contains(&size)) {
            true => Self::Reproduced,
            false => Self::DirectionOnly,
        }
    }

    /// Judges a claim that two figures differ by no more than a share.
    pub(super) fn of_likeness(ours: Option<LogRatio>, share: f64) -> Self {
        let limit = libm::log1p(share);
        let limits = Interval {
            low: -limit,
            high: limit,
        };
        ours.map_or(Self::NotRun, |ours| Self::within(ours.interval, limits))
    }

    /// Judges a claim that a figure lies within limits.
    pub(super) fn of_limits(ours: Option<Mean>, limits: Interval) -> Self {
        let Some(ours) = ours else {
            return Self::NotRun;
        };
        let interval = ours.half_interval.map(|half| Interval {
            low: ours.value - half,
            high: ours.value + half,
        });
        Self::within(interval, limits)
    }

    fn within(interval: Option<Interval>, limits: Interval) -> Self {
        match interval {
            Some(own) if limits.contains(own.low) && limits.contains(own.high) => Self::Reproduced,
            Some(own) if own.high < limits.low || own.low > limits.high => Self::NotReproduced,
            _ => Self::Undecided,
        }
    }

    /// Returns the verdict as text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::DirectionOnly => "direction only",
            Self::NotReproduced => "not reproduced",
            Self::Undecided => "undecided",
            Self::NotRun => "not run here",
        }
    }
}

impl Tally {
    /// Returns the number of claims that were run here, decided or not.
    #[must_use]
    pub fn run(self) -> usize {
        self.reproduced + self.direction_only + self.not_reproduced + self.undecided
    }

    /// Returns the number of claims with a verdict.
    #[must_use]
    pub fn of(self, verdict: Verdict) -> usize {
        match verdict {
            Verdict::Reproduced => self.reproduced,
            Verdict::DirectionOnly => self.direction_only,
            Verdict::NotReproduced => self.not_reproduced,
            Verdict::Undecided => self.undecided,
            Verdict::NotRun => self.not_run,
        }
    }
}

impl FromIterator<Verdict> for Tally {
    fn from_iter<I: IntoIterator<Item = Verdict>>(verdicts: I) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            let count = match verdict {
                Verdict::Reproduced => &mut tally.reproduced,
                Verdict::DirectionOnly => &mut tally.direction_only,
                Verdict::NotReproduced => &mut tally.not_reproduced,
                Verdict::Undecided => &mut tally.undecided,
                Verdict::NotRun => &mut tally.not_run,
            };
            *count += 1;
        }
        tally
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.reproduced += other.reproduced;
        self.direction_only += other.direction_only;
        self.not_reproduced += other.not_reproduced;
        self.undecided += other.undecided;
        self.not_run += other.not_run;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn ratio(top: &[f64], bottom: &[f64]) -> Option<LogRatio> {
        let by =
            |values: &[f64]| -> BTreeMap<u32, f64> { (0..).zip(values.iter().copied()).collect() };
        LogRatio::of(&by(top), &by(bottom))
    }

    #[test]
    fn direction_and_size_decide() {
        let base = [10.0, 11.0, 12.0];
        let by = |factor: f64| ratio(&base.map(|value| value * factor), &base);
        for (factor, published, expected) in [
            (1.2, Some(1.2), Verdict::Reproduced),
            (1.2, Some(1.4), Verdict::Reproduced),
            (1.2, Some(1.5), Verdict::DirectionOnly),
            (1.2, Some(1.09), Verdict::DirectionOnly),
            (1.2, None, Verdict::Reproduced),
            (0.9, Some(1.2), Verdict::NotReproduced),
            (1.0, Some(1.2), Verdict::Undecided),
        ] {
            assert_eq!(
                Verdict::of_order(by(factor), published),
                expected,
                "{factor} {published:?}"
            );
        }
        assert_eq!(
            Verdict::of_order(ratio(&[2.0], &[1.0]), None),
            Verdict::Undecided
        );
        assert_eq!(Verdict::of_order(None, None), Verdict::NotRun);
    }

    #[test]
    fn what_may_be_chance_is_undecided() {
        let noisy = ratio(&[10.0, 30.0, 50.0], &[12.0, 20.0, 60.0]);
        assert_eq!(Verdict::of_order(noisy, None), Verdict::Undecided);
        assert_eq!(Verdict::of_likeness(noisy, 0.05), Verdict::Undecided);
        let alike = ratio(&[10.0, 30.1, 50.0], &[10.0, 30.0, 50.0]);
        assert_eq!(Verdict::of_likeness(alike, 0.05), Verdict::Reproduced);
        let apart = ratio(&[12.0, 36.1, 60.0], &[10.0, 30.0, 50.0]);
        assert_eq!(Verdict::of_likeness(apart, 0.05), Verdict::NotReproduced);
    }
}
