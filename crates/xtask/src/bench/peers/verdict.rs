//! The ratio of a side to its peer, and the verdict on it.

use lab::statistics::Interval;
use lab::statistics::paired::ByRepetition;

use super::rounds::{Measured, MeasuredCase};
use super::side::Side;
use super::work::{Figure, Peer};
use crate::ratio::Ratio;

/// The speed of a side as a multiple of that of its peer.
pub(super) struct Compared {
    /// The peer: a side or a case.
    pub(super) peer: String,
    pub(super) ratio: Ratio,
}

/// Verdict on a ratio that has to reach a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Reached,
    Missed,
    /// The interval contains the bar, or there is none because there was a single run.
    WithinNoise,
}

impl Verdict {
    pub(super) fn of(interval: Option<Interval>, bar: f64) -> Self {
        match interval {
            Some(Interval { low, .. }) if low >= bar => Self::Reached,
            Some(Interval { high, .. }) if high < bar => Self::Missed,
            _ => Self::WithinNoise,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed => "missed",
            Self::WithinNoise => "within noise",
        }
    }
}

impl Measured<'_> {
    /// Compares a side of a case with its peer; `None` for the peer itself, or if the peer was not
    /// measured.
    pub(super) fn compared(
        &self,
        case: &MeasuredCase<'_>,
        side: Side,
        figure: usize,
    ) -> Option<Compared> {
        let own = case.values(side, figure)?;
        let kind = self.work.figures[figure];
        let (peer, theirs) = match self.work.peer {
            Peer::Best(sides) if sides.contains(&side) => return None,
            Peer::Best(sides) => {
                let (best, values) = case.best(sides, figure, kind)?;
                (best.name().to_owned(), values)
            }
            Peer::Case(name) if name == case.case.name => return None,
            Peer::Case(name) => {
                let other = self.cases.iter().find(|other| other.case.name == name)?;
                (name.to_owned(), other.values(side, figure)?)
            }
        };
        let ratio = match kind.is_rate {
            true => Ratio::of(own, theirs),
            false => Ratio::of(theirs, own),
        };
        ratio.map(|ratio| Compared { peer, ratio })
    }
}

impl MeasuredCase<'_> {
    /// Returns the values of a side that was measured.
    pub(super) fn values(&self, side: Side, figure: usize) -> Option<&ByRepetition> {
        let found = self.sides.iter().find(|(own, _)| *own == side);
        found
            .map(|(_, figures)| &figures[figure])
            .filter(|values| !values.is_empty())
    }

    /// Returns the fastest of some sides by their medians.
    fn best(&self, sides: &[Side], figure: usize, kind: Figure) -> Option<(Side, &ByRepetition)> {
        let measured = sides
            .iter()
            .filter_map(|side| Some((*side, self.values(*side, figure)?)));
        let median = |values: &ByRepetition| {
            let values: Vec<f64> = values.values().copied().collect();
            lab::statistics::median(&values)
        };
        measured.max_by(|(_, one), (_, other)| {
            let order = median(one).total_cmp(&median(other));
            if kind.is_rate { order } else { order.reverse() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let of = |low, high| Verdict::of(Some(Interval { low, high }), 1.5);
        assert_eq!(of(1.5, 1.7), Verdict::Reached);
        assert_eq!(of(1.4, 1.7), Verdict::WithinNoise);
        assert_eq!(of(1.2, 1.5), Verdict::WithinNoise);
        assert_eq!(of(1.2, 1.49), Verdict::Missed);
        assert_eq!(Verdict::of(None, 1.5), Verdict::WithinNoise, "one run");
    }
}
