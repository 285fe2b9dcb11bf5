//! [`View`]: a group as the page shows it.

use crate::report::findings::Findings;
use crate::report::{BlockReport, Group, Report, Row};

/// A group with its title and the texts of its block.
pub(super) struct View<'r> {
    /// The title, unique in the report.
    pub(super) title: String,
    /// The reasons for its blocks.
    pub(super) why: Vec<&'r str>,
    /// The sources of its published figures.
    pub(super) sources: Vec<&'r str>,
    /// The rows.
    pub(super) group: Group,
}

/// Returns the groups of a report in order. Blocks of one row each are compared with each other, as
/// the rows of one group.
pub(super) fn of(report: &Report) -> Vec<View<'_>> {
    if let Some(view) = of_single_rows(report) {
        return vec![view];
    }
    let views = report.blocks.iter().flat_map(|block| {
        block.groups.iter().map(|group| View {
            title: title(report, block, group),
            why: why(block).collect(),
            sources: block.sources.iter().map(String::as_str).collect(),
            group: group.clone(),
        })
    });
    views.collect()
}

/// Returns a sentence with the main figure of a group of one row.
pub(super) fn figure(group: &Group) -> String {
    let primary = group.primary;
    let Some(row) = group.rows.first() else {
        return String::new();
    };
    let Some(mean) = row.figures.get(primary.name) else {
        return "no record yet.".to_owned();
    };
    let half = mean.half_interval.filter(|half| *half > 0.0);
    let half = half.map_or_else(String::new, |half| format!(" ± {}", primary.text(half)));
    let published = row.published.get(primary.name);
    let published = published.map_or_else(String::new, |value| {
        format!("; published {}", primary.text(*value))
    });
    let text = format!(
        "{} {}{half} {}",
        primary.title,
        primary.text(mean.value),
        primary.display.unit
    );
    format!("{}{published}.", text.trim_end())
}

fn why(block: &BlockReport) -> impl Iterator<Item = &str> {
    let why = Some(block.why.as_str());
    why.filter(|why| !why.is_empty()).into_iter()
}

fn of_single_rows(report: &Report) -> Option<View<'_>> {
    let groups = report.blocks.iter().map(|block| match &block.groups[..] {
        [group] if group.rows.len() == 1 => Some(group),
        _ => None,
    });
    let groups: Vec<&Group> = groups.collect::<Option<_>>()?;
    let first = groups.first().filter(|_| groups.len() > 1)?;
    if groups.iter().any(|group| group.primary != first.primary) {
        return None;
    }
    let rows = report.blocks.iter().zip(&groups);
    let rows: Vec<Row> = rows
        .map(|(block, group)| Row {
            labels: vec![block.title.clone()],
            ..group.rows[0].clone()
        })
        .collect();
    let sources = report.blocks.iter().flat_map(|block| &block.sources);
    let mut sources: Vec<&str> = sources.map(String::as_str).collect();
    sources.dedup();
    Some(View {
        title: report.plan.clone(),
        why: report.blocks.iter().flat_map(why).collect(),
        sources,
        group: Group {
            common: Vec::new(),
            factors: vec!["block"],
            primary: first.primary,
            shown: first.shown.clone(),
            findings: Findings::of(&rows, first.primary),
            rows,
        },
    })
}

fn title(report: &Report, block: &BlockReport, group: &Group) -> String {
    let levels = group.common.iter();
    let levels: Vec<String> = levels
        .map(|(key, label)| format!("{key} = {label}"))
        .collect();
    let common = levels.join(", ");
    match (report.blocks.len(), common.is_empty()) {
        (1, false) => common,
        (_, true) => block.title.clone(),
        (_, false) => format!("{}: {common}", block.title),
    }
}
