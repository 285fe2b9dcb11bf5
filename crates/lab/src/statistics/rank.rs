//! Test of two samples for a difference, by the ranks of their values.
//!
//! H. B. Mann and D. R. Whitney, On a Test of Whether one of Two Random Variables is Stochastically
//! Larger than the Other, Annals of Mathematical Statistics 18, 1947. The test is exact if there
//! are no ties and one sample is small; otherwise it uses the normal distribution with corrections
//! for ties and continuity (E. L. Lehmann, Nonparametrics, 1975, section 1.4). S. Holm, A Simple
//! Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6, 1979.

use super::{Sample, normal};

/// Maximum size of the smaller sample for an exact p-value; the same as SciPy's.
const EXACT_MAX: usize = 8;
/// Maximum size of the larger sample for an exact p-value, whose table grows with the product of
/// both.
const EXACT_OTHER_MAX: usize = 200;

/// The outcome of a Mann-Whitney test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Number of pairs with the greater value in the first sample; a tie counts one half.
    pub u: f64,
    /// The two-sided p-value: the probability of a difference of ranks at least as large between
    /// samples of one distribution.
    pub p: f64,
}

/// Tests whether the values of one sample tend to be greater than those of the other.
#[must_use]
pub fn mann_whitney(first: &Sample, second: &Sample) -> MannWhitney {
    let (a, b) = (first.count(), second.count());
    let mut all: Vec<(f64, bool)> = Vec::with_capacity(a + b);
    all.extend(first.values().iter().map(|value| (*value, true)));
    all.extend(second.values().iter().map(|value| (*value, false)));
    all.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (mut rank_sum, mut ties, mut rank) = (0.0, 0.0, 0.0);
    for group in all.chunk_by(|left, right| left.0 == right.0) {
        let size = group.len() as f64;
        let own = group.iter().filter(|(_, is_first)| *is_first).count();
        rank_sum += own as f64 * (rank + (size + 1.0) / 2.0);
        ties += size.powi(3) - size;
        rank += size;
    }
    let u = rank_sum - (a * (a + 1)) as f64 / 2.0;
    let is_exact = ties == 0.0 && a.min(b) <= EXACT_MAX && a.max(b) <= EXACT_OTHER_MAX;
    let greater = u.max((a * b) as f64 - u);
    let p = if is_exact {
        exact(greater as usize, a, b)
    } else {
        asymptotic(greater, a as f64, b as f64, ties)
    };
    MannWhitney { u, p }
}

/// Returns twice the probability of a U of at least `u`, counted over all orders of both samples.
fn exact(u: usize, a: usize, b: usize) -> f64 {
    // The number of orders with each U is the coefficient of the Gaussian binomial.
    let most = a * b;
    let mut counts = vec![0.0; most + 1];
    counts[0] = 1.0;
    for step in 1..=a {
        // Multiplies by (1 - x^(b+step)), then divides by (1 - x^step).
        for at in (b + step..=most).rev() {
            counts[at] -= counts[at - b - step];
        }
        for at in step..=most {
            counts[at] += counts[at - step];
        }
    }
    let all: f64 = counts.iter().sum();
    let tail: f64 = counts[u..].iter().sum();
    (2.0 * tail / all).min(1.0)
}

fn asymptotic(u: f64, a: f64, b: f64, ties: f64) -> f64 {
    let all = a + b;
    let variance = a * b / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = (u - a * b / 2.0 - 0.5) / variance.sqrt();
    (2.0 * normal::upper(z.max(0.0))).min(1.0)
}

/// Corrects the p-values of several tests: the probability of one false positive among all stays
/// that of a single test.
#[must_use]
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|left, right| values[*left].total_cmp(&values[*right]));
    let mut corrected = vec![0.0; values.len()];
    let mut before: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        before = before
            .max(values[index] * (values.len() - rank) as f64)
            .min(1.0);
        corrected[index] = before;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(first: &[f64], second: &[f64]) -> MannWhitney {
        let sample = |values: &[f64]| Sample::new(values.to_vec()).expect("a sample");
        mann_whitney(&sample(first), &sample(second))
    }

    #[test]
    fn three_against_three_cannot_be_significant() {
        // 2 of the 20 orders are as extreme: the known minimum p-value of 0.1.
        let found = test(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert_eq!(found.u, 0.0);
        assert!((found.p - 0.1).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn degenerate_samples() {
        assert_eq!(test(&[1.0], &[1.0]), MannWhitney { u: 0.5, p: 1.0 });
        assert_eq!(test(&[2.0, 2.0], &[2.0, 2.0, 2.0]).p, 1.0);
        assert_eq!(test(&[1.0], &[2.0]).p, 1.0, "two orders, both as extreme");
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
