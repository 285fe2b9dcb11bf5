//! The claims as a table, for a terminal and for the document.

use std::fmt::Write;

use super::distinct::tallies;
use super::number::number;
use super::{Column, Distinct, Reproduction, Tally, Verdict, distinct};
use crate::plan::Size;
use crate::report::wrapped;

const INFALLIBLE: &str = "writing to a string does not fail";
/// Width of the text.
const COLUMNS_MAX: usize = 100;
/// Width of a claim in a terminal.
const CLAIM_COLUMNS: usize = 33;
/// Widths of the other columns: the published size, and a verdict and a figure of each kind.
const COLUMNS: [usize; 5] = [9, 14, 10, 14, 10];

/// Returns the claims of all plans as a table of at most 100 columns, with their numbers below.
#[must_use]
pub fn table(all: &[Reproduction]) -> String {
    let claims = distinct(all);
    let mut text = String::new();
    line(
        &mut text,
        "",
        ["published", "simulated", "", "kernel", ""].map(str::to_owned),
    );
    for (source, claims) in by_source(&claims) {
        writeln!(text, "\n{source}").expect(INFALLIBLE);
        for claim in claims {
            let published = claim.size.map_or_else(String::new, ratio);
            let cells = |column: &Column| (verdict(column).to_owned(), ours(column, false));
            let ((simulated, by), (kernel, also)) = (cells(&claim.simulated), cells(&claim.kernel));
            line(
                &mut text,
                &claim.text,
                [published, simulated, by, kernel, also],
            );
        }
    }
    let (simulated, kernel) = tallies(&claims);
    text.push('\n');
    for (machines, tally) in [
        ("simulated machines", simulated),
        ("the running kernel", kernel),
    ] {
        for line in wrapped(&format!("On {machines}: {}.", counts(tally)), COLUMNS_MAX) {
            writeln!(text, "{line}").expect(INFALLIBLE);
        }
    }
    text
}

/// Returns the claims of each source, in the order of its first claim.
fn by_source(claims: &[Distinct]) -> Vec<(&str, Vec<&Distinct>)> {
    let mut all: Vec<(&str, Vec<&Distinct>)> = Vec::new();
    for claim in claims {
        let source = claim.sources[0].as_str();
        match all.iter_mut().find(|(own, _)| *own == source) {
            Some((_, own)) => own.push(claim),
            None => all.push((source, vec![claim])),
        }
    }
    all
}

fn line(text: &mut String, claim: &str, cells: [String; 5]) {
    let mut lines = wrapped(claim, CLAIM_COLUMNS).into_iter();
    let mut first = format!("{:<CLAIM_COLUMNS$}", lines.next().unwrap_or_default());
    for (cell, columns) in cells.iter().zip(COLUMNS) {
        write!(first, "  {cell:<columns$}").expect(INFALLIBLE);
    }
    writeln!(text, "{}", first.trim_end()).expect(INFALLIBLE);
    lines.for_each(|line| writeln!(text, "  {line}").expect(INFALLIBLE));
}

/// Returns the numbers of claims with each verdict as a sentence without its end.
pub(super) fn counts(tally: Tally) -> String {
    let run = tally.run();
    let parts = Verdict::ALL.iter().filter(|verdict| verdict.is_run());
    let parts = parts.map(|verdict| format!("{} {}", tally.of(*verdict), verdict.name()));
    let mut text = format!("{run} claims run, {}", parts.collect::<Vec<_>>().join(", "));
    for verdict in [Verdict::InMemory, Verdict::NotRun] {
        let count = tally.of(verdict);
        if count > 0 {
            write!(text, "; {count} {}", verdict.name()).expect(INFALLIBLE);
        }
    }
    text
}

/// Writes the claims as tables in Markdown, one for each source.
pub(super) fn markdown(text: &mut String, claims: &[Distinct]) {
    for (source, claims) in by_source(claims) {
        writeln!(
            text,
            "\n### {source}\n\n| claim | published | simulated | ours | kernel | ours |\n|---|---|---|---|---|---|"
        )
        .expect(INFALLIBLE);
        for claim in claims {
            let also = match claim.sources.get(1..) {
                Some([]) | None => String::new(),
                Some(others) => format!(" (also: {})", others.join("; ")),
            };
            let column = |column: &Column| format!("{} | {}", verdict(column), ours(column, true));
            writeln!(
                text,
                "| {}{also} | {} | {} | {} |",
                claim.text,
                claim.size.map_or_else(String::new, ratio),
                column(&claim.simulated),
                column(&claim.kernel)
            )
            .expect(INFALLIBLE);
        }
    }
}

/// Returns a verdict; nothing if no plan of this kind has the claim.
fn verdict(column: &Column) -> &'static str {
    match column.plan {
        Some(_) => column.verdict.name(),
        None => "",
    }
}

fn ours(column: &Column, has_interval: bool) -> String {
    if let Some(own) = column.ratio {
        let factor = |log: f64| number(libm::exp(log));
        let mut text = factor(own.mean);
        if let Some(interval) = own.interval.filter(|_| has_interval) {
            let (low, high) = (factor(interval.low), factor(interval.high));
            write!(text, " [{low}, {high}]").expect(INFALLIBLE);
        }
        return text;
    }
    column.figure.map_or_else(String::new, |(kind, mean)| {
        format!(
            "{} {}",
            number(kind.in_display_unit(mean.value)),
            kind.display.unit
        )
    })
}

fn ratio(size: Size) -> String {
    match size.least == size.most {
        true => number(size.least),
        false => format!("{} to {}", number(size.least), number(size.most)),
    }
}
