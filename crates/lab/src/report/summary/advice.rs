//! [`Advice`]: which row of a group to take.

use std::collections::BTreeSet;

use crate::report::{Group, Row};
use crate::statistics::effect::{Effect, Ratio};

/// The share by which a row may be behind the best and still be as good.
pub(super) const BEHIND_MAX: f64 = 0.05;

/// Advice for a group.
pub(super) enum Advice<'r> {
    /// This row, which is the baseline if it has no gain.
    Take(&'r Row, Option<Effect>),
    /// No row is certain to beat the baseline, and not all are certain to be worse. This one has
    /// the highest mean of the others.
    Undecided(&'r Row, Effect),
}

impl<'r> Advice<'r> {
    /// Returns the row that it names.
    pub(super) fn row(&self) -> &'r Row {
        match self {
            Self::Take(row, _) | Self::Undecided(row, _) => row,
        }
    }
}

/// A group as its advice sees it.
pub(super) struct Compared<'r> {
    pub(super) baseline: &'r Row,
    /// The baseline, and the rows that were compared with it more than once, in the plan's order.
    rows: Vec<(&'r Row, Option<Effect>)>,
    /// Labels of rows that are left out, since they have too few trials.
    pub(super) left_out: Vec<String>,
    group: &'r Group,
}

impl<'r> Compared<'r> {
    /// Returns what can be compared in a group; `None` if it has no baseline, or nothing beside it.
    pub(super) fn of(group: &'r Group) -> Option<Self> {
        let baseline = group.rows.iter().find(|row| row.is_baseline)?;
        let (mut rows, mut left_out) = (Vec::new(), Vec::new());
        for row in &group.rows {
            match row.effect.filter(|effect| effect.p.is_some()) {
                _ if row.is_baseline => rows.push((row, None)),
                Some(effect) => rows.push((row, Some(effect))),
                None => left_out.push(row.label()),
            }
        }
        (rows.len() > 1).then_some(Self {
            baseline,
            rows,
            left_out,
            group,
        })
    }

    /// Returns the advice among the rows whose labels are not among `excluded`; `None` if that
    /// leaves no baseline, or none beside it.
    ///
    /// It is the first row, in the plan's order, that is as good as the best of those that are
    /// certain to beat the baseline: of sizes in increasing order the smallest.
    pub(super) fn advice(&self, excluded: &BTreeSet<String>) -> Option<Advice<'r>> {
        if excluded.contains(&self.baseline.label()) {
            return None;
        }
        let rows = || {
            self.rows
                .iter()
                .filter(|(row, _)| !excluded.contains(&row.label()))
        };
        let others = || rows().filter_map(|(row, effect)| Some((*row, (*effect)?)));
        let highest =
            |one: &(&Row, Effect), other: &(&Row, Effect)| one.1.share.total_cmp(&other.1.share);
        let better = others().filter(|(_, effect)| effect.share > 0.0 && effect.is_certain());
        if let Some((best, _)) = better.max_by(highest) {
            let first = rows().find(|(row, _)| self.is_as_good(row, best));
            return first.map(|(row, effect)| Advice::Take(row, *effect));
        }
        others().next()?;
        let open = others().filter(|(_, effect)| !effect.is_certain());
        Some(match open.max_by(highest) {
            Some((row, gain)) if !self.is_as_good(self.baseline, row) => {
                Advice::Undecided(row, gain)
            }
            // All are certain to be worse, or none can be much better.
            _ => Advice::Take(self.baseline, None),
        })
    }

    /// Returns true if a row is the best, or certain to be hardly behind it.
    fn is_as_good(&self, row: &Row, best: &Row) -> bool {
        if row.labels == best.labels {
            return true;
        }
        let ratio = Ratio::of(self.group.primary.better);
        let behind = Effect::paired(&best.trials, &row.trials, ratio);
        let interval = behind.and_then(|effect| effect.interval);
        interval.is_some_and(|interval| interval.low >= -BEHIND_MAX)
    }
}
