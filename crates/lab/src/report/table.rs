//! A report as text, the same for every terminal, because it is compared digit by digit.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

use super::findings::{Findings, Mark};
use super::{BlockReport, Group, Report, Row, SATURATION, TIE, answer};
use crate::metric::MetricKind;
use crate::statistics::Mean;
use crate::statistics::effect::Ratio;

/// The figures of the second table, from the engine; those of the first are the workload's.
const ENGINE: [&str; 21] = [
    "commits",
    "log_blocks",
    "checkpoint_blocks",
    "superseded_blocks",
    "flushes",
    "home_reads",
    "home_writes",
    "stalled_closing",
    "stalled_log_space",
    "stalled_log_io",
    "stalled_commit",
    "stalled_dirty_limit",
    "stalled_memory",
    "stalled_rewrite",
    "controller_read_hits",
    "controller_throttled_writes",
    "controller_bytes_replaced",
    "controller_bytes_destaged",
    "controller_destages",
    "disk_time",
    "cpu_time",
];
/// The mark of an unknown figure.
const ABSENT: &str = "-";
/// Maximum number of reversed pairs that are named.
const SWAPPED_MAX: usize = 4;
const INFALLIBLE: &str = "writing to a string does not fail";

pub(super) fn render(report: &Report) -> String {
    let mut text = format!("{}: {}\n", report.plan, report.question);
    for block in &report.blocks {
        render_block(&mut text, block);
    }
    for warning in &report.warnings {
        writeln!(text, "\nwarning: {warning}").expect(INFALLIBLE);
    }
    if report.missing > 0 {
        let trials = if report.missing == 1 {
            "trial has"
        } else {
            "trials have"
        };
        writeln!(text, "\n{} {trials} no record yet.", report.missing).expect(INFALLIBLE);
    }
    text
}

fn render_block(text: &mut String, block: &BlockReport) {
    writeln!(text, "\n{}", block.title).expect(INFALLIBLE);
    if !block.why.is_empty() {
        for line in wrapped(&block.why, 118) {
            writeln!(text, "  {line}").expect(INFALLIBLE);
        }
    }
    for group in &block.groups {
        for (factor, label) in &group.common {
            writeln!(text, "\n{factor} = {label}").expect(INFALLIBLE);
        }
        writeln!(text, "{}", results(group)).expect(INFALLIBLE);
        writeln!(text, "{}", engine(group)).expect(INFALLIBLE);
        render_findings(text, group);
    }
    for source in &block.sources {
        writeln!(text, "  Published: {source}.").expect(INFALLIBLE);
    }
}

/// Builds the table of figures with the published ones and the gain over the baseline.
fn results(group: &Group) -> Table {
    let (kinds, primary) = (&group.shown, group.primary);
    let ratio = Ratio::of(primary.better);
    let is_published = |kind: &MetricKind| {
        group
            .rows
            .iter()
            .any(|row| row.published.contains_key(kind.name))
    };
    let baseline = group.rows.iter().find(|row| row.is_baseline);
    let mut head: Vec<String> = heads_of_factors(group);
    for kind in kinds {
        head.push(two_lines(kind));
        if is_published(kind) {
            head.extend(["published".to_owned(), "error".to_owned()]);
        }
    }
    if baseline.is_some() {
        head.push("gain".to_owned());
        if is_published(primary) {
            head.push("published\ngain".to_owned());
        }
    }
    let mut table = table(head, group.factors.len());
    for row in &group.rows {
        let mut cells = labels(group, row);
        for kind in kinds {
            cells.push(figure(kind, row));
            if is_published(kind) {
                cells.push(
                    row.published
                        .get(kind.name)
                        .map_or_else(absent, |v| kind.text(*v)),
                );
                cells.push(row.error(kind.name).map_or_else(absent, percent));
            }
        }
        if let Some(baseline) = baseline {
            let own = |of: &dyn Fn(&Row) -> Option<f64>| {
                if row.is_baseline {
                    return absent();
                }
                let share = of(baseline)
                    .zip(of(row))
                    .and_then(|(base, own)| ratio.share(base, own));
                share.map_or_else(absent, percent)
            };
            cells.push(own(&|row| row.value(primary.name)));
            if is_published(primary) {
                cells.push(own(&|row| row.published.get(primary.name).copied()));
            }
        }
        add(&mut table, cells, group.factors.len());
    }
    table
}

/// Builds the table of the engine's work and of its callers' waits.
fn engine(group: &Group) -> Table {
    let is_known = |kind: &&MetricKind| {
        group
            .rows
            .iter()
            .any(|row| row.figures.contains_key(kind.name))
    };
    let kinds: Vec<&MetricKind> = ENGINE
        .iter()
        .filter_map(|name| MetricKind::named(name))
        .filter(is_known)
        .collect();
    let mut head = heads_of_factors(group);
    head.extend(kinds.iter().map(|kind| {
        let stalled = kind.name.starts_with("stalled_");
        if stalled {
            format!("s stalled by\n{}", kind.title)
        } else {
            two_lines(kind)
        }
    }));
    let mut table = table(head, group.factors.len());
    for row in &group.rows {
        let figures = kinds.iter().map(|kind| figure(kind, row));
        let cells = labels(group, row).into_iter().chain(figures).collect();
        add(&mut table, cells, group.factors.len());
    }
    table
}

fn render_findings(text: &mut String, group: &Group) {
    let Findings {
        ours,
        published,
        furthest,
        ..
    } = &group.findings;
    let Some(baseline) = group.rows.iter().find(|row| row.is_baseline) else {
        return;
    };
    let is_complete = group
        .rows
        .iter()
        .all(|row| row.value(group.primary.name).is_some());
    if !is_complete || group.rows.len() < 2 {
        return;
    }
    let mut say = |line: String| writeln!(text, "  {line}.").expect(INFALLIBLE);
    let baseline = baseline.label();
    let theirs = beside(published.first_gain.as_ref());
    say(match &ours.first_gain {
        Some(Mark { label, share }) => {
            format!(
                "First that beats {baseline}: {label}, by {}{theirs}",
                percent(*share)
            )
        }
        None => format!("None beats {baseline}{theirs}"),
    });
    // Levels without an order have no next level.
    let has_order = answer::is_ordered(group.rows.iter().filter(|row| !row.is_baseline));
    if group.rows.len() > 2 && (has_order || published.saturation.is_some()) {
        let rule = format!(
            "where the next one gains less than {:.0} %",
            SATURATION * 100.0
        );
        let theirs = beside(published.saturation.as_ref());
        say(match &ours.saturation {
            Some(Mark { label, share }) => {
                format!("Saturation, {rule}: {label}, {}{theirs}", percent(*share))
            }
            None => format!("No saturation, {rule}{theirs}"),
        });
    }
    if group.rows.iter().any(|row| row.count > 1) {
        for sentence in answer::sentences(group) {
            say(sentence.trim_end_matches('.').to_owned());
        }
    }
    if let Some((label, share)) = furthest {
        say(format!(
            "Furthest from its published figure: {label}, {}",
            percent(*share)
        ));
    }
    if let Some(line) = order(&group.findings) {
        say(line);
    }
}

/// Formats a published finding for the end of ours.
fn beside(mark: Option<&Mark>) -> String {
    mark.map_or_else(String::new, |Mark { label, share }| {
        format!("; published: {label}, {}", percent(*share))
    })
}

/// Compares the order of the rows with the published one, as a sentence.
fn order(findings: &Findings) -> Option<String> {
    let Findings { pairs, swapped, .. } = findings;
    if *pairs == 0 {
        return None;
    }
    let (kept, tie) = (pairs - swapped.len(), TIE * 100.0);
    let named: Vec<String> = swapped
        .iter()
        .take(SWAPPED_MAX)
        .map(|(a, b)| format!("{a} and {b}"))
        .collect();
    let not = match named.is_empty() {
        true => String::new(),
        false => format!("; not: {}", named.join(", ")),
    };
    Some(format!(
        "Order as published in {kept} of {pairs} pairs that differ by more than {tie:.0} %{not}"
    ))
}

fn heads_of_factors(group: &Group) -> Vec<String> {
    if group.factors.is_empty() {
        return vec!["trial".to_owned()];
    }
    group
        .factors
        .iter()
        .map(|name| (*name).to_owned())
        .collect()
}

fn labels(group: &Group, row: &Row) -> Vec<String> {
    if group.factors.is_empty() {
        vec![row.label()]
    } else {
        row.labels.clone()
    }
}

fn two_lines(kind: &MetricKind) -> String {
    match kind.display.unit {
        "" => kind.title.replace(' ', "\n"),
        unit => format!("{}\n{unit}", kind.title),
    }
}

fn figure(kind: &MetricKind, row: &Row) -> String {
    let mean = row.figures.get(kind.name);
    mean.map_or_else(absent, |mean| mean_text(kind, *mean))
}

/// Formats a mean with half of its interval, if there is one.
pub(super) fn mean_text(kind: &MetricKind, mean: Mean) -> String {
    match mean.half_interval {
        Some(half) => format!("{} ± {}", kind.text(mean.value), kind.text(half)),
        None => kind.text(mean.value),
    }
}

fn percent(share: f64) -> String {
    // Avoids printing -0.04 % as -0.0 %.
    let rounded = (share * 1000.0).round() / 10.0;
    if rounded == 0.0 {
        "0.0 %".to_owned()
    } else {
        format!("{rounded:+.1} %")
    }
}

pub(super) fn absent() -> String {
    ABSENT.to_owned()
}

pub(super) fn table(head: Vec<String>, texts: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(aligned(head, texts));
    table
}

pub(super) fn add(table: &mut Table, cells: Vec<String>, texts: usize) {
    table.add_row(aligned(cells, texts));
}

/// Aligns texts to the left, figures to the right.
fn aligned(cells: Vec<String>, texts: usize) -> Vec<Cell> {
    let aligned = cells.into_iter().enumerate().map(|(index, text)| {
        let alignment = if index < texts.max(1) {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        Cell::new(text).set_alignment(alignment)
    });
    aligned.collect()
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
