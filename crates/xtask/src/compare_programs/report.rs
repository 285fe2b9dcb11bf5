//! The comparison as a table and as JSON, with a verdict for each figure.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use lab::statistics::{Interval, Sample, bootstrap, median};
use serde_json::{Value, json};

use super::Comparison;
use super::place::Place;
use crate::machine::Machine;

/// Maximum deviation of a ratio from one.
const TOLERANCE: f64 = 0.05;
/// Seed of the bootstrap intervals.
const SEED: u64 = 1;
const HEADS: [&str; 6] = [
    "program",
    "figure",
    "Debian's",
    "jext's",
    "ratio, 95 % interval",
    "",
];

/// Verdict on a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Agree,
    Differ,
    Undecided,
}

/// One figure of all rounds.
struct Line {
    name: &'static str,
    unit: &'static str,
    theirs: Vec<f64>,
    ours: Vec<f64>,
    ratio: f64,
    interval: Option<Interval>,
}

impl Verdict {
    fn of(ratio: f64, interval: Option<Interval>) -> Self {
        let near = |ratio: f64| (ratio - 1.0).abs() <= TOLERANCE;
        match interval {
            _ if ratio.is_nan() => Self::Undecided,
            None if near(ratio) => Self::Agree,
            None => Self::Differ,
            Some(Interval { low, high }) if near(low) && near(high) => Self::Agree,
            Some(Interval { low, high }) if low > 1.0 + TOLERANCE || high < 1.0 - TOLERANCE => {
                Self::Differ
            }
            Some(_) => Self::Undecided,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Differ => "differ",
            Self::Undecided => "undecided",
        }
    }
}

impl Line {
    /// Returns a figure of the rounds in which both sides have it, or none if there is no such
    /// round.
    fn of(comparison: &Comparison, (name, unit): (&'static str, &'static str)) -> Option<Self> {
        let rounds = comparison.theirs.iter().zip(&comparison.ours);
        let pairs =
            rounds.filter_map(|(theirs, ours)| Some((theirs.figure(name)?, ours.figure(name)?)));
        let (theirs, ours): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs);
        let ratios = Sample::new(ratios.collect())?;
        Some(Self {
            name,
            unit,
            theirs,
            ours,
            ratio: median(ratios.values()),
            interval: bootstrap::interval(&[&ratios], |drawn| median(drawn[0]), SEED),
        })
    }

    fn verdict(&self) -> Verdict {
        Verdict::of(self.ratio, self.interval)
    }
}

pub(super) fn text(machine: &Machine, place: &Place, comparisons: &[Comparison]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(HEADS);
    for comparison in comparisons {
        for figure in comparison.peer.figures() {
            let cells = match Line::of(comparison, *figure) {
                Some(line) => [
                    amount(median(&line.theirs), line.unit),
                    amount(median(&line.ours), line.unit),
                    ratio_text(line.ratio, line.interval),
                    line.verdict().name().to_owned(),
                ],
                None => ["not printed", "", "", ""].map(str::to_owned),
            };
            let mut row = vec![Cell::new(comparison.peer.name()), Cell::new(figure.0)];
            row.extend(cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
            table.add_row(row);
        }
    }
    let rounds = comparisons.first().map_or(0, |first| first.theirs.len());
    let place = place.text();
    let percent = TOLERANCE * 100.0;
    format!(
        "{table}\nMedians of {rounds} rounds, {place}. They agree if the whole interval of the ratio is within {percent} % of 1, \
         and differ if all of it is outside.\n{}\n",
        machine.text()
    )
}

pub(super) fn json(machine: &Machine, place: &Place, comparisons: &[Comparison]) -> Value {
    let programs: Vec<Value> = comparisons
        .iter()
        .map(|comparison| {
            let figures = comparison.peer.figures().iter();
            let lines = figures.filter_map(|figure| Line::of(comparison, *figure));
            json!({
                "program": comparison.peer.name(),
                "figures": lines.map(|line| line_json(&line)).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "machine": machine.to_json(),
        "place": place.text(),
        "tolerance": TOLERANCE,
        "programs": programs,
    })
}

fn line_json(line: &Line) -> Value {
    json!({
        "figure": line.name,
        "unit": line.unit,
        "debian": line.theirs,
        "jext": line.ours,
        "ratio": line.ratio,
        "interval": line.interval.map(|interval| [interval.low, interval.high]),
        "verdict": line.verdict().name(),
    })
}

fn ratio_text(ratio: f64, interval: Option<Interval>) -> String {
    match interval {
        Some(Interval { low, high }) => format!("{ratio:.3} [{low:.3}, {high:.3}]"),
        None => format!("{ratio:.3}"),
    }
}

fn amount(value: f64, unit: &str) -> String {
    match unit {
        "B/s" => format!("{:.1} MB/s", value / 1e6),
        "s" => format!("{value:.2} s"),
        unit => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_the_whole_interval() {
        let of = |ratio, low, high| Verdict::of(ratio, Some(Interval { low, high }));
        assert_eq!(of(1.01, 0.96, 1.04), Verdict::Agree);
        assert_eq!(of(1.01, 0.94, 1.04), Verdict::Undecided);
        assert_eq!(of(1.1, 1.06, 1.2), Verdict::Differ);
        assert_eq!(of(0.8, 0.7, 0.94), Verdict::Differ);
        assert_eq!(of(0.9, 0.8, 1.2), Verdict::Undecided);
        assert_eq!(Verdict::of(1.0, None), Verdict::Agree, "one round");
        assert_eq!(Verdict::of(1.2, None), Verdict::Differ);
    }
}
