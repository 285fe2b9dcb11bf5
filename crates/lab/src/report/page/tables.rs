//! The tables of a page. The sort key is in `data-value`; an unknown value sorts above all others.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{INFALLIBLE, escape};
use crate::metric::{METRICS, MetricKind};
use crate::report::answer::gain_text;
use crate::report::{Group, Report, Row};

/// The mark of an unknown figure.
const ABSENT: &str = "-";

/// A cell: its text and its sort key.
struct Cell {
    text: String,
    value: f64,
}

/// Writes the rows of a group: a table with the main figures of the workload, and a collapsed one
/// with every known figure.
pub(super) fn figures(page: &mut String, group: &Group) {
    let is_known = |kind: &&MetricKind| {
        group
            .rows
            .iter()
            .any(|row| row.figures.contains_key(kind.name))
    };
    rows(page, group, &group.shown, "Figures");
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
        group
            .rows
            .iter()
            .any(|row| row.published.contains_key(kind.name))
    };
    let mut heads = vec![match group.factors.as_slice() {
        [] => "trial".to_owned(),
        factors => factors.join(", "),
    }];
    heads.push("trials".to_owned());
    if has_gain {
        heads.push("gain".to_owned());
    }
    for kind in kinds {
        heads.push(kind.head());
        if is_published(kind) {
            heads.push(format!("{} published", kind.title));
        }
    }
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
    for (index, row) in group.rows.iter().enumerate() {
        let mut cells = vec![
            Cell {
                text: row.label(),
                value: index as f64,
            },
            Cell {
                text: row.count.to_string(),
                value: row.count as f64,
            },
        ];
        if has_gain {
            cells.push(gain(row));
        }
        for kind in kinds {
            cells.push(figure(kind, row));
            if is_published(kind) {
                cells.push(published(kind, row));
            }
        }
        write_row(page, row, &cells);
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}

fn write_row(page: &mut String, row: &Row, cells: &[Cell]) {
    let class = if row.is_baseline {
        " class=\"baseline\""
    } else {
        ""
    };
    write!(page, "<tr{class}>").expect(INFALLIBLE);
    for (index, Cell { text, value }) in cells.iter().enumerate() {
        let (text, value) = (escape(text), format!("data-value=\"{value}\""));
        let cell = match index {
            0 => format!("<th scope=\"row\" {value}>{text}</th>"),
            _ => format!("<td {value}>{text}</td>"),
        };
        page.push_str(&cell);
    }
    page.push_str("</tr>\n");
}

fn absent() -> Cell {
    Cell {
        text: ABSENT.to_owned(),
        value: f64::MAX,
    }
}

fn gain(row: &Row) -> Cell {
    row.effect.map_or_else(absent, |effect| Cell {
        text: gain_text(&effect),
        value: effect.share,
    })
}

fn figure(kind: &MetricKind, row: &Row) -> Cell {
    row.figures.get(kind.name).map_or_else(absent, |mean| {
        let half = mean.half_interval.filter(|half| *half > 0.0);
        Cell {
            text: match half {
                Some(half) => format!("{} ± {}", kind.text(mean.value), kind.text(half)),
                None => kind.text(mean.value),
            },
            value: mean.value,
        }
    })
}

fn published(kind: &MetricKind, row: &Row) -> Cell {
    row.published
        .get(kind.name)
        .map_or_else(absent, |value| Cell {
            text: match row.error(kind.name) {
                Some(error) => format!("{} (ours {:+.1} %)", kind.text(*value), error * 100.0),
                None => kind.text(*value),
            },
            value: *value,
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
    page.push_str("<section>\n<h2>Parameters</h2>\n");
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
    page.push_str("<details>\n<summary>Every other parameter, the same in all trials</summary>\n");
    words(page, "Parameters", &shared);
    page.push_str("</details>\n</section>\n");
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
