//! The claims as a table, for a terminal and for the document.

use std::fmt::Write;

use super::distinct::{present, tally};
use super::number::number;
use super::{Column, Distinct, Machines, Reproduction, Tally, Verdict, distinct};
use crate::plan::Size;
use crate::report::wrapped;

const INFALLIBLE: &str = "writing to a string does not fail";
/// Width of the text.
const COLUMNS_MAX: usize = 100;
/// Width of a claim in a terminal.
const CLAIM_COLUMNS: usize = 26;
/// Width of the published size, and of a verdict with a figure.
const SIZE_COLUMNS: usize = 12;
const VERDICT_COLUMNS: usize = 18;

/// Returns the claims of all plans as a table of at most 100 columns, with their numbers below.
#[must_use]
pub fn table(all: &[Reproduction]) -> String {
    let claims = distinct(all);
    let mut text = String::new();
    let heads = Machines::ALL.map(|machines| match machines {
        Machines::Guest => "6.1, sim. disk".to_owned(),
        other => other.head().to_owned(),
    });
    line(&mut text, "", "published", heads);
    for (source, claims) in by_source(&claims) {
        writeln!(text, "\n{source}").expect(INFALLIBLE);
        for claim in claims {
            let published = claim.size.map_or_else(String::new, ratio);
            let cells = Machines::ALL.map(|machines| {
                let column = claim.on(machines);
                let parts = [short(column).to_owned(), ours(column, false)];
                parts.join(" ").trim_end().to_owned()
            });
            line(&mut text, &claim.text, &published, cells);
        }
    }
    text.push_str("\nyes: reproduced; direction: direction only; no: not reproduced\n");
    for (machines, name) in Machines::ALL.into_iter().zip([
        "simulated machines",
        "the running kernel",
        "kernel 6.1 with simulated disks",
    ]) {
        let counts = counts(tally(&claims, machines));
        for line in wrapped(&format!("On {name}: {counts}."), COLUMNS_MAX) {
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

fn line(text: &mut String, claim: &str, size: &str, cells: [String; Machines::ALL.len()]) {
    let mut lines = wrapped(claim, CLAIM_COLUMNS).into_iter();
    let head = lines.next().unwrap_or_default();
    let mut first = format!("{head:<CLAIM_COLUMNS$}  {size:<SIZE_COLUMNS$}");
    for cell in &cells {
        write!(first, "  {cell:<VERDICT_COLUMNS$}").expect(INFALLIBLE);
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

/// Writes the claims as tables in Markdown, one for each source, with a column for each kind of
/// machines that has a plan.
pub(super) fn markdown(text: &mut String, claims: &[Distinct]) {
    let present = present(claims);
    let heads = present
        .iter()
        .map(|machines| format!(" {} | ours |", machines.head()));
    let heads: String = heads.collect();
    let rule = "---|---|".repeat(present.len());
    for (source, claims) in by_source(claims) {
        writeln!(
            text,
            "\n### {source}\n\n| claim | published |{heads}\n|---|---|{rule}"
        )
        .expect(INFALLIBLE);
        for claim in claims {
            let also = match claim.sources.get(1..) {
                Some([]) | None => String::new(),
                Some(others) => format!(" (also: {})", others.join("; ")),
            };
            let columns = present.iter().map(|machines| {
                let column = claim.on(*machines);
                format!(" {} | {} |", verdict(column), ours(column, true))
            });
            let size = claim.size.map_or_else(String::new, ratio);
            let columns: String = columns.collect();
            writeln!(text, "| {}{also} | {size} |{columns}", claim.text).expect(INFALLIBLE);
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

/// Returns a verdict in one word; nothing if no plan of this kind has the claim.
fn short(column: &Column) -> &'static str {
    match (&column.plan, column.verdict) {
        (None, _) => "",
        (_, Verdict::Reproduced) => "yes",
        (_, Verdict::NotReproduced) => "no",
        (_, Verdict::DirectionOnly) => "direction",
        (_, Verdict::NotRun) => "not run",
        (_, other) => other.name(),
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
