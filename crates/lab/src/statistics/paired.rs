//! Ratios of figures that belong together in pairs.
//!
//! Repetition *i* of two rows meets the same chance, so that what it costs both drops out of their
//! ratio. The logarithms of the ratios are taken as normal: their mean is the logarithm of the
//! geometric mean ratio, with the interval and the test of "Student" 1908 for differences of pairs.
//! A ratio and its reciprocal are then equally far from 1.

use std::collections::BTreeMap;

use super::student::{student_quantile, student_tails};
use super::{Interval, Sample};

/// Values of one figure by the repetition that they come from.
pub type ByRepetition = BTreeMap<u32, f64>;

/// The mean logarithm of the ratios of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogRatio {
    /// The mean.
    pub mean: f64,
    /// Its 95 % interval, if there are two pairs.
    pub interval: Option<Interval>,
    /// The two-sided p-value of a mean of zero, if there are two pairs.
    pub p: Option<f64>,
    /// Number of pairs.
    pub pairs: usize,
}

impl LogRatio {
    /// Returns the ratio of `top` over `bottom`, from the repetitions that both have; `None`
    /// without one, or if a value is not above zero.
    #[must_use]
    pub fn of(top: &ByRepetition, bottom: &ByRepetition) -> Option<Self> {
        let pairs = top
            .iter()
            .filter_map(|(repetition, value)| Some((*value, *bottom.get(repetition)?)));
        let logs: Vec<f64> = pairs
            .map(|(top, bottom)| libm::log(top) - libm::log(bottom))
            .collect();
        let sample = Sample::new(logs)?;
        let described = sample.describe();
        let interval = described.half_interval.map(|half| Interval {
            low: described.value - half,
            high: described.value + half,
        });
        let p = described.deviation.map(|deviation| {
            let error = deviation / (sample.count() as f64).sqrt();
            match (described.value == 0.0, error == 0.0) {
                (true, _) => 1.0,
                (false, true) => 0.0,
                (false, false) => {
                    let freedom = (sample.count() - 1) as u32;
                    student_tails((described.value / error).abs(), freedom)
                }
            }
        });
        Some(Self {
            mean: described.value,
            interval,
            p,
            pairs: sample.count(),
        })
    }

    /// Returns the ratio minus one: 0.17 is 17 % more.
    #[must_use]
    pub fn share(&self) -> f64 {
        share(self.mean)
    }

    /// Returns the interval of the ratio minus one.
    #[must_use]
    pub fn share_interval(&self) -> Option<Interval> {
        self.interval.map(|logs| Interval {
            low: share(logs.low),
            high: share(logs.high),
        })
    }
}

/// Returns the ratio with this logarithm, minus one.
fn share(log: f64) -> f64 {
    libm::expm1(log)
}

/// Returns the half width of the interval in which the logarithm of one more value lies with 95 %;
/// `None` for a single value, or if one is not above zero.
///
/// Source: G. J. Hahn, Factors for Calculating Two-Sided Prediction Intervals for Samples from a
/// Normal Distribution, Journal of the American Statistical Association 64, 1969.
#[must_use]
pub fn prediction(sample: &Sample) -> Option<Interval> {
    let logs = sample.values().iter().map(|value| libm::log(*value));
    let logs = Sample::new(logs.collect())?;
    let count = logs.count() as f64;
    let half = student_quantile(u32::try_from(logs.count() - 1).ok().filter(|n| *n > 0)?)
        * logs.deviation()?
        * (1.0 + 1.0 / count).sqrt();
    let mean = logs.mean();
    Some(Interval {
        low: libm::exp(mean - half),
        high: libm::exp(mean + half),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(values: &[f64]) -> ByRepetition {
        (0..).zip(values.iter().copied()).collect()
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-4, "{found} is not {wanted}");
    }

    /// "Student" 1908, table of the additional hours of sleep by two drugs, as sleep lost: the
    /// differences of pairs have mean 1.58 and deviation 1.23, t = 4.0621, p = 0.002833.
    #[test]
    fn the_test_of_student() {
        let first: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let ratio = LogRatio::of(&by(&second.map(f64::exp)), &by(&first.map(f64::exp)));
        let ratio = ratio.expect("all above zero");
        near(ratio.mean, 1.58);
        near(ratio.p.expect("ten pairs"), 0.002_833);
        let interval = ratio.interval.expect("ten pairs");
        near(interval.low, 0.700_114);
        near(interval.high, 2.459_886);
    }

    #[test]
    fn what_both_have_in_common_drops_out() {
        // The repetitions scatter by a factor of four, and the second is always 10 % above.
        let first = [100.0, 400.0, 200.0, 150.0];
        let second = first.map(|value| value * 1.1);
        let ratio = LogRatio::of(&by(&second), &by(&first)).expect("all above zero");
        near(ratio.share(), 0.1);
        assert!(ratio.p.expect("four pairs") < 1e-6, "{ratio:?}");
        let back = LogRatio::of(&by(&first), &by(&second)).expect("all above zero");
        near(back.mean, -ratio.mean);
    }

    #[test]
    fn degenerate_pairs() {
        let one = LogRatio::of(&by(&[2.0]), &by(&[1.0])).expect("a pair");
        assert_eq!((one.interval, one.p, one.pairs), (None, None, 1));
        near(one.share(), 1.0);
        let same = LogRatio::of(&by(&[2.0, 3.0]), &by(&[2.0, 3.0])).expect("pairs");
        assert_eq!((same.mean, same.p), (0.0, Some(1.0)));
        assert_eq!(LogRatio::of(&by(&[0.0]), &by(&[1.0])), None);
        assert_eq!(
            LogRatio::of(&by(&[1.0]), &ByRepetition::from([(7, 1.0)])),
            None
        );
        let third = ByRepetition::from([(1, 8.0), (2, 8.0)]);
        let two = LogRatio::of(&third, &by(&[1.0, 4.0])).expect("one repetition is in both");
        assert_eq!(two.pairs, 1);
    }

    #[test]
    fn one_more_value_is_less_certain_than_the_mean() {
        let sample = Sample::new(vec![90.0, 100.0, 110.0, 95.0, 105.0]).expect("a sample");
        let interval = prediction(&sample).expect("five values");
        let mean = sample.describe();
        let half = mean.half_interval.expect("five values");
        assert!(interval.low < mean.value - half && interval.high > mean.value + half);
        assert!(interval.contains(90.0) && interval.contains(110.0));
        assert_eq!(prediction(&Sample::new(vec![1.0]).expect("one")), None);
        assert_eq!(prediction(&Sample::new(vec![0.0, 1.0]).expect("two")), None);
    }
}
