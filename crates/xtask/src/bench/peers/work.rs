//! A work: what is done, on which sides, and which ratio it has to reach.

use super::loads::Load;
use super::place::Place;
use super::side::Side;

/// A work with its cases and sides.
pub(super) struct Work {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Description in one line.
    pub(super) title: &'static str,
    /// Its sides, in the order of the rows.
    pub(super) sides: Vec<Side>,
    pub(super) cases: Vec<Case>,
    /// The figures of a run.
    pub(super) figures: Vec<Figure>,
    pub(super) place: Place,
    pub(super) peer: Peer,
    /// The sides that have to reach the bars.
    pub(super) judged: &'static [Side],
}

/// A variant of a work.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) load: Load,
    /// The number of times that a judged side has to be as fast as its peer.
    pub(super) bar: Option<f64>,
    pub(super) rounds_max: u32,
}

/// A figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// True for a rate, of which more is faster; false for a duration.
    pub(super) is_rate: bool,
    /// True if the bar of the case is for this figure, too.
    pub(super) has_bar: bool,
}

/// The runs that those of a side are compared with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Peer {
    /// The fastest of these sides in the same case.
    Best(&'static [Side]),
    /// The same side in the case of this name.
    Case(&'static str),
}

impl Figure {
    /// Returns a rate to which the bar applies.
    pub(super) const fn rate(name: &'static str, unit: &'static str) -> Self {
        Self {
            name,
            unit,
            is_rate: true,
            has_bar: true,
        }
    }

    /// Returns a duration to which the bar applies.
    pub(super) const fn time(name: &'static str, unit: &'static str) -> Self {
        Self {
            is_rate: false,
            ..Self::rate(name, unit)
        }
    }

    /// Returns the figure without a bar.
    pub(super) const fn without_bar(self) -> Self {
        Self {
            has_bar: false,
            ..self
        }
    }
}

impl Case {
    /// Returns a case without a bar.
    pub(super) fn new(name: impl Into<String>, load: Load) -> Self {
        Self {
            name: name.into(),
            load,
            bar: None,
            rounds_max: u32::MAX,
        }
    }

    /// Returns the case with a bar.
    pub(super) fn bar(self, bar: f64) -> Self {
        Self {
            bar: Some(bar),
            ..self
        }
    }
}

impl Work {
    /// True if a side uses an image on disk.
    pub(super) fn needs_disk(&self) -> bool {
        matches!(self.place, Place::Disk)
    }

    /// True if programs do it, on images in memory.
    pub(super) fn is_of_programs(&self) -> bool {
        matches!(self.place, Place::None)
    }

    /// Returns the number of runs of a case on a side.
    pub(super) fn rounds(case: &Case, side: Side, runs: u32) -> u32 {
        runs.min(case.rounds_max).min(side.rounds_max())
    }

    /// Returns the bar of a case for a figure on a side.
    pub(super) fn bar(&self, case: &Case, side: Side, figure: Figure) -> Option<f64> {
        let is_judged = figure.has_bar && self.judged.contains(&side);
        case.bar.filter(|_| is_judged)
    }
}
