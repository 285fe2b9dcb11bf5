//! The level of an ordered factor from which on more does not help.
//!
//! [`saturation`] finds the first level that no later one exceeds by more than a bound: more is not
//! worth its price. [`knee`] finds the bend of the curve, after which a step gains less than the
//! average step: V. Satopää, J. Albrecht, D. Irwin, B. Raghavan, Finding a "Kneedle" in a Haystack,
//! ICDCS Workshops 2011; this is the offline form for increasing, concave curves without smoothing
//! (steps 2 to 4).

/// Returns the index of the first of `values`, for which higher is better, that no later one
/// exceeds by more than the share `bound`. Returns `None` if only the last one qualifies: the curve
/// may rise further.
#[must_use]
pub fn saturation(values: &[f64], bound: f64) -> Option<usize> {
    let is_last_gain = |index: usize| {
        let later = &values[index + 1..];
        later
            .iter()
            .all(|value| *value <= values[index] * (1.0 + bound))
    };
    (0..values.len().saturating_sub(1)).find(|index| is_last_gain(*index))
}

/// Returns the index of the knee of a concave, rising curve; `None` if it is straight, falls, or is
/// convex.
///
/// `xs` must increase. Three points are required.
#[must_use]
pub fn knee(xs: &[f64], ys: &[f64]) -> Option<usize> {
    if xs.len() != ys.len() || xs.len() < 3 {
        return None;
    }
    let unit = |values: &[f64]| -> Option<Vec<f64>> {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (high > low).then(|| values.iter().map(|v| (v - low) / (high - low)).collect())
    };
    let (x, y) = (unit(xs)?, unit(ys)?);
    if ys.first()? >= ys.last()? {
        return None;
    }
    let (index, height) = x
        .iter()
        .zip(&y)
        .map(|(x, y)| y - x)
        .enumerate()
        .max_by(|left, right| left.1.total_cmp(&right.1))?;
    // Points above a straight line are rounding errors.
    (height > 1e-9 && index + 1 < xs.len()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_of_the_papers_figure_2() {
        // f(x) = -1 / (x + 0.1) + 5 at ten points from 0 to 1; the knee is at x = 0.22.
        let xs: Vec<f64> = (0..10).map(|step| f64::from(step) / 9.0).collect();
        let ys: Vec<f64> = xs.iter().map(|x| -1.0 / (x + 0.1) + 5.0).collect();
        assert_eq!(knee(&xs, &ys), Some(2));
    }

    #[test]
    fn curves_without_a_knee() {
        let xs = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(knee(&xs, &[1.0, 2.0, 3.0, 4.0]), None, "straight");
        assert_eq!(knee(&xs, &[1.0, 1.1, 1.5, 9.0]), None, "bends upwards");
        assert_eq!(knee(&xs, &[4.0, 3.0, 2.0, 1.0]), None, "falls");
        assert_eq!(knee(&xs, &[1.0; 4]), None, "flat");
        assert_eq!(knee(&xs[..2], &[1.0, 2.0]), None, "two points");
    }

    #[test]
    fn saturation_looks_at_all_later_levels() {
        assert_eq!(saturation(&[10.0, 20.0, 20.5, 20.9], 0.05), Some(1));
        // Each step gains little; the sum of all steps does not.
        assert_eq!(
            saturation(&[100.0, 104.0, 108.0, 112.0, 116.0], 0.05),
            Some(3)
        );
        assert_eq!(
            saturation(&[10.0, 20.0, 40.0], 0.05),
            None,
            "it still grows"
        );
        assert_eq!(saturation(&[10.0, 9.0], 0.05), Some(0), "more is worse");
        assert_eq!(saturation(&[10.0], 0.05), None);
        assert_eq!(saturation(&[], 0.05), None);
    }
}
