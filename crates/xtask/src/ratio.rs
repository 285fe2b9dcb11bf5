//! The ratio of two sides' figures over pairs of runs, with its 95 % interval.

use lab::statistics::Interval;
use lab::statistics::paired::{ByRepetition, LogRatio};

/// Maximum ratio that is shown.
const SHOWN_MAX: f64 = 1000.0;

/// A mean ratio over pairs of runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio(LogRatio);

impl Ratio {
    /// Returns the ratio of `top` over `bottom`, from the runs that both have; `None` without one,
    /// or if a figure is not above zero.
    pub(crate) fn of(top: &ByRepetition, bottom: &ByRepetition) -> Option<Self> {
        LogRatio::of(top, bottom).map(Self)
    }

    /// Returns the mean ratio.
    pub(crate) fn mean(self) -> f64 {
        self.0.share() + 1.0
    }

    /// Returns its 95 % interval; `None` with a single pair.
    pub(crate) fn interval(self) -> Option<Interval> {
        self.0.share_interval().map(|shares| Interval {
            low: shares.low + 1.0,
            high: shares.high + 1.0,
        })
    }

    /// Returns the ratio and its interval, for people.
    pub(crate) fn shown(self) -> String {
        let mean = digits(self.mean());
        match self.interval() {
            Some(Interval { low, high }) => {
                format!("{mean} ({} to {})", digits(low), digits(high))
            }
            None => mean,
        }
    }
}

/// Returns a ratio with two decimals; one that only few pairs can give is not shown in full.
fn digits(ratio: f64) -> String {
    match ratio {
        ratio if ratio < SHOWN_MAX => format!("{ratio:.2}"),
        _ => format!("over {SHOWN_MAX:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_shown_with_its_interval_if_there_are_pairs() {
        let by = |values: &[f64]| (0..).zip(values.iter().copied()).collect::<ByRepetition>();
        let one = Ratio::of(&by(&[3.0]), &by(&[2.0])).expect("a pair");
        assert_eq!((one.shown().as_str(), one.interval()), ("1.50", None));
        let two = Ratio::of(&by(&[3.0, 6.0]), &by(&[2.0, 4.0])).expect("two pairs");
        assert_eq!(two.shown(), "1.50 (1.50 to 1.50)");
        let wide = Ratio::of(&by(&[1.0, 100.0]), &by(&[1.0, 1.0])).expect("two pairs");
        assert_eq!(wide.shown(), "10.00 (0.00 to over 1000)");
        assert!(Ratio::of(&by(&[0.0]), &by(&[1.0])).is_none());
    }
}
