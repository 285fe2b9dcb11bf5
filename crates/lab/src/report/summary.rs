//! [`Summary`]: what several plans say to take, on one page, and what a power cut costs it.
//!
//! - *Take* is the first row, in the plan's order, that is certain to be hardly behind the best of
//!   those that are certain to beat the baseline: `summary/advice.rs`.
//! - With a plan of power cuts there is a second line without the rows that have wrong data after
//!   a cut, if it says to take another row.
//! - What a power cut costs is what that plan measured for the rows with the same labels.
//! - A plan without a baseline, such as one of other file systems with the same load, has nothing
//!   to say about what to take: its figures stand beside the others.

mod advice;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::answer::{gain_interval, sentences};
use super::json::commits;
use super::recommendation::trials_per_row;
use super::table::{absent, add, figure, table, two_lines};
use super::{BlockReport, Group, Report, Row, wrapped};
use crate::metric::MetricKind;
use advice::{Advice, BEHIND_MAX, Compared};

/// Number of columns of a paragraph. Tables are as wide as their labels.
const COLUMNS: usize = 100;
/// The figures of what a power cut costs.
const LOSS: [&str; 4] = ["lost_bytes", "wrong_bytes", "synced_lost_bytes", "lost_age"];
/// Figures of which a row with wrong data after a power cut has one above zero.
const WRONG: &str = "wrong_bytes";
/// The figure that a load which syncs nothing does not have.
const SYNCED: &str = "synced_lost_bytes";
/// Number of columns at the start of a table that have texts.
const TEXTS: usize = 4;

/// The advice of several plans.
#[derive(Debug)]
pub struct Summary<'r> {
    reports: &'r [Report],
    loss: Option<&'r Report>,
}

/// A line of the summary: the advice for a group, among all rows or those without wrong data.
struct Line<'r> {
    block: String,
    is_safe: bool,
    advice: Advice<'r>,
    baseline: &'r Row,
    primary: &'static MetricKind,
}

/// Returns true if a report is of a plan of power cuts.
#[must_use]
pub fn has_losses(report: &Report) -> bool {
    let groups = report.blocks.iter().flat_map(|block| &block.groups);
    groups.into_iter().any(is_of_cuts)
}

/// Returns true if a report has blocks that are compared by time or rate.
#[must_use]
pub fn has_times(report: &Report) -> bool {
    timed(report).next().is_some()
}

impl<'r> Summary<'r> {
    /// Summarises reports. `loss` is that of a plan of power cuts with the same rows.
    #[must_use]
    pub fn of(reports: &'r [Report], loss: Option<&'r Report>) -> Self {
        Self { reports, loss }
    }

    /// Returns the summary as text.
    #[must_use]
    pub fn text(&self) -> String {
        let wrong = self.wrong();
        let mut said = String::new();
        let mut taken = BTreeSet::new();
        for report in self.reports {
            let title = format!("{}: {}", report.plan, report.question);
            push(&mut said, &title, "");
            timed(report).for_each(|block| push_title(&mut said, block));
            match has_baseline(report) {
                true => add_lines(&mut said, report, &wrong, &mut taken),
                false => add_figures(&mut said, report),
            }
            add_doubts(&mut said, report);
            said.push('\n');
        }
        if let Some(loss) = self.loss {
            add_loss(&mut said, loss, &taken);
        }
        said
    }

    /// Returns the summary as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let wrong = self.wrong();
        let plans = self.reports.iter().map(|report| {
            let lines = lines(report, &wrong);
            let figures = match has_baseline(report) {
                true => Vec::new(),
                false => rows(report).map(figure_json).collect(),
            };
            json!({
                "plan": report.plan,
                "plan_hash": report.plan_hash,
                "question": report.question,
                "lines": lines.iter().map(line_json).collect::<Vec<_>>(),
                "figures": figures,
                "missing_trials": report.missing,
                "commits": commits(report),
                "warnings": report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        });
        json!({
            "plans": plans.collect::<Vec<_>>(),
            "loss": self.loss.map(|report| report.json()),
        })
    }

    /// Returns the labels of the rows that have wrong data after a power cut.
    fn wrong(&self) -> BTreeSet<String> {
        let blocks = self.loss.iter().flat_map(|report| &report.blocks);
        let rows = blocks
            .flat_map(|block| &block.groups)
            .flat_map(|group| &group.rows);
        let is_wrong = |row: &&Row| row.figures.get(WRONG).is_some_and(|mean| mean.value > 0.0);
        rows.filter(is_wrong).map(Row::label).collect()
    }
}

/// Adds a text in lines, each after `margin`.
fn push(said: &mut String, text: &str, margin: &str) {
    for line in wrapped(text, COLUMNS - margin.len()) {
        said.push_str(margin);
        said.push_str(&line);
        said.push('\n');
    }
}

/// Returns the lines of a report.
fn lines<'r>(report: &'r Report, wrong: &BTreeSet<String>) -> Vec<Line<'r>> {
    let mut lines = Vec::new();
    for (block, group) in groups(report) {
        let Some(compared) = Compared::of(group) else {
            continue;
        };
        let line = |is_safe, advice| Line {
            block: name(block, group),
            is_safe,
            advice,
            baseline: compared.baseline,
            primary: group.primary,
        };
        let all = compared.advice(&BTreeSet::new());
        let safe = compared.advice(wrong);
        let is_wrong = all
            .as_ref()
            .is_some_and(|all| wrong.contains(&all.row().label()));
        lines.extend(all.map(|all| line(!is_wrong && !wrong.is_empty(), all)));
        lines.extend(safe.filter(|_| is_wrong).map(|safe| line(true, safe)));
    }
    lines
}

/// Adds the table of a report, and says why groups are missing there. The labels of what is named
/// go to `taken`.
fn add_lines(
    said: &mut String,
    report: &Report,
    wrong: &BTreeSet<String>,
    taken: &mut BTreeSet<String>,
) {
    let lines = lines(report, wrong);
    if !lines.is_empty() {
        let measured = figure_head(groups(report).map(|(_, group)| group.primary));
        let head = [
            "block",
            "wrong data",
            "take",
            "gain",
            &measured,
            "on the device",
        ];
        let mut rows = table(head.map(str::to_owned).to_vec(), TEXTS);
        for line in &lines {
            add(&mut rows, cells(line, wrong).to_vec(), TEXTS);
            taken.extend([line.advice.row().label(), line.baseline.label()]);
        }
        said.push_str(&format!("{rows}\n"));
        push(said, &foot(report, &lines), "  ");
    }
    for (block, group) in groups(report) {
        let name = name(block, group);
        match Compared::of(group) {
            Some(compared) if compared.left_out.is_empty() => {}
            Some(compared) => {
                let left_out = compared.left_out.join("; ");
                push(
                    said,
                    &format!("{name}: too few trials of {left_out}."),
                    "  ",
                );
            }
            None => {
                let found = sentences(group);
                let found = match found.is_empty() {
                    true => "nothing to compare.".to_owned(),
                    false => found.join(" "),
                };
                push(said, &format!("{name}: {found}"), "  ");
            }
        }
    }
}

/// Adds the table of a report without a baseline: the figures of all its rows.
fn add_figures(said: &mut String, report: &Report) {
    let measured = figure_head(groups(report).map(|(_, group)| group.primary));
    let mut lines = table(vec!["block".to_owned(), "row".to_owned(), measured], 2);
    for (block, group, row) in rows(report) {
        let cells = [name(block, group), row.label(), figure(group.primary, row)];
        add(&mut lines, cells.to_vec(), 2);
    }
    said.push_str(&format!("{lines}\n"));
    let counted: BTreeSet<String> = groups(report)
        .map(|(_, group)| trials_per_row(group))
        .collect();
    let counted: Vec<&str> = counted.iter().map(String::as_str).collect();
    let foot = format!(
        "Means, and half of their 95 % intervals; trials: {}.",
        counted.join("; ")
    );
    push(said, &foot, "  ");
}

/// Adds reasons to doubt the figures of a report.
fn add_doubts(said: &mut String, report: &Report) {
    match report.missing {
        0 => {}
        1 => push(said, "1 trial is missing.", "  "),
        missing => push(said, &format!("{missing} trials are missing."), "  "),
    }
    for warning in &report.warnings {
        push(said, &format!("Warning: {warning}"), "  ");
    }
}

/// Returns the head of a column of figures, with the unit if they have the same.
fn figure_head(kinds: impl Iterator<Item = &'static MetricKind>) -> String {
    let heads: BTreeSet<String> = kinds.map(two_lines).collect();
    let mut heads = heads.into_iter();
    match (heads.next(), heads.next()) {
        (Some(only), None) => only,
        _ => "figure".to_owned(),
    }
}

/// Returns the cells of a line.
fn cells(line: &Line<'_>, wrong: &BTreeSet<String>) -> [String; 6] {
    let data = match (wrong.is_empty(), line.is_safe) {
        (true, _) => absent(),
        (false, true) => "none".to_owned(),
        (false, false) => "after a cut".to_owned(),
    };
    let (take, gain) = match &line.advice {
        Advice::Take(row, gain) => {
            let gain = gain.as_ref().map(gain_interval);
            (row.label(), gain.unwrap_or_else(absent))
        }
        Advice::Undecided(row, gain) => {
            let most = format!("{}: {}", row.label(), gain_interval(gain));
            ("undecided".to_owned(), most)
        }
    };
    [
        line.block.clone(),
        data,
        take,
        gain,
        mean(line.primary, line.advice.row()),
        on_device(line.advice.row()),
    ]
}

/// Returns the mean of a figure of a row; the gain beside it has an interval.
fn mean(kind: &MetricKind, row: &Row) -> String {
    let mean = row.figures.get(kind.name);
    mean.map_or_else(absent, |mean| kind.text(mean.value))
}

/// Returns the share of the written data that went to the device, and not to a journal elsewhere,
/// while the load ran.
fn on_device(row: &Row) -> String {
    let mean = |name: &str| row.figures.get(name).map(|mean| mean.value);
    match (mean("home_bytes_written"), mean("bytes_written")) {
        (Some(home), Some(all)) if all > 0.0 => format!("{:.1} %", home / all * 100.0),
        _ => absent(),
    }
}

/// Returns what a reader has to know about the table of a report.
fn foot(report: &Report, lines: &[Line<'_>]) -> String {
    let bases: BTreeSet<String> = lines.iter().map(|line| line.baseline.label()).collect();
    let bases: Vec<&str> = bases.iter().map(String::as_str).collect();
    let counted: BTreeSet<String> = groups(report)
        .map(|(_, group)| trials_per_row(group))
        .collect();
    let counted: Vec<&str> = counted.iter().map(String::as_str).collect();
    format!(
        "Gains are over {}, with 95 % intervals; trials: {}. What to take is the first row, in the plan's order, \
         that is certain to be at most {:.0} % behind the best.",
        bases.join("; "),
        counted.join("; "),
        BEHIND_MAX * 100.0
    )
}

fn line_json(line: &Line<'_>) -> Value {
    let (take, highest, gain) = match &line.advice {
        Advice::Take(row, gain) => (Some(row.label()), None, *gain),
        Advice::Undecided(row, gain) => (None, Some(row.label()), Some(*gain)),
    };
    let interval = gain.and_then(|gain| gain.interval);
    json!({
        "block": line.block,
        "is_without_wrong_data": line.is_safe,
        "baseline": line.baseline.label(),
        "take": take,
        "highest_mean": highest,
        "gain": gain.map(|gain| gain.share),
        "gain_interval_95": interval.map(|interval| [interval.low, interval.high]),
    })
}

fn figure_json((block, group, row): (&BlockReport, &Group, &Row)) -> Value {
    let mean = row.figures.get(group.primary.name);
    json!({
        "block": name(block, group),
        "row": row.label(),
        "metric": group.primary.name,
        "mean": mean.map(|mean| mean.value),
        "half_interval_95": mean.and_then(|mean| mean.half_interval),
        "trials": row.count,
    })
}

fn is_of_cuts(group: &Group) -> bool {
    group.primary.name == LOSS[0]
}

/// Returns the groups that are compared by time or rate, each with its block.
fn groups(report: &Report) -> impl Iterator<Item = (&BlockReport, &Group)> {
    timed(report).flat_map(|block| block.groups.iter().map(move |group| (block, group)))
}

/// Returns the rows of the groups that are compared by time or rate.
fn rows(report: &Report) -> impl Iterator<Item = (&BlockReport, &Group, &Row)> {
    groups(report).flat_map(|(block, group)| group.rows.iter().map(move |row| (block, group, row)))
}

/// Returns true if a report compares rows with a baseline.
fn has_baseline(report: &Report) -> bool {
    rows(report).any(|(_, _, row)| row.is_baseline)
}

/// Returns the blocks that are compared by time or rate: what a power cut costs is no gain.
fn timed(report: &Report) -> impl Iterator<Item = &BlockReport> {
    let blocks = report.blocks.iter();
    blocks.filter(|block| !block.groups.iter().all(is_of_cuts))
}

/// Returns the name of a group: that of its block, and the levels that its rows share.
fn name(block: &BlockReport, group: &Group) -> String {
    let levels = group.common.iter().map(|(_, label)| label.as_str());
    let own = match block.name.as_str() {
        "" => &block.title,
        name => name,
    };
    let all: Vec<&str> = std::iter::once(own).chain(levels).collect();
    all.join(", ")
}

/// Adds the title of a block, which the table has by its name.
fn push_title(said: &mut String, block: &BlockReport) {
    if !block.name.is_empty() {
        push(said, &format!("{}: {}", block.name, block.title), "  ");
    }
}

/// Adds what a power cut costs the rows with these labels.
fn add_loss(said: &mut String, report: &Report, taken: &BTreeSet<String>) {
    let title = format!(
        "What a power cut costs them, by {}: {}",
        report.plan, report.question
    );
    push(said, &title, "");
    let is_synced = report.blocks.iter().any(|block| {
        let mut settings = block.settings.iter();
        settings.all(|(key, value)| !key.ends_with(".fsync") || value != "false")
    });
    let names = LOSS.iter().filter(|name| is_synced || **name != SYNCED);
    let kinds: Vec<&MetricKind> = names.filter_map(|name| MetricKind::named(name)).collect();
    let heads = kinds.iter().map(|kind| two_lines(kind));
    let head = ["block", "row"].map(str::to_owned).into_iter();
    let mut lines = table(head.chain(heads).collect(), 2);
    let mut found = BTreeSet::new();
    for block in &report.blocks {
        push_title(said, block);
        let rows = block.groups.iter().flat_map(|group| {
            let own = group.rows.iter();
            own.map(move |row| (group, row))
        });
        for (group, row) in rows.filter(|(_, row)| taken.contains(&row.label())) {
            found.insert(row.label());
            let figures = kinds.iter().map(|kind| figure(kind, row));
            let cells = [name(block, group), row.label()].into_iter();
            add(&mut lines, cells.chain(figures).collect(), 2);
        }
    }
    if !found.is_empty() {
        said.push_str(&format!("{lines}\n"));
        let counted = report.blocks.iter().flat_map(|block| &block.groups);
        let counted: BTreeSet<String> = counted.map(trials_per_row).collect();
        let counted: Vec<&str> = counted.iter().map(String::as_str).collect();
        let synced = match is_synced {
            true => "",
            false => " The load syncs nothing.",
        };
        let text = format!(
            "Means, and half of their 95 % intervals, which single cuts exceed; trials: {}.{synced}",
            counted.join("; ")
        );
        push(said, &text, "  ");
    }
    let unknown: Vec<&str> = taken.difference(&found).map(String::as_str).collect();
    if !unknown.is_empty() {
        let text = format!("{} has no row for {}.", report.plan, unknown.join("; "));
        push(said, &text, "  ");
    }
}
