//! Student's t: the interval of a mean of few values.
//!
//! "Student", The Probable Error of a Mean, Biometrika 6, 1908. The quantile is found by bisection
//! on the distribution, which is a regularised incomplete beta function: W. J. Lentz's continued
//! fraction in the form of Abramowitz and Stegun, 26.5.8 and 26.7.1.

use std::sync::OnceLock;

use super::{CONFIDENCE, normal};

/// Degrees of freedom from which the expansion 26.7.5 of Abramowitz and Stegun is exact to nine
/// digits.
const EXPANSION_MIN: u32 = 200;

/// Returns the two-sided quantile of Student's t with `freedom` degrees of freedom, at
/// [`CONFIDENCE`].
///
/// # Panics
/// Panics if `freedom` is zero.
#[must_use]
pub fn student_quantile(freedom: u32) -> f64 {
    assert!(freedom > 0, "an interval needs two values");
    if freedom >= EXPANSION_MIN {
        return expansion(freedom);
    }
    // The greatest quantile, for one degree of freedom, is 12.71.
    let (mut low, mut high) = (0.0, 16.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < CONFIDENCE {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Returns the probability that Student's t with so many degrees of freedom lies outside `-t..t`.
#[must_use]
pub(super) fn student_tails(t: f64, freedom: u32) -> f64 {
    let freedom = f64::from(freedom);
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The quantile for many degrees of freedom, from that of the normal distribution.
fn expansion(freedom: u32) -> f64 {
    static Z: OnceLock<f64> = OnceLock::new();
    let z = *Z.get_or_init(|| normal::quantile(f64::midpoint(1.0, CONFIDENCE)));
    let n = f64::from(freedom);
    let powers = |terms: &[(f64, i32)]| -> f64 {
        terms
            .iter()
            .map(|(factor, power)| factor * z.powi(*power))
            .sum()
    };
    z + powers(&[(1.0, 3), (1.0, 1)]) / (4.0 * n)
        + powers(&[(5.0, 5), (16.0, 3), (3.0, 1)]) / (96.0 * n.powi(2))
        + powers(&[(3.0, 7), (19.0, 5), (17.0, 3), (-15.0, 1)]) / (384.0 * n.powi(3))
}

/// Returns the probability that Student's t lies within `-t..t`.
fn within(t: f64, freedom: u32) -> f64 {
    1.0 - student_tails(t, freedom)
}

/// Returns the regularised incomplete beta function.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let ln_front =
        ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    if x < (a + 1.0) / (a + b + 2.0) {
        libm::exp(ln_front) * fraction(x, a, b) / a
    } else {
        1.0 - libm::exp(ln_front) * fraction(1.0 - x, b, a) / b
    }
}

/// Evaluates the continued fraction of the incomplete beta function.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let safe = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / safe(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for step in 1..=300 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / safe(1.0 + term * d);
            c = safe(1.0 + term / c);
            result *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    result
}

/// Returns the logarithm of the gamma function of a positive multiple of one half, by its
/// recurrence.
fn ln_gamma(x: f64) -> f64 {
    let halves = (2.0 * x).round();
    let is_whole = halves % 2.0 == 0.0;
    let (mut at, mut sum) = if is_whole {
        (1.0, 0.0)
    } else {
        (0.5, libm::log(std::f64::consts::PI) / 2.0)
    };
    while at + 0.25 < x {
        sum += libm::log(at);
        at += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 5e-4, "{found} is not {wanted}");
    }

    #[test]
    fn quantiles_are_those_of_the_published_tables() {
        // Column 0.975 of a table of Student's t.
        let table = [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (4, 2.776),
            (5, 2.571),
            (9, 2.262),
            (10, 2.228),
            (29, 2.045),
            (30, 2.042),
            (120, 1.980),
            (10_000, 1.9602),
        ];
        for (freedom, quantile) in table {
            near(student_quantile(freedom), quantile);
        }
    }

    #[test]
    fn gamma_of_halves() {
        near(ln_gamma(0.5), 0.572_364_9);
        near(ln_gamma(1.0), 0.0);
        near(ln_gamma(5.0), f64::ln(24.0));
        near(ln_gamma(2.5), 0.284_682_9);
    }
}
