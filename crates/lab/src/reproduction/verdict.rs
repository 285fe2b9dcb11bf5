//! [`Verdict`]: what became of a claim, and [`Tally`]: how many came out how.
//!
//! | claim | reproduced | not reproduced |
//! |---|---|---|
//! | higher | the ratio is certainly above 1, and its size agrees | it is below 1, or too small |
//! | about the same | the ratio certainly differs by less than a share | by more |
//! | within limits | the mean is certainly within | certainly outside |
//!
//! *Certainly* is by the 95 % interval over repetitions; what is not certain is undecided, and so
//! is every claim of single trials. The size agrees where the logarithm of our ratio is between
//! half of the lowest and double of the highest published one; a claim whose size does not is
//! reproduced in its direction only. A ratio that may be 1 is too small if the whole interval is
//! below half of the published one: then it is known that the difference is not there. A source
//! that gives no figures claims a direction, and has it reproduced.
//!
//! A claim that is not reproduced is *explained* if it is reproduced with one input changed to a
//! value that a source gives. A claim about a disk that was run in memory is not decided at all.

use std::ops::AddAssign;

use crate::plan::Size;
use crate::statistics::paired::LogRatio;
use crate::statistics::{Interval, Mean};

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Our figures agree with the claim.
    Reproduced,
    /// They agree with one input changed to a value that a source gives.
    Explained,
    /// The direction is the same here; the size of the difference is less than half or more than
    /// double.
    DirectionOnly,
    /// It is not so here.
    NotReproduced,
    /// It was run, and the difference may be chance.
    Undecided,
    /// It is about a disk, and was run in memory.
    InMemory,
    /// Nothing was run that decides it.
    NotRun,
}

/// The number of claims with each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally([usize; Verdict::ALL.len()]);

impl Verdict {
    /// All verdicts, in the order of a table.
    pub const ALL: [Self; 7] = [
        Self::Reproduced,
        Self::Explained,
        Self::DirectionOnly,
        Self::NotReproduced,
        Self::Undecided,
        Self::InMemory,
        Self::NotRun,
    ];

    /// Judges a claim that one figure is higher than another, from their ratio here and the ratio
    /// where it was published, if it was.
    pub(super) fn of_order(ours: Option<LogRatio>, published: Option<Size>) -> Self {
        let Some(ours) = ours else {
            return Self::NotRun;
        };
        let Some(interval) = ours.interval else {
            return Self::Undecided;
        };
        let half = published.map_or(0.0, |size| 0.5 * libm::log(size.least));
        if interval.high < 0.0 || interval.low <= 0.0 && interval.high < half {
            return Self::NotReproduced;
        }
        if interval.contains(0.0) {
            return Self::Undecided;
        }
        let agrees = |size: Size| {
            let (least, most) = (libm::log(size.least), libm::log(size.most));
            (0.5 * least..=2.0 * most).contains(&ours.mean)
        };
        match published.is_none_or(agrees) {
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
            Self::Explained => "explained",
            Self::DirectionOnly => "direction only",
            Self::NotReproduced => "not reproduced",
            Self::Undecided => "undecided",
            Self::InMemory => "in memory",
            Self::NotRun => "not run here",
        }
    }

    /// Returns true if something was run that could decide the claim.
    #[must_use]
    pub fn is_run(self) -> bool {
        !matches!(self, Self::InMemory | Self::NotRun)
    }
}

impl Tally {
    /// Returns the number of claims that were run here, decided or not.
    #[must_use]
    pub fn run(self) -> usize {
        let run = Verdict::ALL.into_iter().filter(|verdict| verdict.is_run());
        run.map(|verdict| self.of(verdict)).sum()
    }

    /// Returns the number of claims with a verdict.
    #[must_use]
    pub fn of(self, verdict: Verdict) -> usize {
        self.0[verdict as usize]
    }
}

impl FromIterator<Verdict> for Tally {
    fn from_iter<I: IntoIterator<Item = Verdict>>(verdicts: I) -> Self {
        let mut tally = Self::default();
        for verdict in verdicts {
            tally.0[verdict as usize] += 1;
        }
        tally
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        let counts = self.0.iter_mut().zip(other.0);
        counts.for_each(|(own, more)| *own += more);
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
            (1.0, Some(1.2), Verdict::NotReproduced),
            (1.0, None, Verdict::Undecided),
        ] {
            assert_eq!(
                Verdict::of_order(by(factor), published.map(Size::from)),
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
        for (published, expected) in [(2.0, Verdict::Undecided), (1e6, Verdict::NotReproduced)] {
            let found = Verdict::of_order(noisy, Some(Size::from(published)));
            assert_eq!(found, expected, "{published}");
        }
        assert_eq!(Verdict::of_likeness(noisy, 0.05), Verdict::Undecided);
        let alike = ratio(&[10.0, 30.1, 50.0], &[10.0, 30.0, 50.0]);
        assert_eq!(Verdict::of_likeness(alike, 0.05), Verdict::Reproduced);
        let apart = ratio(&[12.0, 36.1, 60.0], &[10.0, 30.0, 50.0]);
        assert_eq!(Verdict::of_likeness(apart, 0.05), Verdict::NotReproduced);
    }
}
