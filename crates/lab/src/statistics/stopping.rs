//! The rule that decides if there are enough trials of one kind.
//!
//! At least a minimum number of trials, then more until the 95 % interval of the mean is narrow
//! enough or a maximum is reached: Y. S. Chow and H. Robbins, On the Asymptotic Theory of
//! Fixed-Width Sequential Confidence Intervals for the Mean, Annals of Mathematical Statistics 36,
//! 1965; Auto-pilot (C. P. Wright et al., USENIX 2005) uses this rule with ten trials and 5 %.
//! Testing after each trial makes the interval slightly too narrow: Chow and Robbins show that this
//! effect vanishes with the bound, and the minimum number of trials keeps it small.

use super::Sample;

/// The stopping rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoppingRule {
    /// Minimum number of trials.
    pub least: usize,
    /// Maximum number of trials.
    pub most: usize,
    /// Required precision: half of the 95 % interval over the mean. Without it the minimum number
    /// is enough.
    pub precision: Option<f64>,
}

/// The verdict of the rule on a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Another trial is needed.
    More,
    /// The interval is narrow enough, or no precision is required.
    Enough,
    /// The interval is too wide, but the maximum number of trials is reached.
    Capped,
}

impl StoppingRule {
    /// Returns the verdict on the trials so far; `None` means no trials.
    #[must_use]
    pub fn judge(&self, sample: Option<&Sample>) -> Verdict {
        let count = sample.map_or(0, Sample::count);
        if count < self.least {
            return Verdict::More;
        }
        let Some(precision) = self.precision else {
            return Verdict::Enough;
        };
        let half = sample.and_then(|sample| sample.describe().relative_half());
        if half.is_some_and(|half| half <= precision) {
            Verdict::Enough
        } else if count < self.most {
            Verdict::More
        } else {
            Verdict::Capped
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: StoppingRule = StoppingRule {
        least: 3,
        most: 5,
        precision: Some(0.05),
    };

    fn judge(rule: StoppingRule, values: &[f64]) -> Verdict {
        rule.judge(Sample::new(values.to_vec()).as_ref())
    }

    #[test]
    fn the_interval_decides_between_the_least_and_the_most() {
        let wide = [100.0, 120.0, 80.0, 130.0, 70.0];
        assert_eq!(judge(RULE, &[]), Verdict::More);
        assert_eq!(
            judge(RULE, &[100.0, 100.0]),
            Verdict::More,
            "two are too few"
        );
        assert_eq!(judge(RULE, &[100.0, 101.0, 99.0]), Verdict::Enough);
        assert_eq!(judge(RULE, &wide[..3]), Verdict::More);
        assert_eq!(judge(RULE, &wide), Verdict::Capped);
        assert_eq!(judge(RULE, &[0.0; 3]), Verdict::Enough, "nothing varies");
        assert_eq!(
            judge(RULE, &[-1.0, 1.0, 0.0]),
            Verdict::More,
            "relative to zero"
        );
    }

    #[test]
    fn without_a_bound_the_least_number_is_enough() {
        let rule = StoppingRule {
            precision: None,
            ..RULE
        };
        assert_eq!(judge(rule, &[1.0, 9.0]), Verdict::More);
        assert_eq!(judge(rule, &[1.0, 9.0, 4.0]), Verdict::Enough);
        let single = StoppingRule {
            least: 1,
            most: 2,
            precision: Some(0.1),
        };
        assert_eq!(
            judge(single, &[1.0]),
            Verdict::More,
            "one value has no interval"
        );
    }
}
