//! The standard normal distribution.
//!
//! Abramowitz and Stegun: the series 26.2.11 near zero, the continued fraction 26.2.14 in the
//! tails; the quantile by bisection.

/// Maximum `x` for which the series needs fewer terms than the continued fraction.
const SERIES_MAX: f64 = 3.0;
/// Minimum `x` at which the distribution is 1 to the last bit.
const TAIL_END: f64 = 38.0;
/// Number of terms that gives full precision in either form.
const TERMS_MAX: u32 = 200;

/// Returns the probability of a value up to `x`.
pub(super) fn cumulative(x: f64) -> f64 {
    if x < 0.0 { upper(-x) } else { 1.0 - upper(x) }
}

/// Returns the probability of a value of at least `x`, for `x` not below zero.
pub(super) fn upper(x: f64) -> f64 {
    let density = libm::exp(-x * x / 2.0) / (2.0 * std::f64::consts::PI).sqrt();
    if x > TAIL_END {
        return 0.0;
    }
    if x < SERIES_MAX {
        let mut term = x;
        let mut sum = x;
        for step in 1..TERMS_MAX {
            term *= x * x / (2.0 * f64::from(step) + 1.0);
            sum += term;
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..TERMS_MAX)
        .rev()
        .fold(x, |below, step| x + f64::from(step) / below);
    density / fraction
}

/// Returns the value up to which the probability is `p`; infinite at 0 and 1.
pub(super) fn quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (-TAIL_END, TAIL_END);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if cumulative(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_agree_where_they_meet() {
        let (below, above) = (upper(SERIES_MAX - 1e-12), upper(SERIES_MAX));
        assert!((below - above).abs() < 1e-13, "{below} and {above}");
    }

    #[test]
    fn ends() {
        assert_eq!(cumulative(0.0), 0.5);
        assert_eq!(
            (quantile(0.0), quantile(1.0)),
            (f64::NEG_INFINITY, f64::INFINITY)
        );
        assert_eq!((cumulative(-50.0), cumulative(50.0)), (0.0, 1.0));
    }
}
