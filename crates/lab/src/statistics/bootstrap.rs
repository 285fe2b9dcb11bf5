//! Bootstrap intervals, bias-corrected and accelerated (BCa).
//!
//! B. Efron, Better Bootstrap Confidence Intervals, JASA 82, 1987; B. Efron and R. Tibshirani, An
//! Introduction to the Bootstrap, 1993, section 14.3; several samples: equation 15.36 there in
//! SciPy's form. The generator is fixed, so that a seed gives the same interval on every machine.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{CONFIDENCE, Interval, Sample, normal};

/// Number of resamples: the ends of a 95 % interval then vary by approximately a twentieth of its
/// length.
pub const RESAMPLES: usize = 2000;

/// Returns the interval of a statistic of one or several samples.
///
/// Returns `None` if it is undefined: every sample has fewer than two values, or all resamples are
/// equal.
pub fn interval(
    samples: &[&Sample],
    statistic: impl Fn(&[&[f64]]) -> f64,
    seed: u64,
) -> Option<Interval> {
    if samples.iter().all(|sample| sample.count() < 2) {
        return None;
    }
    let values: Vec<&[f64]> = samples.iter().map(|sample| sample.values()).collect();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut replicates: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn: Vec<Vec<f64>> = values.iter().map(|all| draw(all, &mut random)).collect();
            let drawn: Vec<&[f64]> = drawn.iter().map(Vec::as_slice).collect();
            statistic(&drawn)
        })
        .collect();
    bca(&values, &statistic, &mut replicates, CONFIDENCE)
}

/// Draws a resample: as many values as there are, each drawn from all of them.
fn draw(values: &[f64], random: &mut impl Rng) -> Vec<f64> {
    let count = values.len() as u128;
    // The high half of the product: Lemire's reduction. Its bias is below 2^-40 for any sample that
    // fits in memory.
    let index = |word: u64| ((u128::from(word) * count) >> 64) as usize;
    (0..values.len())
        .map(|_| values[index(random.next_u64())])
        .collect()
}

/// Returns the BCa interval from resampled values of the statistic.
pub(super) fn bca(
    samples: &[&[f64]],
    statistic: impl Fn(&[&[f64]]) -> f64,
    replicates: &mut [f64],
    confidence: f64,
) -> Option<Interval> {
    if replicates.iter().any(|value| !value.is_finite()) {
        return None;
    }
    replicates.sort_by(f64::total_cmp);
    let (first, last) = (*replicates.first()?, *replicates.last()?);
    if first == last {
        return Some(Interval {
            low: first,
            high: last,
        });
    }
    let estimate = statistic(samples);
    let below = replicates.partition_point(|value| *value < estimate);
    let up_to = replicates.partition_point(|value| *value <= estimate);
    let bias =
        normal::quantile(f64::midpoint(below as f64, up_to as f64) / replicates.len() as f64);
    let acceleration = acceleration(samples, &statistic);
    let end = |probability: f64| {
        let sum = bias + normal::quantile(probability);
        normal::cumulative(bias + sum / (1.0 - acceleration * sum))
    };
    let tail = (1.0 - confidence) / 2.0;
    let (low, high) = (end(tail), end(1.0 - tail));
    // If the estimate is outside all of its resamples, the bias cannot be corrected.
    if !low.is_finite() || !high.is_finite() {
        return None;
    }
    Some(Interval {
        low: percentile(replicates, low),
        high: percentile(replicates, high),
    })
}

/// Returns the rate at which the standard error changes with the estimate, by the jackknife.
/// Samples of one value do not contribute.
fn acceleration(samples: &[&[f64]], statistic: &impl Fn(&[&[f64]]) -> f64) -> f64 {
    let (mut cubes, mut squares) = (0.0, 0.0);
    for (number, sample) in samples.iter().enumerate() {
        let count = sample.len() as f64;
        if sample.len() < 2 {
            continue;
        }
        let without: Vec<f64> = (0..sample.len())
            .map(|index| {
                let rest = [&sample[..index], &sample[index + 1..]].concat();
                let mut all = samples.to_vec();
                all[number] = &rest;
                statistic(&all)
            })
            .collect();
        let mean = super::mean(&without);
        let influence = without.iter().map(|value| (count - 1.0) * (mean - value));
        let (cube, square) = influence.fold((0.0, 0.0), |(cube, square), u| {
            (cube + u.powi(3), square + u.powi(2))
        });
        cubes += cube / count.powi(3);
        squares += square / count.powi(2);
    }
    if squares == 0.0 {
        0.0
    } else {
        cubes / (6.0 * libm::pow(squares, 1.5))
    }
}

/// Returns the quantile of sorted values at `share`, interpolated (Hyndman and Fan 1996, type 7).
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let index = (position as usize).min(last);
    let next = (index + 1).min(last);
    sorted[index] + (position - index as f64) * (sorted[next] - sorted[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.to_vec()).expect("a sample")
    }

    fn mean_of(samples: &[&[f64]]) -> f64 {
        super::super::mean(samples[0])
    }

    #[test]
    fn one_seed_gives_one_interval() {
        let values = sample(&[8.0, 9.0, 10.0, 12.0, 30.0]);
        let first = interval(&[&values], mean_of, 7);
        assert_eq!(first, interval(&[&values], mean_of, 7));
        assert_ne!(first, interval(&[&values], mean_of, 8));
        let first = first.expect("five values");
        assert!(first.contains(values.mean()), "{first:?}");
        assert!(
            first.high - values.mean() > values.mean() - first.low,
            "it leans to the long tail: {first:?}"
        );
    }

    #[test]
    fn degenerate_samples() {
        assert_eq!(interval(&[&sample(&[1.0])], mean_of, 1), None);
        let same = interval(&[&sample(&[2.0, 2.0, 2.0])], mean_of, 1);
        assert_eq!(
            same,
            Some(Interval {
                low: 2.0,
                high: 2.0
            })
        );
        let ratio = |samples: &[&[f64]]| samples[0][0] / samples[1][0];
        let by_zero = [&sample(&[1.0, 2.0]), &sample(&[0.0, 0.0])];
        assert_eq!(interval(&by_zero, ratio, 1), None, "it is not finite");
    }

    /// Checks the coverage: approximately 95 % of the intervals contain the true mean of a skewed
    /// distribution.
    #[test]
    fn intervals_hold_the_truth_about_as_often_as_they_say() {
        const TRIALS: u64 = 300;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut held = 0;
        for seed in 0..TRIALS {
            // Values of an exponential distribution of mean 1.
            let values: Vec<f64> = (0..30).map(|_| -(1.0 - uniform()).ln()).collect();
            let interval = interval(&[&sample(&values)], mean_of, seed).expect("thirty values");
            held += u64::from(interval.contains(1.0));
        }
        let share = held as f64 / TRIALS as f64;
        // 0.95 minus the known shortfall for n = 30 and four standard errors of 300 trials.
        assert!((0.88..=0.99).contains(&share), "{share}");
    }
}
