//! The size of the difference of two samples.
//!
//! | samples | effect | interval and test |
//! |---|---|---|
//! | in pairs: rows of one plan | geometric mean of the ratios, minus one | [`LogRatio`] |
//! | apart: two machines, two versions | ratio of the means, minus one | BCa; Mann and Whitney |
//!
//! Beside it Cliff's delta, which asks for no distribution: N. Cliff, Dominance Statistics,
//! Psychological Bulletin 114, 1993.

use super::paired::{ByRepetition, LogRatio};
use super::rank::{holm, mann_whitney};
use super::{Interval, SIGNIFICANCE, Sample, bootstrap, mean, student_quantile};
use crate::metric::Better;

/// Maximum number of values for the bootstrap. Above it the interval is that of the delta method
/// (G. Casella and R. Berger, Statistical Inference, 5.5.4): the bootstrap would take seconds and
/// correct a thousandth of the interval.
const BOOTSTRAP_VALUES_MAX: usize = 1000;

/// The difference of a sample from a baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// The ratio minus one: 0.17 is 17 % more.
    pub share: f64,
    /// Its 95 % interval, if there are two values or pairs.
    pub interval: Option<Interval>,
    /// The p-value of no difference, if there are two values or pairs.
    pub p: Option<f64>,
    /// Cliff's delta: 1 if all values are above all of the baseline's, -1 if all are below.
    pub delta: f64,
}

/// The direction of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ratio {
    /// The sample's mean over the baseline's, if higher is better.
    OverBaseline,
    /// The baseline's mean over the sample's, if lower is better: a speed is the reciprocal of a
    /// time.
    UnderBaseline,
}

impl Ratio {
    /// Returns the direction in which a ratio above one is an improvement.
    #[must_use]
    pub fn of(better: Option<Better>) -> Self {
        match better {
            Some(Better::Lower) => Self::UnderBaseline,
            Some(Better::Higher) | None => Self::OverBaseline,
        }
    }

    /// Returns the ratio of two values, minus one; `None` if the divisor is zero.
    #[must_use]
    pub fn share(self, baseline: f64, own: f64) -> Option<f64> {
        let (top, bottom) = match self {
            Self::OverBaseline => (own, baseline),
            Self::UnderBaseline => (baseline, own),
        };
        (bottom > 0.0).then(|| top / bottom - 1.0)
    }
}

impl Effect {
    /// Returns the effect of `own` against `baseline` from the repetitions that both have; `None`
    /// without one, or if a value is not above zero.
    #[must_use]
    pub fn paired(baseline: &ByRepetition, own: &ByRepetition, ratio: Ratio) -> Option<Self> {
        let (top, bottom) = match ratio {
            Ratio::OverBaseline => (own, baseline),
            Ratio::UnderBaseline => (baseline, own),
        };
        let ratio = LogRatio::of(top, bottom)?;
        let sample = |values: &ByRepetition| Sample::new(values.values().copied().collect());
        Some(Self {
            share: ratio.share(),
            interval: ratio.share_interval(),
            p: ratio.p,
            delta: cliffs_delta(&sample(own)?, &sample(baseline)?),
        })
    }

    /// Returns the effect of `sample` against `baseline`, whose values have nothing in common;
    /// `None` where the divisor is zero.
    #[must_use]
    pub fn of(baseline: &Sample, sample: &Sample, ratio: Ratio, seed: u64) -> Option<Self> {
        let (top, bottom) = match ratio {
            Ratio::OverBaseline => (sample, baseline),
            Ratio::UnderBaseline => (baseline, sample),
        };
        let share = top.mean() / bottom.mean() - 1.0;
        if !share.is_finite() {
            return None;
        }
        let is_repeated = sample.count() > 1 && baseline.count() > 1;
        let is_large = sample.count() + baseline.count() > BOOTSTRAP_VALUES_MAX;
        let interval = match (is_repeated, is_large) {
            (false, _) => None,
            (true, false) => bootstrap::interval(&[top, bottom], gain, seed),
            (true, true) => delta_interval(top, bottom),
        };
        Some(Self {
            share,
            interval,
            p: is_repeated.then(|| mann_whitney(sample, baseline).p),
            delta: cliffs_delta(sample, baseline),
        })
    }

    /// Returns true if the difference is more than chance. Single values decide nothing: their
    /// spread is unknown, also in a simulated world, where each is exact.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.p.is_some_and(|p| p < SIGNIFICANCE)
    }

    /// Corrects the p-values of effects that stand in one table, by Holm.
    pub fn correct<'e>(effects: impl Iterator<Item = &'e mut Self>) {
        let mut tests: Vec<&mut f64> = effects.filter_map(|own| own.p.as_mut()).collect();
        let corrected = holm(&tests.iter().map(|p| **p).collect::<Vec<_>>());
        for (p, corrected) in tests.iter_mut().zip(corrected) {
            **p = corrected;
        }
    }
}

fn cliffs_delta(sample: &Sample, baseline: &Sample) -> f64 {
    let pairs = (sample.count() * baseline.count()) as f64;
    2.0 * mann_whitney(sample, baseline).u / pairs - 1.0
}

/// The interval of the ratio of the means of large samples, minus one.
fn delta_interval(top: &Sample, bottom: &Sample) -> Option<Interval> {
    let variance = |sample: &Sample| {
        let relative = sample.deviation()? / sample.mean();
        Some(relative.powi(2) / sample.count() as f64)
    };
    let ratio = top.mean() / bottom.mean();
    let error = ratio.abs() * (variance(top)? + variance(bottom)?).sqrt();
    let freedom = u32::try_from(top.count() + bottom.count() - 2).unwrap_or(u32::MAX);
    let half = student_quantile(freedom) * error;
    half.is_finite().then_some(Interval {
        low: ratio - 1.0 - half,
        high: ratio - 1.0 + half,
    })
}

/// Returns the ratio of two means, minus one.
fn gain(samples: &[&[f64]]) -> f64 {
    mean(samples[0]) / mean(samples[1]) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.to_vec()).expect("a sample")
    }

    fn effect(baseline: &[f64], own: &[f64], ratio: Ratio) -> Option<Effect> {
        Effect::of(&sample(baseline), &sample(own), ratio, 1)
    }

    #[test]
    fn a_clear_effect_is_certain_and_a_small_one_is_not() {
        let base = [100.0, 101.0, 99.0, 100.5, 99.5];
        let clear = effect(&base, &[80.0, 81.0, 79.0, 80.5, 79.5], Ratio::UnderBaseline);
        let clear = clear.expect("no zero");
        assert!((clear.share - 0.25).abs() < 1e-12);
        assert_eq!(clear.delta, -1.0, "all times are shorter");
        assert!(clear.is_certain());
        assert!(clear.p.expect("five values") < 0.01);
        let small = effect(
            &base,
            &[100.2, 99.1, 101.5, 98.9, 100.0],
            Ratio::OverBaseline,
        );
        let small = small.expect("no zero");
        assert!(
            !small.is_certain() && small.p.expect("five values") > 0.5,
            "{small:?}"
        );
    }

    #[test]
    fn both_intervals_agree_on_large_samples() {
        let wave = |count: u32, middle: f64| -> Vec<f64> {
            (0..count)
                .map(|step| middle + f64::from(step * 37 % 101) / 20.0)
                .collect()
        };
        let (small, large) = (wave(450, 50.0), wave(450, 60.0));
        let (base, own) = (sample(&small), sample(&large));
        let bootstrapped = bootstrap::interval(&[&own, &base], gain, 1).expect("450 values");
        let delta = delta_interval(&own, &base).expect("450 values");
        let width = delta.high - delta.low;
        assert!(
            (bootstrapped.low - delta.low).abs() < 0.1 * width,
            "{bootstrapped:?} {delta:?}"
        );
        assert!(
            (bootstrapped.high - delta.high).abs() < 0.1 * width,
            "{bootstrapped:?} {delta:?}"
        );
    }

    #[test]
    fn degenerate_samples() {
        let single = effect(&[100.0], &[50.0], Ratio::UnderBaseline).expect("no zero");
        assert_eq!((single.share, single.interval, single.p), (1.0, None, None));
        assert!(!single.is_certain(), "one trial decides nothing");
        assert_eq!(effect(&[1.0], &[0.0], Ratio::UnderBaseline), None);
        assert_eq!(effect(&[0.0], &[1.0], Ratio::OverBaseline), None);
        let one_sided = effect(&[100.0, 102.0], &[50.0], Ratio::UnderBaseline).expect("no zero");
        assert!(!one_sided.is_certain(), "one value has no spread");
    }
}
