//! The figures as tables, as JSON, and the list of works.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use lab::statistics::paired::ByRepetition;
use serde_json::{Value, json};

use super::rounds::{Measured, MeasuredCase};
use super::side::Side;
use super::verdict::{Compared, Verdict};
use super::work::{Case, Figure, Work};
use crate::machine::Machine;
use crate::spans::Spans;

const INFALLIBLE: &str = "writing to a string does not fail";
const HEADS: [&str; 7] = [
    "case",
    "figure",
    "side",
    "median",
    "times as fast",
    "bar",
    "",
];
/// Columns with numbers.
const NUMBERS: [usize; 3] = [3, 4, 5];

/// A row: a figure of a side in a case.
struct Row<'m> {
    side: Side,
    values: &'m ByRepetition,
    compared: Option<Compared>,
    bar: Option<f64>,
}

impl Row<'_> {
    fn verdict(&self) -> Option<Verdict> {
        let compared = self.compared.as_ref()?;
        Some(Verdict::of(compared.ratio.interval(), self.bar?))
    }

    /// Returns the last four cells.
    fn cells(&self) -> [String; 4] {
        let ratio =
            |compared: &Compared| format!("{} of {}", compared.ratio.shown(), compared.peer);
        [
            shown(self.values),
            self.compared.as_ref().map_or_else(String::new, ratio),
            self.bar.map_or_else(String::new, |bar| format!("{bar:.2}")),
            self.verdict().map_or("", Verdict::name).to_owned(),
        ]
    }

    fn to_json(&self) -> Value {
        let ratio = self.compared.as_ref().map(|compared| compared.ratio);
        let interval = ratio.and_then(crate::ratio::Ratio::interval);
        json!({
            "side": self.side.name(),
            "values": self.values.values().collect::<Vec<_>>(),
            "median": spans(self.values).median(),
            "peer": self.compared.as_ref().map(|compared| &compared.peer),
            "ratio": ratio.map(crate::ratio::Ratio::mean),
            "ratio_interval": interval.map(|own| [own.low, own.high]),
            "bar": self.bar,
            "verdict": self.verdict().map(Verdict::name),
        })
    }
}

impl Measured<'_> {
    /// Returns the rows of a figure in a case, of the sides that were measured.
    fn rows<'m>(&'m self, case: &'m MeasuredCase<'_>, index: usize) -> Vec<Row<'m>> {
        let figure = self.work.figures[index];
        let sides = self.work.sides.iter().copied();
        sides
            .filter_map(|side| {
                Some(Row {
                    side,
                    values: case.values(side, index)?,
                    compared: self.compared(case, side, index),
                    bar: self.work.bar(case.case, side, figure),
                })
            })
            .collect()
    }

    /// Returns the verdicts on all bars.
    fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        let figures = 0..self.work.figures.len();
        figures.flat_map(move |index| {
            let rows = self
                .cases
                .iter()
                .flat_map(move |case| self.rows(case, index));
            rows.filter_map(|row| row.verdict())
        })
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(HEADS);
        for case in &self.cases {
            let mut case_name = case.case.name.clone();
            for (index, figure) in self.work.figures.iter().enumerate() {
                let mut figure_name = format!("{}, {}", figure.name, figure.unit);
                for row in self.rows(case, index) {
                    let names = [
                        std::mem::take(&mut case_name),
                        std::mem::take(&mut figure_name),
                    ];
                    let side = [row.side.name().to_owned()];
                    let cells = names.into_iter().chain(side).chain(row.cells());
                    table.add_row(cells.enumerate().map(|(column, text)| {
                        let cell = Cell::new(text);
                        match NUMBERS.contains(&column) {
                            true => cell.set_alignment(CellAlignment::Right),
                            false => cell,
                        }
                    }));
                }
            }
        }
        table
    }
}

/// Returns the tables of all works, for people.
pub(super) fn text(machine: &Machine, works: &[Measured<'_>]) -> String {
    let mut text = String::new();
    let mut verdicts =
        [Verdict::Reached, Verdict::Missed, Verdict::WithinNoise].map(|own| (own, 0));
    for measured in works {
        let Work { name, title, .. } = measured.work;
        writeln!(text, "{name}: {title}\n{}\n", measured.table()).expect(INFALLIBLE);
        for (verdict, count) in &mut verdicts {
            *count += measured.verdicts().filter(|own| own == verdict).count();
        }
    }
    let bars = verdicts.map(|(verdict, count)| format!("{count} {}", verdict.name()));
    writeln!(
        text,
        "Medians of the runs, with the least and the greatest. \"Times as fast\" is the mean ratio of speeds over the runs of a round, with its 95 % interval: \
         2.00 is half of the time, or twice the rate.\nA bar is reached or missed if the whole interval is. Bars: {}.\n{}",
        bars.join(", "),
        machine.text()
    )
    .expect(INFALLIBLE);
    text
}

/// Returns all figures as JSON.
pub(super) fn json(machine: &Machine, works: &[Measured<'_>]) -> Value {
    let works = works.iter().map(|measured| {
        let cases = measured.cases.iter().map(|case| {
            let figures = measured.work.figures.iter().enumerate();
            let figures = figures.map(|(index, figure)| {
                let rows = measured.rows(case, index);
                json!({
                    "figure": figure.name,
                    "unit": figure.unit,
                    "sides": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
                })
            });
            json!({ "case": case.case.name, "figures": figures.collect::<Vec<_>>() })
        });
        json!({
            "work": measured.work.name,
            "title": measured.work.title,
            "cases": cases.collect::<Vec<_>>(),
        })
    });
    json!({ "machine": machine.to_json(), "works": works.collect::<Vec<_>>() })
}

/// Returns the list of works, with their cases, sides and bars.
pub(super) fn list(works: &[Work]) -> String {
    let mut text = String::new();
    for work in works {
        let sides: Vec<&str> = work.sides.iter().map(|side| side.name()).collect();
        let judged: Vec<&str> = work.judged.iter().map(|side| side.name()).collect();
        let case = |case: &Case| match case.bar {
            Some(bar) => format!("{} (bar {bar:.2} for {})", case.name, judged.join(", ")),
            None => case.name.clone(),
        };
        let cases: Vec<String> = work.cases.iter().map(case).collect();
        let figures: Vec<&str> = work
            .figures
            .iter()
            .map(|figure: &Figure| figure.name)
            .collect();
        writeln!(
            text,
            "{}\n    {}\n    sides: {}\n    cases: {}\n    figures: {}",
            work.name,
            work.title,
            sides.join(", "),
            cases.join("; "),
            figures.join(", ")
        )
        .expect(INFALLIBLE);
    }
    text
}

fn spans(values: &ByRepetition) -> Spans {
    Spans::new(values.values().copied().collect())
}

/// Returns the median and the range.
fn shown(values: &ByRepetition) -> String {
    let spans = spans(values);
    let [median, least, greatest] = [spans.median(), spans.least(), spans.greatest()]
        .map(|value| digits(value, spans.median()));
    format!("{median} ({least} to {greatest})")
}

/// Returns a number with about three digits, as one of the size of `like` has.
fn digits(value: f64, like: f64) -> String {
    let decimals = match like {
        like if like >= 100.0 => 0,
        like if like >= 10.0 => 1,
        like if like >= 0.1 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_of_their_median() {
        let values = |all: &[f64]| (0..).zip(all.iter().copied()).collect::<ByRepetition>();
        assert_eq!(shown(&values(&[1.5, 12.25, 130.0])), "12.2 (1.5 to 130.0)");
        assert_eq!(shown(&values(&[0.0123])), "0.0123 (0.0123 to 0.0123)");
        assert_eq!(shown(&values(&[12345.6])), "12346 (12346 to 12346)");
    }
}
