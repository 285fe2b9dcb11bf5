//! Tests of consecutive values for changes over time.
//!
//! - [`trend`], drift: H. B. Mann, Nonparametric Tests against Trend, Econometrica 13, 1945; M. G.
//!   Kendall, Rank Correlation Methods: Kendall's tau against time, with the normal approximation
//!   and its correction for ties.
//! - [`warm_up`]: K. P. White, An Effective Truncation Heuristic for Bias Reduction in Simulation
//!   Output, Simulation 69, 1997 (MSER): the initial part is truncated so that the standard error
//!   of the mean of the rest is least.
//! - [`outliers`]: B. Iglewicz and D. Hoaglin, How to Detect and Handle Outliers, 1993: the
//!   modified z-score, by the median absolute deviation.

use super::{median, normal};

/// Minimum modified z-score of an outlier; the authors' own bound.
pub const OUTLIER_SCORE: f64 = 3.5;
/// Minimum number of values for a significant trend.
pub const TREND_COUNT_MIN: usize = 6;
/// Minimum number of values for outliers: the median absolute deviation of four is not meaningful.
pub const OUTLIER_COUNT_MIN: usize = 5;
/// 0.75 quantile of the normal distribution; it scales the median absolute deviation to a standard
/// deviation.
const MAD_SCALE: f64 = 0.674_489_750_196_081_7;

/// A trend over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Kendall's tau: 1 if values only rise, -1 if they only fall.
    pub tau: f64,
    /// The two-sided p-value.
    pub p: f64,
}

/// Returns the trend of values in time order; `None` if there are too few or all are equal.
#[must_use]
pub fn trend(values: &[f64]) -> Option<Trend> {
    if values.len() < TREND_COUNT_MIN {
        return None;
    }
    let count = values.len() as f64;
    let pairs = count * (count - 1.0) / 2.0;
    let mut sum = 0.0;
    for (index, first) in values.iter().enumerate() {
        for later in &values[index + 1..] {
            sum += match later.total_cmp(first) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Less => -1.0,
                std::cmp::Ordering::Equal => 0.0,
            };
        }
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (mut tied_pairs, mut correction) = (0.0, 0.0);
    for group in sorted.chunk_by(|a, b| a == b) {
        let size = group.len() as f64;
        tied_pairs += size * (size - 1.0) / 2.0;
        correction += size * (size - 1.0) * (2.0 * size + 5.0);
    }
    let variance = (count * (count - 1.0) * (2.0 * count + 5.0) - correction) / 18.0;
    if variance <= 0.0 {
        return None;
    }
    let z: f64 = sum / variance.sqrt();
    Some(Trend {
        tau: sum / (pairs * (pairs - tied_pairs)).sqrt(),
        p: (2.0 * normal::upper(z.abs())).min(1.0),
    })
}

/// Returns the number of initial values that belong to a warm-up: the number, at most half of all,
/// whose removal minimises the standard error of the mean.
#[must_use]
pub fn warm_up(values: &[f64]) -> usize {
    // From the back: the mean and squares of each tail follow from the previous tail's (Welford
    // 1962).
    let (mut mean, mut squares, mut count) = (0.0, 0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (index, value) in values.iter().enumerate().rev() {
        count += 1.0;
        let difference = value - mean;
        mean += difference / count;
        squares += difference * (value - mean);
        let error = squares / (count * count);
        if index <= values.len() / 2 && error <= best.0 {
            best = (error, index);
        }
    }
    best.1
}

/// Returns the indices of outliers; none if most values are equal.
#[must_use]
pub fn outliers(values: &[f64]) -> Vec<usize> {
    if values.len() < OUTLIER_COUNT_MIN {
        return Vec::new();
    }
    let middle = median(values);
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let spread = median(&away);
    if spread == 0.0 {
        return Vec::new();
    }
    let is_far = |away: &f64| MAD_SCALE * away / spread > OUTLIER_SCORE;
    (0..values.len())
        .filter(|index| is_far(&away[*index]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_is_told_from_chance() {
        let rising: Vec<f64> = (0..10).map(f64::from).collect();
        let found = trend(&rising).expect("ten values");
        assert_eq!(found.tau, 1.0);
        assert!(found.p < 0.001, "{found:?}");
        let mixed = [5.0, 1.0, 4.0, 2.0, 6.0, 3.0, 5.5, 1.5];
        assert!(trend(&mixed).expect("eight values").p > 0.3);
        assert_eq!(trend(&[1.0; 10]), None, "all alike");
        assert_eq!(trend(&rising[..5]), None, "too few");
    }

    #[test]
    fn a_warm_up_is_cut_off_where_it_ends() {
        let mut values = vec![10.0, 40.0, 70.0, 90.0];
        values.extend((0..16).map(|step| if step % 2 == 0 { 99.0 } else { 101.0 }));
        assert_eq!(warm_up(&values), 4);
        assert_eq!(warm_up(&[5.0; 12]), 0, "nothing to cut off");
        assert_eq!(warm_up(&[]), 0);
        assert_eq!(warm_up(&[1.0]), 0);
        let ramp: Vec<f64> = (0..20).map(f64::from).collect();
        assert!(warm_up(&ramp) <= 10, "at most half, whatever the values");
    }

    #[test]
    fn an_outlier_is_named() {
        let values = [10.0, 10.1, 9.9, 10.05, 25.0, 9.95];
        assert_eq!(outliers(&values), [4]);
        assert_eq!(
            outliers(&[10.0, 10.1, 9.9, 10.05, 9.95]),
            Vec::<usize>::new()
        );
        assert_eq!(
            outliers(&[1.0, 1.0, 1.0, 1.0, 9.0]),
            Vec::<usize>::new(),
            "most alike"
        );
        assert_eq!(outliers(&[1.0, 99.0]), Vec::<usize>::new(), "too few");
    }
}
