//! The tables of a page. The sort key is in `data-value`; an unknown value sorts above all others.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{INFALLIBLE, escape};
use crate::metric::{METRICS, MetricKind};
use crate::report::answer::gain_text;
use crate::report::{Group, Report, Row};

/// The mark of an unknown figure.
const ABSENT: &str = "-";

/// A cell: its text, a second line, and its sort key.
struct Cell {
    text: String,
    more: String,
    value: f64,
}

impl Cell {
    fn new(text: String, value: f64) -> Self {
        Self {
            text,
            more: String::new(),
            value,
        }
    }
}

/// Writes the rows of a group as a table with the main figures of the workload, the primary figure
/// and its gain first.
pub(super) fn figures(page: &mut String, group: &Group) {
    let others = group.shown.iter().filter(|kind| **kind != group.primary);
    let kinds: Vec<&MetricKind> = std::iter::once(group.primary)
        .chain(others.copied())
        .collect();
    rows(page, group, &kinds, "Figures");
}

/// Writes a collapsed table with every known figure of a group, if there are more than the main
/// ones.
pub(super) fn all_figures(page: &mut String, group: &Group) {
    let is_known = |kind: &&MetricKind| {
        let mut rows = group.rows.iter();
        rows.any(|row| row.figures.contains_key(kind.name))
    };
    let all: Vec<&MetricKind> = METRICS.iter().filter(is_known).collect();
    if all.len() > group.shown.len() {
        let count = all.len();
        writeln!(
            page,
            "<details class=\"screen\">\n<summary>All {count} figures</summary>"
        )
        .expect(INFALLIBLE);
        rows(page, group, &all, "All figures");
        page.push_str("</details>\n");
    }
}

/// Writes the rows of a group with these figures.
fn rows(page: &mut String, group: &Group, kinds: &[&MetricKind], label: &str) {
    let has_gain = group.rows.iter().any(|row| row.effect.is_some());
    let is_published = |kind: &MetricKind| {
        let mut rows = group.rows.iter();
        rows.any(|row| row.published.contains_key(kind.name))
    };
    let mut heads = vec![match group.factors.as_slice() {
        [] => "trial".to_owned(),
        factors => factors.join(", "),
    }];
    for (index, kind) in kinds.iter().enumerate() {
        heads.push(kind.head());
        if index == 0 && has_gain {
            heads.push("gain".to_owned());
        }
        if is_published(kind) {
            heads.push(format!("{} published", kind.title));
        }
    }
    heads.push("trials".to_owned());
    writeln!(
        page,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">"
    )
    .expect(INFALLIBLE);
    page.push_str("<table class=\"sortable\">\n<thead><tr>");
    for head in &heads {
        let head = escape(head);
        write!(
            page,
            "<th scope=\"col\"><button type=\"button\">{head}</button></th>"
        )
        .expect(INFALLIBLE);
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (number, row) in group.rows.iter().enumerate() {
        let label = row.label() + &row.marks();
        let mut cells = vec![Cell::new(label, number as f64)];
        for (index, kind) in kinds.iter().enumerate() {
            cells.push(figure(kind, row));
            if index == 0 && has_gain {
                cells.push(gain(row));
            }
            if is_published(kind) {
                cells.push(published(kind, row));
            }
        }
        cells.push(Cell::new(row.count.to_string(), row.count as f64));
        write_row(page, row, &cells);
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
    for (number, note) in group.notes() {
        let note = escape(note);
        writeln!(page, "<p class=\"note\">[{number}] {note}</p>").expect(INFALLIBLE);
    }
}

fn write_row(page: &mut String, row: &Row, cells: &[Cell]) {
    let class = if row.is_baseline {
        " class=\"baseline\""
    } else {
        ""
    };
    write!(page, "<tr{class}>").expect(INFALLIBLE);
    for (index, Cell { text, more, value }) in cells.iter().enumerate() {
        let (mut text, value) = (escape(text), format!("data-value=\"{value}\""));
        if !more.is_empty() {
            write!(text, "<br><small>{}</small>", escape(more)).expect(INFALLIBLE);
        }
        let cell = match index {
            0 => format!("<th scope=\"row\" {value}>{text}</th>"),
            _ => format!("<td {value}>{text}</td>"),
        };
        page.push_str(&cell);
    }
    page.push_str("</tr>\n");
}

fn absent() -> Cell {
    Cell::new(ABSENT.to_owned(), f64::MAX)
}

/// Returns a gain, with its interval and p-value below it.
fn gain(row: &Row) -> Cell {
    row.effect.map_or_else(absent, |effect| {
        let text = gain_text(&effect);
        let (text, more) = match text.split_once(" [") {
            Some((text, more)) => (text.to_owned(), format!("[{}", more.replace("] (", "]\n("))),
            None => (text, String::new()),
        };
        Cell {
            text,
            more,
            value: effect.share,
        }
    })
}

fn figure(kind: &MetricKind, row: &Row) -> Cell {
    row.figures.get(kind.name).map_or_else(absent, |mean| {
        let half = mean.half_interval.filter(|half| *half > 0.0);
        let text = match half {
            Some(half) => format!("{} ± {}", kind.text(mean.value), kind.text(half)),
            None => kind.text(mean.value),
        };
        Cell::new(text, mean.value)
    })
}

fn published(kind: &MetricKind, row: &Row) -> Cell {
    row.published.get(kind.name).map_or_else(absent, |value| {
        let error = row.error(kind.name);
        Cell {
            text: kind.text(*value),
            more: error.map_or_else(String::new, |error| format!("ours {:+.1} %", error * 100.0)),
            value: *value,
        }
    })
}

/// Writes every parameter that is not a factor: first those that all blocks share, then those of
/// each block.
pub(super) fn parameters(page: &mut String, report: &Report) {
    let mut values: BTreeMap<&'static str, Vec<&str>> = BTreeMap::new();
    for block in &report.blocks {
        for (key, value) in &block.settings {
            values.entry(key).or_default().push(value);
        }
    }
    let is_shared = |key: &str| {
        let all = &values[key];
        all.len() == report.blocks.len() && all.windows(2).all(|pair| pair[0] == pair[1])
    };
    page.push_str("<details>\n<summary>Parameters</summary>\n");
    for block in &report.blocks {
        let own = block.settings.iter().filter(|(key, _)| !is_shared(key));
        let own: Vec<(&str, String)> = own.map(|(key, value)| (*key, value.clone())).collect();
        if !own.is_empty() {
            writeln!(page, "<h3>{}</h3>", escape(&block.title)).expect(INFALLIBLE);
            words(page, "Parameters of this block", &own);
        }
    }
    let shared: Vec<(&str, String)> = values
        .iter()
        .filter(|(key, _)| is_shared(key))
        .map(|(key, all)| (*key, all[0].to_owned()))
        .collect();
    page.push_str("<h3>Every other parameter, the same in all trials</h3>\n");
    words(page, "Parameters", &shared);
    page.push_str("</details>\n");
}

/// Writes a table of names and texts.
pub(super) fn words(page: &mut String, label: &str, rows: &[(&str, String)]) {
    let label = escape(label);
    writeln!(
        page,
        "<div class=\"scroll\">\n<table class=\"words\" aria-label=\"{label}\">\n<tbody>"
    )
    .expect(INFALLIBLE);
    for (name, text) in rows {
        let (name, text) = (escape(name), escape(text));
        writeln!(
            page,
            "<tr><th scope=\"row\">{name}</th><td>{text}</td></tr>"
        )
        .expect(INFALLIBLE);
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}
