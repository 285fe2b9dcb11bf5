//! [`Recommendation`]: what a group of rows says to do, in sentences that its p-values bear out.
//!
//! - A row is recommended if it is certain to beat the baseline and no other row is certain to beat
//!   it. Of several such rows of a curve the first is recommended: the smallest that is enough. Of
//!   rows without an order it is the one with the highest mean.
//! - Otherwise the baseline is.
//! - Single trials recommend nothing.

use super::answer::{gain_text, is_ordered};
use super::{Group, Row};
use crate::statistics::effect::{Effect, Ratio};

/// Maximum number of rows that are named as equally good.
const NAMED_MAX: usize = 4;

/// A recommendation and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recommendation {
    /// The recommendation as a sentence.
    pub advice: String,
    /// The number of trials that it rests on, as a sentence.
    pub basis: String,
    /// The distance of the figures from the published ones, as a sentence.
    pub distance: Option<String>,
}

impl Recommendation {
    /// Returns the recommendation of a group; `None` if rows are missing or there is no baseline.
    #[must_use]
    pub fn of(group: &Group) -> Option<Self> {
        let baseline = group.rows.iter().find(|row| row.is_baseline)?;
        let others = group.beside_baseline()?;
        Some(Self {
            advice: advice(group, baseline, &others),
            basis: basis(group),
            distance: distance(group),
        })
    }
}

fn advice(group: &Group, baseline: &Row, others: &[(&Row, Effect)]) -> String {
    let base = baseline.label();
    let (row, effect, equal) = match choice(group, others) {
        Choice::Undecided => {
            return "No recommendation: one trial of each decides nothing.".to_owned();
        }
        Choice::Stay => return stay(&base, others),
        Choice::Take { row, effect, equal } => (row, effect, equal),
    };
    let mut text = format!("Take {}: {} over {base}.", row.label(), gain_text(&effect));
    let alike: Vec<String> = equal
        .iter()
        .filter(|(other, _)| other.labels != row.labels)
        .map(|(other, _)| other.label())
        .collect();
    match alike.len() {
        0 => {}
        1..=NAMED_MAX => {
            text.push_str(&format!(
                " Not certain to differ from it: {}.",
                alike.join("; ")
            ));
        }
        count => text.push_str(&format!(
            " {count} others are not certain to differ from it."
        )),
    }
    text
}

/// A choice that the p-values of a group bear out.
enum Choice<'r> {
    /// Nothing: there is one trial of each row.
    Undecided,
    /// The baseline.
    Stay,
    /// Another row.
    Take {
        row: &'r Row,
        effect: Effect,
        /// The rows that are certain to beat the baseline and not certain to differ from the best,
        /// itself among them, in the plan's order.
        equal: Vec<(&'r Row, Effect)>,
    },
}

/// Returns the choice among the rows of a group other than its baseline.
fn choice<'r>(group: &Group, others: &[(&'r Row, Effect)]) -> Choice<'r> {
    if others.iter().all(|(_, effect)| effect.p.is_none()) {
        return Choice::Undecided;
    }
    let is_better = |effect: &Effect| effect.share > 0.0 && effect.is_certain();
    let better: Vec<&(&Row, Effect)> = others.iter().filter(|(_, own)| is_better(own)).collect();
    let by_share =
        |one: &&&(&Row, Effect), other: &&&(&Row, Effect)| one.1.share.total_cmp(&other.1.share);
    let Some(best) = better.iter().max_by(by_share) else {
        return Choice::Stay;
    };
    let equal = as_good_as(group, best.0, &better);
    let chosen = match is_ordered(others.iter().map(|(row, _)| *row)) {
        true => equal.first().copied().unwrap_or(**best),
        false => **best,
    };
    Choice::Take {
        row: chosen.0,
        effect: chosen.1,
        equal,
    }
}

/// Returns the rows among the better ones that are not certain to differ from the best, in the
/// plan's order.
fn as_good_as<'r>(
    group: &Group,
    best: &Row,
    better: &[&(&'r Row, Effect)],
) -> Vec<(&'r Row, Effect)> {
    let ratio = Ratio::of(group.primary.better);
    let mut tests: Vec<Option<Effect>> = better
        .iter()
        .map(|(row, _)| Effect::paired(&row.trials, &best.trials, ratio))
        .collect();
    Effect::correct(tests.iter_mut().flatten());
    better
        .iter()
        .zip(tests)
        .filter(|(_, test)| test.is_none_or(|test| !test.is_certain() || test.share <= 0.0))
        .map(|(own, _)| **own)
        .collect()
}

/// Returns the sentence for a group where no row is certain to beat the baseline.
fn stay(base: &str, others: &[(&Row, Effect)]) -> String {
    let worse = others.iter().filter(|(_, effect)| effect.is_certain());
    if worse.count() == others.len() {
        return format!("Stay with {base}: every other is certain to be worse.");
    }
    let open = others.iter().filter(|(_, effect)| !effect.is_certain());
    let open = open.max_by(|(_, one), (_, other)| one.share.total_cmp(&other.share));
    let may = open.map_or_else(String::new, |(row, effect)| {
        format!(
            " The highest mean is that of {}: {}.",
            row.label(),
            gain_text(effect)
        )
    });
    format!("Stay with {base}: none is certain to beat it.{may}")
}

/// Returns the number of trials of a group, as a sentence.
#[must_use]
pub fn basis(group: &Group) -> String {
    let total: usize = group.rows.iter().map(|row| row.count).sum();
    format!("It rests on {total} trials, {}.", trials_per_row(group))
}

/// Returns the number of trials of each row in words.
pub(super) fn trials_per_row(group: &Group) -> String {
    let counts = || group.rows.iter().map(|row| row.count);
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    match least == most {
        true => format!("{most} of each row"),
        false => format!("{least} to {most} of each row"),
    }
}

/// Returns the distance of a group's means from the published figures, as a sentence: of the
/// primary figure if it was published, otherwise of all figures that were; `None` if there are
/// none.
#[must_use]
pub fn distance(group: &Group) -> Option<String> {
    let primary = group.primary.name;
    let rows = || group.rows.iter();
    let is_primary = rows().any(|row| row.published.contains_key(primary));
    let metrics = |row: &Row| -> Vec<f64> {
        let published = row.published.keys().copied();
        let own = published.filter(|name| !is_primary || *name == primary);
        own.filter_map(|name| row.error(name)).collect()
    };
    let mut errors: Vec<f64> = rows().flat_map(metrics).collect();
    errors.sort_by(f64::total_cmp);
    let (low, high) = (errors.first()?, errors.last()?);
    let percent = |share: &f64| match share.abs() < 0.005 {
        true => "0 %".to_owned(),
        false => format!("{:+.0} %", share * 100.0),
    };
    let range = match errors.len() {
        1 => percent(low),
        count => format!(
            "{} to {} (median {})",
            percent(low),
            percent(high),
            percent(&errors[count / 2])
        ),
    };
    let predicted: Vec<bool> = rows().filter_map(|row| row.is_predicted(primary)).collect();
    let within = predicted.iter().filter(|is_within| **is_within).count();
    let mut text = format!("The means here differ from the published figures by {range}");
    if !predicted.is_empty() {
        let all = predicted.len();
        text.push_str(&format!(
            "; {within} of {all} published runs lie within 95 % of runs here"
        ));
    }
    text.push('.');
    Some(text)
}
