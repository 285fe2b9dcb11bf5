//! [`Summary`]: what several plans say to take, on one page: which row, what it gains, which is the
//! first that is as good, and what a power cut costs them.
//!
//! - What to take is the recommendation of each group; see
//!   [`recommendation`](super::recommendation).
//! - *As good from* is the first row, in the plan's order, that is certain to beat the baseline and
//!   not certain to differ from the best: with sizes in increasing order, the smallest.
//! - A power cut costs what a plan of power cuts measured for the rows with the same labels.

use std::collections::BTreeSet;

use super::answer::{gain_interval, sentences};
use super::recommendation::{Choice, choice, trials_per_row};
use super::table::{absent, add, figure, table, two_lines};
use super::{BlockReport, Group, Report, Row, wrapped};
use crate::metric::MetricKind;

/// Maximum number of columns of a text.
const COLUMNS_MAX: usize = 100;
/// The figures of what a power cut costs.
const LOSS: [&str; 4] = ["lost_bytes", "wrong_bytes", "synced_lost_bytes", "lost_age"];
/// Number of columns at the start of a table that have texts.
const TEXTS: usize = 4;

/// The advice of several plans.
#[derive(Debug)]
pub struct Summary<'r> {
    reports: &'r [Report],
    loss: Option<&'r Report>,
}

/// The advice of one group.
struct Line<'r> {
    block: String,
    take: &'r Row,
    gain: String,
    from: &'r Row,
}

impl<'r> Summary<'r> {
    /// Summarises reports. `loss` is that of a plan of power cuts with the same rows.
    #[must_use]
    pub fn of(reports: &'r [Report], loss: Option<&'r Report>) -> Self {
        Self { reports, loss }
    }

    /// Returns the summary as text of at most 100 columns.
    #[must_use]
    pub fn text(&self) -> String {
        let mut said = String::new();
        let mut taken = BTreeSet::new();
        for report in self.reports {
            let title = format!("{}: {}", report.plan, report.question);
            push(&mut said, &title, "");
            timed(report).for_each(|block| push_title(&mut said, block));
            add_lines(&mut said, report, &mut taken);
            said.push('\n');
        }
        if let Some(loss) = self.loss {
            add_loss(&mut said, loss, &taken);
        }
        said
    }
}

/// Adds a text in lines, each after `margin`.
fn push(said: &mut String, text: &str, margin: &str) {
    for line in wrapped(text, COLUMNS_MAX - margin.len()) {
        said.push_str(margin);
        said.push_str(&line);
        said.push('\n');
    }
}

/// Adds the table of a report, and says why groups are missing there. The labels of what is named
/// go to `taken`.
fn add_lines(said: &mut String, report: &Report, taken: &mut BTreeSet<String>) {
    let head = ["block", "take", "gain", "as good from"].map(str::to_owned);
    let mut lines = table(head.to_vec(), TEXTS);
    let mut others = Vec::new();
    let mut bases = BTreeSet::new();
    let mut has_lines = false;
    for block in timed(report) {
        for group in &block.groups {
            let name = name(block, group);
            let Some(line) = line(&name, group) else {
                let found = sentences(group);
                let found = match found.is_empty() {
                    true => "nothing to compare.".to_owned(),
                    false => found.join(" "),
                };
                others.push(format!("{name}: {found}"));
                continue;
            };
            has_lines = true;
            taken.extend([line.take.label(), line.from.label()]);
            let base = group.rows.iter().find(|row| row.is_baseline);
            bases.extend(base.map(Row::label));
            let cells = [line.block, line.take.label(), line.gain, line.from.label()];
            add(&mut lines, cells.to_vec(), TEXTS);
        }
    }
    if has_lines {
        said.push_str(&format!("{lines}\n"));
        let bases: Vec<&str> = bases.iter().map(String::as_str).collect();
        let counted = timed(report).flat_map(|block| &block.groups);
        let counted: BTreeSet<String> = counted.map(trials_per_row).collect();
        let counted: Vec<&str> = counted.iter().map(String::as_str).collect();
        let text = format!(
            "Gains are over {}; {}.",
            bases.join("; "),
            counted.join("; ")
        );
        push(said, &text, "  ");
        taken.extend(bases.iter().map(|label| (*label).to_owned()));
    }
    for other in others {
        push(said, &other, "  ");
    }
    if report.missing > 0 {
        push(
            said,
            &format!("{} trials are missing.", report.missing),
            "  ",
        );
    }
}

/// Returns the blocks that are compared by time or rate: what a power cut costs is no gain.
fn timed(report: &Report) -> impl Iterator<Item = &BlockReport> {
    let is_cut = |group: &Group| group.primary.name == LOSS[0];
    let blocks = report.blocks.iter();
    blocks.filter(move |block| !block.groups.iter().all(is_cut))
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

/// Returns what a group says to take; `None` if it has no baseline, or one trial of each row.
fn line<'r>(name: &str, group: &'r Group) -> Option<Line<'r>> {
    let baseline = group.rows.iter().find(|row| row.is_baseline)?;
    let others = group.beside_baseline()?;
    let (take, gain, from) = match choice(group, &others) {
        Choice::Undecided => return None,
        Choice::Stay => (baseline, absent(), baseline),
        Choice::Take { row, effect, equal } => {
            let from = equal.first().map_or(row, |(first, _)| first);
            (row, gain_interval(&effect), from)
        }
    };
    Some(Line {
        block: name.to_owned(),
        take,
        gain,
        from,
    })
}

/// Adds what a power cut costs the rows with these labels.
fn add_loss(said: &mut String, report: &Report, taken: &BTreeSet<String>) {
    let title = format!(
        "What a power cut costs them, by {}: {}",
        report.plan, report.question
    );
    push(said, &title, "");
    let kinds: Vec<&MetricKind> = LOSS
        .iter()
        .filter_map(|name| MetricKind::named(name))
        .collect();
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
    }
    let unknown: Vec<&str> = taken.difference(&found).map(String::as_str).collect();
    if !unknown.is_empty() {
        let text = format!("{} has no row for {}.", report.plan, unknown.join("; "));
        push(said, &text, "  ");
    }
}
