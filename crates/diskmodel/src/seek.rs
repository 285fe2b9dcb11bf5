//! The seek curve: the time of the arm between two cylinders, as a table by distance.
//!
//! The table is built once, with plain IEEE additions, multiplications, divisions and square roots,
//! each of which is exactly rounded, so that it is the same in every build. There are three
//! sources:
//!
//! - *measured*: straight lines between the points;
//! - *three point*: C. Ruemmler and J. Wilkes, "An introduction to disk drive modeling", IEEE
//!   Computer 27(3), 1994, found seeks to take c + A sqrt(d - 1) for short distances and a straight
//!   line for long ones. The knee is at 0.15 of the stroke, and A is chosen to give the mean.
//!   Against seven measured drives the error is 0.07 to 0.30 ms (root mean square; 0.61 for one
//!   with a noisy curve);
//! - *rescaled*: single + k (t(d') - t(1)) with the distance in proportion. Over the farther half
//!   of the stroke a straight line is added, up to the excess of the full stroke. k is chosen to
//!   give the mean. Seeks within half of the stroke have the measured shape.
//!
//! The mean is the one over all pairs of cylinders, sum of 2 (C - d) t(d) / C^2, not the seek over
//! a third of the stroke, which is 1 to 7 percent longer.

use rt::Nanos;

use crate::model::{SeekPoints, SeekSource};

/// End of the square root and start of the straight line, as a fraction of the cylinders.
const KNEE: f64 = 0.15;

const NANOS_PER_MS: f64 = 1e6;

/// Seek times by distance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeekCurve {
    /// Times in nanoseconds; the index is the distance in cylinders.
    table: Vec<u64>,
}

impl SeekCurve {
    /// Creates the curve of an arm over a number of cylinders.
    ///
    /// # Panics
    /// Panics if there are fewer than three cylinders, or no points.
    pub fn new(source: SeekSource, cylinders: u32) -> Self {
        assert!(cylinders >= 3, "a seek curve needs a distance");
        let times = times_of(source, cylinders);
        let table = times
            .into_iter()
            .map(|ms| nanos_from_ms(ms).get())
            .collect();
        Self { table }
    }

    /// Returns the time over a distance in cylinders.
    pub fn time(&self, distance: u32) -> Nanos {
        Nanos::new(self.table[distance as usize])
    }

    /// Returns the longest seek.
    pub fn full_stroke(&self) -> Nanos {
        Nanos::new(
            *self
                .table
                .last()
                .expect("there are at least three cylinders"),
        )
    }

    /// Returns the mean over random pairs of cylinders.
    pub fn mean(&self) -> Nanos {
        let cylinders = self.table.len() as u128;
        let weighted: u128 = (0..cylinders)
            .zip(&self.table)
            .map(|(distance, time)| 2 * (cylinders - distance) * u128::from(*time))
            .sum();
        let mean = weighted / (cylinders * cylinders);
        Nanos::new(u64::try_from(mean).expect("a mean lies below the greatest value"))
    }
}

/// Converts milliseconds of a data sheet to nanoseconds.
pub(super) fn nanos_from_ms(ms: f64) -> Nanos {
    assert!(
        (0.0..1e6).contains(&ms),
        "a disk's times lie between nothing and a thousand seconds"
    );
    Nanos::new((ms * NANOS_PER_MS).round() as u64)
}

/// Returns true if all seeks take time and the curve rises from each of a few distances to the
/// next. Measured curves have noise between neighbours.
pub(super) fn rises(source: SeekSource, cylinders: u32) -> bool {
    const STEPS: usize = 16;
    let times = times_of(source, cylinders);
    let at = |step: usize| times[1 + step * (times.len() - 2) / STEPS];
    let steps: Vec<f64> = (0..=STEPS).map(at).collect();
    times[1..].iter().all(|time| *time > 0.0) && steps.windows(2).all(|pair| pair[0] <= pair[1])
}

/// Returns the times of a curve in milliseconds.
fn times_of(source: SeekSource, cylinders: u32) -> Vec<f64> {
    match source {
        SeekSource::Measured { points } => shape(cylinders, |distance| {
            interpolate(points, f64::from(distance))
        }),
        SeekSource::ThreePoint {
            single_ms,
            mean_ms,
            full_ms,
        } => three_point(cylinders, single_ms, mean_ms, full_ms),
        SeekSource::Rescaled {
            points,
            points_cylinders,
            single_ms,
            mean_ms,
            full_ms,
        } => rescaled(
            cylinders,
            points,
            points_cylinders,
            single_ms,
            mean_ms,
            full_ms,
        ),
    }
}

/// Tabulates a function of the distance; distance zero takes no time.
fn shape(cylinders: u32, mut time: impl FnMut(u32) -> f64) -> Vec<f64> {
    (0..cylinders)
        .map(|distance| if distance == 0 { 0.0 } else { time(distance) })
        .collect()
}

/// Returns the mean of a table over random pairs.
fn mean_of(times: &[f64]) -> f64 {
    let cylinders = times.len() as f64;
    let weighted = times
        .iter()
        .enumerate()
        .map(|(distance, time)| 2.0 * (cylinders - distance as f64) * time)
        .fold(0.0, |sum, term| sum + term);
    weighted / (cylinders * cylinders)
}

/// Returns the factor that gives the wanted mean. The mean is linear in the factor, so the curves
/// with factor 0 and factor 1 determine it.
fn factor_for(mean: f64, without: &[f64], with: &[f64]) -> f64 {
    let base = mean_of(without);
    (mean - base) / (mean_of(with) - base)
}

fn three_point(cylinders: u32, single: f64, mean: f64, full: f64) -> Vec<f64> {
    let knee = (KNEE * f64::from(cylinders)).floor().max(1.0);
    let last = f64::from(cylinders - 1);
    let curve = |factor: f64| {
        let at_knee = single + factor * (knee - 1.0).sqrt();
        shape(cylinders, |distance| {
            let distance = f64::from(distance);
            if distance <= knee {
                single + factor * (distance - 1.0).sqrt()
            } else {
                at_knee + (full - at_knee) * (distance - knee) / (last - knee)
            }
        })
    };
    curve(factor_for(mean, &curve(0.0), &curve(1.0)))
}

fn rescaled(
    cylinders: u32,
    points: SeekPoints,
    points_cylinders: u32,
    single: f64,
    mean: f64,
    full: f64,
) -> Vec<f64> {
    let last = f64::from(cylinders - 1);
    let ratio = f64::from(points_cylinders - 2) / f64::from(cylinders - 2);
    let first = interpolate(points, 1.0);
    let same_share = |distance: f64| interpolate(points, 1.0 + (distance - 1.0) * ratio) - first;
    let longest = same_share(last);
    let curve = |factor: f64| {
        let excess = full - single - factor * longest;
        shape(cylinders, |distance| {
            let distance = f64::from(distance);
            let beyond = (2.0 * distance / last - 1.0).max(0.0);
            single + factor * same_share(distance) + excess * beyond
        })
    };
    curve(factor_for(mean, &curve(0.0), &curve(1.0)))
}

/// Returns the measured time over a distance; beyond the measured range, that of its nearest end.
fn interpolate(points: SeekPoints, distance: f64) -> f64 {
    let after = points.partition_point(|(at, _)| f64::from(*at) <= distance);
    if after == 0 {
        return points[0].1;
    }
    let (left, low) = points[after - 1];
    match points.get(after) {
        None => low,
        Some((right, high)) => {
            let share = (distance - f64::from(left)) / f64::from(right - left);
            low + (high - low) * share
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_come_out_as_they_went_in() {
        for (cylinders, single, mean, full) in [
            (8_057, 1.663, 8.31, 15.36),
            (10_042, 1.245, 5.60, 10.83),
            (6_581, 0.64, 7.96, 16.1),
        ] {
            let source = SeekSource::ThreePoint {
                single_ms: single,
                mean_ms: mean,
                full_ms: full,
            };
            let curve = SeekCurve::new(source, cylinders);
            assert_eq!(curve.time(0), Nanos::ZERO);
            assert_eq!(curve.time(1), nanos_from_ms(single));
            assert_eq!(curve.full_stroke(), nanos_from_ms(full));
            assert!(curve.mean().get().abs_diff(nanos_from_ms(mean).get()) < 10);
            assert!((1..cylinders - 1).all(|at| curve.time(at) <= curve.time(at + 1)));
        }
    }

    #[test]
    fn measured_points_are_hit_and_joined_by_lines() {
        let points: SeekPoints = &[(1, 1.0), (3, 2.0), (10, 5.5)];
        let curve = SeekCurve::new(SeekSource::Measured { points }, 13);
        let times: Vec<u64> = (0..13).map(|at| curve.time(at).get() / 1000).collect();
        assert_eq!(&times[..5], &[0, 1000, 1500, 2000, 2500]);
        assert_eq!(&times[10..], &[5500, 5500, 5500]);
    }

    #[test]
    fn the_table_is_the_same_in_every_build() {
        let source = SeekSource::ThreePoint {
            single_ms: 1.06,
            mean_ms: 7.2,
            full_ms: 12.85,
        };
        let curve = SeekCurve::new(source, 11_474);
        let digest = curve.table.iter().fold(0_u64, |hash, time| {
            hash.rotate_left(5)
                .wrapping_add(*time)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        assert_eq!(digest, EXPECTED_DIGEST);
    }

    /// Digest of the table above, as one x86-64 build computed it.
    const EXPECTED_DIGEST: u64 = 12_614_366_287_181_222_847;
}
