//! A report as text, the same for every terminal, because it is compared digit by digit.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::iter;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

use super::extrapolation;
use super::findings::{Findings, Mark};
use super::recommendation::Recommendation;
use super::{BlockReport, Group, Report, Row, SATURATION, TIE, answer};
use crate::metric::MetricKind;
use crate::statistics::Mean;
use crate::statistics::effect::Effect;

/// The figures of the second table, from the engine; those of the first are the workload's.
const ENGINE: [&str; 22] = [
    "commits",
    "fast_commits",
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
/// Pairs of one kind that are named.
const PAIRS_MAX: usize = 4;
/// The mark of a published figure outside of the interval of runs.
const OUTSIDE: &str = " *";
/// The mark of a gain that may be chance.
const UNCERTAIN: &str = " ?";
/// Width of the text.
const COLUMNS_MAX: usize = 100;
const INFALLIBLE: &str = "writing to a string does not fail";

pub(super) fn render(report: &Report, has_counters: bool) -> String {
    let mut text = String::new();
    let question = format!("{}: {}", report.plan, report.question);
    for line in wrapped(&question, COLUMNS_MAX) {
        writeln!(text, "{line}").expect(INFALLIBLE);
    }
    for block in &report.blocks {
        render_block(&mut text, block, has_counters);
    }
    if !report.counterparts.is_empty() {
        text.push('\n');
        let plans = report.counterparts.join(", ");
        let line = format!(
            "jext's engine: its figures for the same workload and levels, on the disk and under the \
             conditions of {plans}; without an interval where one trial is recorded."
        );
        for line in wrapped(&line, COLUMNS_MAX) {
            writeln!(text, "{line}").expect(INFALLIBLE);
        }
    }
    render_marks(&mut text, report);
    for warning in &report.warnings {
        text.push('\n');
        for line in wrapped(&format!("warning: {warning}"), COLUMNS_MAX) {
            writeln!(text, "{line}").expect(INFALLIBLE);
        }
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

/// Explains the marks that the tables have.
fn render_marks(text: &mut String, report: &Report) {
    let groups = || report.blocks.iter().flat_map(|block| &block.groups);
    let is_outside = |group: &Group, row: &Row| row.is_predicted(group.primary.name) == Some(false);
    let has_outside = groups().any(|group| group.rows.iter().any(|row| is_outside(group, row)));
    let effects = || {
        groups()
            .flat_map(|group| &group.rows)
            .filter_map(|row| row.effect)
    };
    let mut say = |line: &str| writeln!(text, "{line}").expect(INFALLIBLE);
    if has_outside || effects().any(|effect| !effect.is_certain()) {
        say("");
    }
    if effects().any(|effect| !effect.is_certain()) {
        say(
            "?  may be chance: p, corrected by Holm for the table, is 5 % or more, or there is one trial",
        );
    }
    if has_outside {
        say("*  the published run lies outside of 95 % of runs here");
    }
    let notes: BTreeSet<(usize, &str)> = groups().flat_map(Group::notes).collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for (number, note) in notes {
        for line in wrapped(&format!("[{number}]  {note}"), COLUMNS_MAX) {
            writeln!(text, "{line}").expect(INFALLIBLE);
        }
    }
}

fn render_block(text: &mut String, block: &BlockReport, has_counters: bool) {
    writeln!(text, "\n{}", block.title).expect(INFALLIBLE);
    if !block.why.is_empty() {
        for line in wrapped(&block.why, COLUMNS_MAX - 2) {
            writeln!(text, "  {line}").expect(INFALLIBLE);
        }
    }
    for group in &block.groups {
        for (factor, label) in &group.common {
            writeln!(text, "\n{factor} = {label}").expect(INFALLIBLE);
        }
        results(group).render(text);
        if let Some(grid) = beside_primary(group) {
            grid.render(text);
        }
        if has_counters {
            engine(group).render(text);
        }
        render_findings(text, group);
        if let Some(sentence) = extrapolation::sentence(group) {
            for line in wrapped(&sentence, COLUMNS_MAX - 2) {
                writeln!(text, "  {line}").expect(INFALLIBLE);
            }
        }
    }
    for source in &block.sources {
        for line in wrapped(&format!("Published: {source}."), COLUMNS_MAX - 2) {
            writeln!(text, "  {line}").expect(INFALLIBLE);
        }
    }
}

/// Returns the table of the primary figure: its mean, the interval of runs, the published figure,
/// and the gain over the baseline.
fn results(group: &Group) -> Grid<'_> {
    let primary = group.primary;
    let is_published = is_published(group, primary);
    let has_runs = group.rows.iter().any(|row| row.runs.is_some());
    let mut grid = Grid::new(group);
    grid.add(two_lines(primary), |row| figure(primary, row));
    if has_runs {
        grid.add("95 % of runs\nlie within".to_owned(), |row| {
            row.runs.map_or_else(absent, |runs| {
                format!("{} to {}", primary.text(runs.low), primary.text(runs.high))
            })
        });
    }
    if is_published {
        grid.add("published".to_owned(), |row| published(primary, row));
        grid.add("error".to_owned(), |row| {
            let mark = match row.is_predicted(primary.name) {
                Some(false) => OUTSIDE,
                _ => "",
            };
            row.error(primary.name)
                .map_or_else(absent, |error| percent(error) + mark)
        });
    }
    if group.rows.iter().any(|row| row.effect.is_some()) {
        grid.add("gain".to_owned(), |row| {
            row.effect.map_or_else(absent, |effect| gain(&effect))
        });
    }
    if group.rows.iter().any(|row| row.engine.is_some()) {
        grid.add("jext's\nengine".to_owned(), |row| {
            row.engine
                .map_or_else(absent, |mean| mean_text(primary, mean))
        });
        grid.add("kernel\nagainst it".to_owned(), |row| {
            row.against_engine(primary.name)
                .map_or_else(absent, percent)
        });
    }
    grid
}

/// Returns the table of the other figures that say most of the workload.
fn beside_primary(group: &Group) -> Option<Grid<'_>> {
    let mut grid = Grid::new(group);
    let others = group.shown.iter().filter(|kind| **kind != group.primary);
    for kind in others {
        grid.add(two_lines(kind), |row| figure(kind, row));
        if is_published(group, kind) {
            grid.add("published".to_owned(), |row| published(kind, row));
            grid.add("error".to_owned(), |row| {
                row.error(kind.name).map_or_else(absent, percent)
            });
        }
    }
    grid.has_columns().then_some(grid)
}

/// Returns the table of the engine's work and of the waits that it caused; figures that are zero in
/// all rows are left out.
fn engine(group: &Group) -> Grid<'_> {
    let is_known = |kind: &&MetricKind| {
        let mut rows = group.rows.iter();
        rows.any(|row| row.value(kind.name).is_some_and(|value| value != 0.0))
    };
    let kinds = ENGINE.iter().filter_map(|name| MetricKind::named(name));
    let mut grid = Grid::new(group);
    for kind in kinds.filter(is_known) {
        let head = match kind.name.starts_with("stalled_") {
            true => format!("s stalled by\n{}", kind.title),
            false => two_lines(kind),
        };
        grid.add(head, |row| figure(kind, row));
    }
    grid
}

fn is_published(group: &Group, kind: &MetricKind) -> bool {
    let mut rows = group.rows.iter();
    rows.any(|row| row.published.contains_key(kind.name))
}

fn published(kind: &MetricKind, row: &Row) -> String {
    let value = row.published.get(kind.name);
    value.map_or_else(absent, |value| kind.text(*value))
}

/// Returns a gain with its interval, and a mark if it may be chance.
fn gain(effect: &Effect) -> String {
    let mut text = answer::gain_interval(effect);
    if !effect.is_certain() {
        text.push_str(UNCERTAIN);
    }
    text
}

/// Columns with a group's rows, printed as tables of at most [`COLUMNS_MAX`] columns of text.
struct Grid<'g> {
    group: &'g Group,
    /// Head and cells of each column; those of the labels come first.
    columns: Vec<Vec<String>>,
    labels: usize,
}

impl<'g> Grid<'g> {
    /// Returns the columns of a group's labels.
    fn new(group: &'g Group) -> Self {
        let heads = heads_of_factors(group);
        let columns = heads.into_iter().enumerate().map(|(index, head)| {
            let cells = group
                .rows
                .iter()
                .map(|row| labels(group, row)[index].clone());
            iter::once(head).chain(cells).collect()
        });
        let columns: Vec<Vec<String>> = columns.collect();
        Self {
            group,
            labels: columns.len(),
            columns,
        }
    }

    fn add(&mut self, head: String, cell: impl Fn(&Row) -> String) {
        let cells = self.group.rows.iter().map(cell);
        self.columns.push(iter::once(head).chain(cells).collect());
    }

    fn has_columns(&self) -> bool {
        self.columns.len() > self.labels
    }

    /// Appends the tables. Columns that do not fit beside the labels go to the next one.
    fn render(&self, text: &mut String) {
        let (labels, figures) = self.columns.split_at(self.labels);
        let base: usize = 1 + labels.iter().map(|column| width(column)).sum::<usize>();
        let mut rest = figures;
        while !rest.is_empty() {
            let mut total = base + width(&rest[0]);
            let mut count = 1;
            while let Some(next) = rest.get(count).map(|column| width(column)) {
                if total + next > COLUMNS_MAX {
                    break;
                }
                total += next;
                count += 1;
            }
            let (now, later) = rest.split_at(count);
            let chosen: Vec<&Vec<String>> = labels.iter().chain(now).collect();
            let line = |row: usize| chosen.iter().map(|column| column[row].clone()).collect();
            let mut table = table(line(0), self.labels);
            for row in 0..self.group.rows.len() {
                add(&mut table, line(row + 1), self.labels);
            }
            writeln!(text, "{table}").expect(INFALLIBLE);
            rest = later;
        }
    }
}

/// Returns the width of a column with its spaces and one border.
fn width(column: &[String]) -> usize {
    let lines = column.iter().flat_map(|cell| cell.lines());
    3 + lines.map(|line| line.chars().count()).max().unwrap_or(0)
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
    let mut say = |line: String| {
        for (index, line) in wrapped(&format!("{line}."), COLUMNS_MAX - 4)
            .iter()
            .enumerate()
        {
            let indent = if index == 0 { "  " } else { "    " };
            writeln!(text, "{indent}{line}").expect(INFALLIBLE);
        }
    };
    if let Some(own) = Recommendation::of(group) {
        say(format!(
            "{} {}",
            own.advice,
            own.basis.trim_end_matches('.')
        ));
    }
    let baseline = baseline.label();
    let theirs = beside(published.first_gain.as_ref());
    say(match &ours.first_gain {
        Some(Mark { label, share }) => {
            format!(
                "First that beats {baseline}: {label}, by {}{theirs}",
                percent(*share)
            )
        }
        None => format!("None is certain to beat {baseline}{theirs}"),
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
    let order = &findings.order;
    if order.pairs == 0 {
        return None;
    }
    let mut text = format!(
        "Of {} pairs that differ by more than {:.0} % where published, {} are in that order here",
        order.pairs,
        TIE * 100.0,
        order.kept()
    );
    for (pairs, what) in [
        (&order.reversed, "reversed"),
        (&order.undecided, "undecided"),
    ] {
        let named: Vec<String> = pairs
            .iter()
            .take(PAIRS_MAX)
            .map(|(a, b)| format!("{a} and {b}"))
            .collect();
        let more = if pairs.len() > PAIRS_MAX { ", ..." } else { "" };
        match named.is_empty() {
            true => text.push_str(&format!(", none {what}")),
            false => text.push_str(&format!(
                ", {} {what} ({}{more})",
                pairs.len(),
                named.join(", ")
            )),
        }
    }
    if let Some(tau) = order.tau {
        text.push_str(&format!("; Kendall's tau {tau:+.2}"));
    }
    Some(text)
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
    let mut labels = match group.factors.is_empty() {
        true => vec![row.label()],
        false => row.labels.clone(),
    };
    if let Some(last) = labels.last_mut() {
        last.push_str(&row.marks());
    }
    labels
}

/// Returns the head of a figure's column.
pub(super) fn two_lines(kind: &MetricKind) -> String {
    match kind.display.unit {
        "" => kind.title.replace(' ', "\n"),
        unit => format!("{}\n{unit}", kind.title),
    }
}

/// Returns the figure of a row with its interval.
pub(super) fn figure(kind: &MetricKind, row: &Row) -> String {
    let mean = row.figures.get(kind.name);
    mean.map_or_else(absent, |mean| mean_text(kind, *mean))
}

/// Formats a mean with half of its interval, if there is one.
pub(super) fn mean_text(kind: &MetricKind, mean: Mean) -> String {
    match mean.half_interval.filter(|half| *half > 0.0) {
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

/// Divides a text into lines of at most `width` characters, between words.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
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
