//! Statistics of samples: means with intervals, effects, saturation, and tests of their validity.
//!
//! | question | module | source |
//! |---|---|---|
//! | how sure is a mean? | [`student`] | "Student" 1908 |
//! | how sure is anything else? | [`bootstrap`] | Efron 1987 (BCa) |
//! | are two samples different? | [`rank`] | Mann and Whitney 1947; for several, Holm 1979 |
//! | by how much, in pairs? where does one more run lie? | [`paired`] | "Student" 1908; Hahn 1969 |
//! | by how much? | [`effect`] | ratio of means with its BCa interval; Cliff 1993 |
//! | are there enough trials? | [`stopping`] | Chow and Robbins 1965 |
//! | from which level on does more not help? | [`saturation`] | Satopää et al. 2011 (Kneedle) |
//! | did the machine change? | [`series`] | Mann 1945; Kendall; White 1997; Iglewicz 1993 |
//!
//! All functions are pure; those that use random numbers take a seed. `tests/statistics/vectors.py`
//! makes the test vectors with SciPy and statsmodels.
//!
//! Mean and standard deviation of a sample (n - 1): D. E. Knuth, The Art of Computer Programming 2,
//! section 4.2.2, in two passes.

pub mod bootstrap;
pub mod effect;
mod normal;
pub mod paired;
pub mod rank;
pub mod saturation;
pub mod series;
pub mod stopping;
pub mod student;
#[cfg(test)]
mod vectors;

pub use student::student_quantile;

/// The two-sided confidence of an interval.
pub const CONFIDENCE: f64 = 0.95;
/// The complement of [`CONFIDENCE`]: a test with a p-value below it is significant.
pub const SIGNIFICANCE: f64 = 1.0 - CONFIDENCE;

/// Values of one figure, none of them NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    // Invariant: at least one value, all finite; `new` checks it.
    values: Vec<f64>,
}

/// A mean with its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// The standard deviation of the sample; `None` for a single value.
    pub deviation: Option<f64>,
    /// Half of the 95 % interval; `None` for a single value.
    pub half_interval: Option<f64>,
    /// Number of values.
    pub count: usize,
}

/// An interval, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Returns true if a value lies in it.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

impl Sample {
    /// Creates a sample; `None` if there is no value or one is not finite.
    #[must_use]
    pub fn new(values: Vec<f64>) -> Option<Self> {
        let is_good = !values.is_empty() && values.iter().all(|value| value.is_finite());
        is_good.then_some(Self { values })
    }

    /// Returns the values in their original order.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> usize {
        self.values.len()
    }

    /// Returns the mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        mean(&self.values)
    }

    /// Returns the standard deviation; `None` for a single value.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        self.deviation_from(self.mean())
    }

    fn deviation_from(&self, mean: f64) -> Option<f64> {
        let freedom = self
            .values
            .len()
            .checked_sub(1)
            .filter(|freedom| *freedom > 0)?;
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        Some((squares / freedom as f64).sqrt())
    }

    /// Returns the mean with its interval.
    #[must_use]
    pub fn describe(&self) -> Mean {
        let mean = self.mean();
        let deviation = self.deviation_from(mean);
        let half_interval = deviation.map(|deviation| {
            let quantile = student_quantile((self.values.len() - 1) as u32);
            quantile * deviation / (self.values.len() as f64).sqrt()
        });
        Mean {
            value: mean,
            deviation,
            half_interval,
            count: self.count(),
        }
    }
}

impl Mean {
    /// Returns half of the interval relative to the mean; `None` without an interval, or if the
    /// mean is zero and the interval is not.
    #[must_use]
    pub fn relative_half(&self) -> Option<f64> {
        match self.half_interval? {
            0.0 => Some(0.0),
            half => (self.value != 0.0).then(|| half / self.value.abs()),
        }
    }
}

/// Returns the mean of at least one value.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the median of at least one value.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 5e-4, "{found} is not {wanted}");
    }

    /// Checks Michelson's first twenty measurements of the speed of light in 1879, minus 299000
    /// km/s.
    #[test]
    fn a_known_sample() {
        let values = [
            850, 740, 900, 1070, 930, 850, 950, 980, 980, 880, 1000, 980, 930, 650, 760, 810, 1000,
            1000, 960, 960,
        ];
        let sample = Sample::new(values.iter().map(|value| f64::from(*value)).collect());
        let mean = sample.expect("it is a sample").describe();
        near(mean.value, 909.0);
        near(mean.deviation.expect("twenty values"), 104.926_04);
        near(mean.half_interval.expect("twenty values"), 49.106_8);
    }

    #[test]
    fn degenerate_samples() {
        assert_eq!(Sample::new(Vec::new()), None);
        assert_eq!(Sample::new(vec![1.0, f64::NAN]), None);
        let one = Sample::new(vec![3.0]).expect("one value").describe();
        assert_eq!(
            (one.value, one.deviation, one.half_interval, one.count),
            (3.0, None, None, 1)
        );
        assert_eq!(one.relative_half(), None);
        let same = Sample::new(vec![2.0, 2.0]).expect("two values").describe();
        assert_eq!((same.deviation, same.half_interval), (Some(0.0), Some(0.0)));
        assert_eq!(same.relative_half(), Some(0.0));
        let around_zero = Sample::new(vec![-1.0, 1.0]).expect("two values").describe();
        assert_eq!(around_zero.relative_half(), None);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[3.0, 1.0]), 2.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
    }
}
