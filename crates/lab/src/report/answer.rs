//! The result of a group of rows as sentences, shown at the top of a report.
//!
//! A gain has a 95 % interval if trials were repeated. A row *beats* the baseline if its gain is
//! above zero and certain; see [`Effect::is_certain`]. Single trials name no winner.

use super::{Group, Row, SATURATION};
use crate::statistics::SIGNIFICANCE;
use crate::statistics::effect::Effect;
use crate::statistics::paired::LogRatio;
use crate::statistics::saturation::{knee, saturation};

/// The figure that is printed as a time.
const TIME: &str = "elapsed";
/// Gain from which it is printed as a factor: three times as much.
const TIMES_MIN: f64 = 2.0;
/// Minimum number of levels of a curve.
const CURVE_COUNT_MIN: usize = 3;

/// Returns the sentences of a group; none if rows are missing or there is nothing to compare.
#[must_use]
pub fn sentences(group: &Group) -> Vec<String> {
    let Some(baseline) = group.rows.iter().find(|row| row.is_baseline) else {
        return fastest(group);
    };
    let Some(others) = group.beside_baseline() else {
        return Vec::new();
    };
    let base = baseline.label();
    if others.iter().all(|(_, effect)| effect.p.is_none()) {
        return vec![single(&base, &others)];
    }
    let mut said = Vec::new();
    if is_curve(&others) {
        said.extend(along_a_curve(&base, &group.factors.join(", "), &others));
    } else {
        said.extend(
            others
                .iter()
                .map(|(row, effect)| beside(&base, row, effect)),
        );
    }
    said
}

/// Returns the sentence on rows with one trial each.
fn single(base: &str, others: &[(&Row, Effect)]) -> String {
    let gains: Vec<String> = others
        .iter()
        .map(|(row, effect)| format!("{} {}", row.label(), gain_text(effect)))
        .collect();
    format!(
        "One trial each decides nothing; the gains over {base} in it are {}.",
        gains.join(", ")
    )
}

/// Returns true if the rows are levels of one quantity, in increasing order, and sufficient for a
/// curve.
fn is_curve(others: &[(&Row, Effect)]) -> bool {
    others.len() >= CURVE_COUNT_MIN && is_ordered(others.iter().map(|(row, _)| *row))
}

/// Returns true if rows are levels of one quantity, in increasing order.
pub(super) fn is_ordered<'r>(rows: impl Iterator<Item = &'r Row>) -> bool {
    let positions: Option<Vec<f64>> = rows.map(|row| row.position).collect();
    positions.is_some_and(|all| all.windows(2).all(|pair| pair[0] < pair[1]))
}

fn along_a_curve(base: &str, factor: &str, others: &[(&Row, Effect)]) -> Vec<String> {
    if others.iter().all(|(_, effect)| !effect.is_certain()) {
        return vec![format!("No {factor} is distinguishable from {base}.")];
    }
    let mut said = Vec::new();
    let is_better = |effect: &Effect| effect.share > 0.0 && effect.is_certain();
    match others.iter().find(|(_, effect)| is_better(effect)) {
        Some((row, effect)) => said.push(format!(
            "{} is the smallest {factor} that beats {base}: {}.",
            row.label(),
            gain_text(effect)
        )),
        None => said.push(format!("No {factor} beats {base}.")),
    }
    if let Some((row, effect)) = others
        .iter()
        .max_by(|(_, a), (_, b)| a.share.total_cmp(&b.share))
    {
        said.push(format!(
            "The highest mean gain is that of {}: {}.",
            row.label(),
            gain_text(effect)
        ));
    }
    let speeds: Vec<f64> = others
        .iter()
        .map(|(_, effect)| 1.0 + effect.share)
        .collect();
    let percent = SATURATION * 100.0;
    match saturation(&speeds, SATURATION) {
        Some(index) => said.push(format!(
            "More than {} gains less than {percent:.0} %.",
            others[index].0.label()
        )),
        None => said.push("The last level still gains: more may help.".to_owned()),
    }
    let places: Vec<f64> = others
        .iter()
        .filter_map(|(row, _)| row.position.map(f64::ln))
        .collect();
    if let Some(index) = knee(&places, &speeds) {
        said.push(format!("The curve bends at {}.", others[index].0.label()));
    }
    said
}

fn beside(base: &str, row: &Row, effect: &Effect) -> String {
    let label = row.label();
    let text = gain_text(effect);
    if !effect.is_certain() {
        return format!("{label} is indistinguishable from {base}: {text}.");
    }
    let verb = if effect.share > 0.0 {
        "beats"
    } else {
        "is behind"
    };
    format!("{label} {verb} {base}: {text}.")
}

/// Names the first and the last row of a group without a baseline. Single trials decide nothing,
/// and rows whose difference may be chance are not told apart.
fn fastest(group: &Group) -> Vec<String> {
    let known: Option<Vec<(&Row, f64)>> = group
        .rows
        .iter()
        .map(|row| Some((row, row.value(group.primary.name)?)))
        .collect();
    let Some(known) = known.filter(|known| known.len() > 1) else {
        return Vec::new();
    };
    let order = |a: &&(&Row, f64), b: &&(&Row, f64)| a.1.total_cmp(&b.1);
    let (Some(least), Some(most)) = (known.iter().min_by(order), known.iter().max_by(order)) else {
        return Vec::new();
    };
    let (least_label, most_label) = (name(group, least.0), name(group, most.0));
    let factor = most.1 / least.1;
    let title = group.primary.title;
    let is_time = group.primary.name == TIME;
    let text = match is_time {
        true if least.1 == most.1 => "all take the same time.".to_owned(),
        true => format!(
            "{least_label} ends first, {most_label} last: it takes {factor:.2} times as long."
        ),
        false if least.1 == most.1 => format!("all have the same {title}."),
        false => format!(
            "{most_label} has the highest {title}, {least_label} the lowest: a factor of \
             {factor:.2}."
        ),
    };
    if group.rows.iter().any(|row| row.count < 2) {
        return vec![format!("One trial each decides nothing; in it {text}")];
    }
    let p = LogRatio::of(&most.0.trials, &least.0.trials).and_then(|ratio| ratio.p);
    vec![
        match p.is_some_and(|p| p < SIGNIFICANCE) || least.1 == most.1 {
            true => capital(&text),
            false => format!("Nothing is certain to differ; by their means {text}"),
        },
    ]
}

/// Returns a row's label, with the factor if the label is a number only.
fn name(group: &Group, row: &Row) -> String {
    let label = row.label();
    match group.factors[..] {
        [factor] if label.parse::<f64>().is_ok() => format!("{factor} = {label}"),
        _ => label,
    }
}

/// Capitalises the first letter of a sentence, unless the sentence starts with a label.
fn capital(text: &str) -> String {
    match text.strip_prefix("all ") {
        Some(rest) => format!("All {rest}"),
        None => text.to_owned(),
    }
}

/// Returns a sentence that explains the gains of a group.
#[must_use]
pub fn gain_meaning(group: &Group) -> String {
    match group.primary.name {
        TIME => "A gain is the speedup over the baseline, minus one.".to_owned(),
        _ => format!("A gain is in {}, over the baseline's.", group.primary.title),
    }
}

/// Formats a gain as `+17.0 % [12.0, 21.0]`, or as `5.0 times [4.8, 5.2]` from three times on, with
/// the p-value if there is one.
#[must_use]
pub fn gain_text(effect: &Effect) -> String {
    let mut text = gain_interval(effect);
    if let Some(p) = effect.p {
        let p = if p < 0.001 {
            "p < 0.001".to_owned()
        } else {
            format!("p = {p:.3}")
        };
        text.push_str(&format!(" ({p})"));
    }
    text
}

/// Formats a gain and its interval.
pub(super) fn gain_interval(effect: &Effect) -> String {
    let is_times = effect.share >= TIMES_MIN;
    let number = |share: f64| match is_times {
        true => format!("{:.1}", share + 1.0),
        // Avoids printing -0.04 % as -0.0 %.
        false => format!("{:.1}", (share * 1000.0).round() / 10.0 + 0.0),
    };
    let mut text = match (is_times, number(effect.share)) {
        (true, factor) => format!("{factor} times"),
        (false, percent) if effect.share > 0.0 && percent != "0.0" => format!("+{percent} %"),
        (false, percent) => format!("{percent} %"),
    };
    if let Some(interval) = effect.interval {
        let (low, high) = (number(interval.low), number(interval.high));
        text.push_str(&format!(" [{low}, {high}]"));
    }
    text
}
