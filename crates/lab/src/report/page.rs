//! A report as one HTML page: no network, no framework, readable without its script.
//!
//! At the top is what a reader on a phone looks for: the answer in one sentence, one chart with
//! intervals, its table, the warnings. All else is collapsed below it.
//!
//! Text and tables are HTML; the script draws the charts from data in the page and sorts the
//! tables. All text from plans and records passes through [`escape`], the data through
//! [`in_script`].

mod data;
mod tables;
mod view;

use std::fmt::Write;

use super::recommendation::{self, Recommendation};
use super::{Report, answer};
use view::View;

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    include_str!("page/draw.js"),
    include_str!("page/figures.js"),
    include_str!("page/latencies.js"),
    include_str!("page/timeline.js"),
    include_str!("page/page.js"),
);
/// The meaning of an interval and of p.
const RULE: &str = "It is the geometric mean over the repetitions, in pairs; in brackets its 95 % interval, p by Student's t, corrected by Holm.";
const INFALLIBLE: &str = "writing to a string does not fail";

pub(super) fn render(report: &Report, again: &str, source: &str) -> String {
    let mut page = String::new();
    let title = escape(&format!("{}: {}", report.plan, report.question));
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#answer\">To the answer</a>\n<header>\n<p class=\"quiet\">jext lab: {}</p>\n\
         <h1>{}</h1>\n</header>\n<main>\n",
        escape(&report.plan),
        escape(&sentence(&report.question)),
    )
    .expect(INFALLIBLE);
    let views = view::of(report);
    render_answer(&mut page, report, &views);
    render_main(&mut page, &views);
    render_warnings(&mut page, report);
    render_details(&mut page, &views);
    tables::parameters(&mut page, report);
    render_origin(&mut page, report, again, source);
    let data = in_script(&data::of(&views).to_string());
    write!(
        page,
        "</main>\n<script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{SCRIPT}</script>\n\
         </body>\n</html>\n"
    )
    .expect(INFALLIBLE);
    page
}

/// Capitalises the first letter of the question.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Writes a sentence for each group, and for the first one what it rests on.
fn render_answer(page: &mut String, report: &Report, views: &[View<'_>]) {
    page.push_str("<section id=\"answer\">\n<h2>Answer</h2>\n");
    if report.count == 0 {
        page.push_str("<p>There are no records to compare yet.</p>\n");
    }
    let answered = views.iter().filter(|_| report.count > 0);
    for (index, view) in answered.enumerate() {
        let head = match views.len() {
            1 => String::new(),
            _ => format!("<b>{}:</b> ", escape(&view.title)),
        };
        let said = match Recommendation::of(&view.group) {
            Some(own) => own.advice,
            None => answer::sentences(&view.group).join(" "),
        };
        let said = match said.is_empty() {
            true => view::figure(&view.group),
            false => said,
        };
        let class = if index == 0 { " class=\"advice\"" } else { "" };
        writeln!(page, "<p{class}>{head}{}</p>", escape(&said)).expect(INFALLIBLE);
        if index == 0 {
            let distance = recommendation::distance(&view.group).unwrap_or_default();
            let text = format!("{} {distance}", recommendation::basis(&view.group));
            writeln!(page, "<p class=\"note\">{}</p>", escape(text.trim_end())).expect(INFALLIBLE);
        }
    }
    if report.missing > 0 {
        writeln!(page, "<p>{} trials have no record yet.</p>", report.missing).expect(INFALLIBLE);
    }
    page.push_str("</section>\n");
}

/// Writes the chart and the table of the first group.
fn render_main(page: &mut String, views: &[View<'_>]) {
    let Some(view) = views.first() else {
        return;
    };
    page.push_str("<section>\n");
    if views.len() > 1 {
        writeln!(page, "<h2>{}</h2>", escape(&view.title)).expect(INFALLIBLE);
    }
    figure(page, "figures", 0);
    tables::figures(page, &view.group);
    page.push_str("</section>\n");
}

/// Writes the place of a chart, which the script draws.
fn figure(page: &mut String, chart: &str, number: usize) {
    writeln!(
        page,
        "<figure data-chart=\"{chart}\" data-group=\"{number}\"></figure>"
    )
    .expect(INFALLIBLE);
}

fn render_warnings(page: &mut String, report: &Report) {
    if report.warnings.is_empty() {
        return;
    }
    page.push_str("<section id=\"warnings\">\n<h2>Warnings</h2>\n<ul>\n");
    for warning in &report.warnings {
        writeln!(page, "<li>{}</li>", escape(&warning.to_string())).expect(INFALLIBLE);
    }
    page.push_str("</ul>\n</section>\n");
}

/// Opens the section of details, and writes a collapsed element for each group: its findings,
/// charts and tables.
fn render_details(page: &mut String, views: &[View<'_>]) {
    page.push_str("<section>\n<h2>Details</h2>\n");
    for (number, view) in views.iter().enumerate() {
        let title = match views.len() {
            1 => "Findings, latencies, course of a run",
            _ => &view.title,
        };
        let title = escape(title);
        writeln!(page, "<details>\n<summary>{title}</summary>").expect(INFALLIBLE);
        for why in &view.why {
            writeln!(page, "<p>{}</p>", escape(why)).expect(INFALLIBLE);
        }
        let said = answer::sentences(&view.group);
        if !said.is_empty() {
            page.push_str("<ul>\n");
            for line in &said {
                writeln!(page, "<li>{}</li>", escape(line)).expect(INFALLIBLE);
            }
            let meaning = answer::gain_meaning(&view.group);
            writeln!(
                page,
                "</ul>\n<p class=\"note\">{} {RULE}</p>",
                escape(&meaning)
            )
            .expect(INFALLIBLE);
        }
        if number > 0 {
            figure(page, "figures", number);
            tables::figures(page, &view.group);
        }
        for chart in ["latencies", "timeline"] {
            figure(page, chart, number);
        }
        tables::all_figures(page, &view.group);
        for source in &view.sources {
            writeln!(
                page,
                "<p class=\"quiet\">Published: {}.</p>",
                escape(source)
            )
            .expect(INFALLIBLE);
        }
        page.push_str("</details>\n");
    }
}

/// Writes the origin of the figures, and the command that repeats them; closes the section.
fn render_origin(page: &mut String, report: &Report, again: &str, source: &str) {
    page.push_str("<details>\n<summary>How to reproduce</summary>\n");
    writeln!(page, "<pre>{}</pre>", escape(again)).expect(INFALLIBLE);
    let mut rows = vec![
        ("Trials", report.count.to_string()),
        ("Plan hash", report.plan_hash.clone()),
    ];
    for program in &report.programs {
        let (version, commit) = (&program.version, &program.commit);
        let text = format!(
            "jext {version}, commit {commit}, sources {}, executable {}",
            program.source, program.fingerprint
        );
        rows.push(("Program", text));
    }
    for machine in &report.machines {
        let gib = machine.memory as f64 / f64::from(1 << 30);
        let (processors, processor) = (machine.processors, &machine.processor);
        let text = format!(
            "{processors} x {processor}, {gib:.1} GiB, {}",
            machine.system
        );
        rows.push(("Machine", text));
    }
    tables::words(page, "Origin of the figures", &rows);
    for machine in &report.machines {
        let facts = machine.facts.iter();
        let facts: Vec<(&str, String)> = facts
            .map(|(name, fact)| (name.as_str(), fact.clone()))
            .collect();
        if !facts.is_empty() {
            page.push_str("<details>\n<summary>Further properties of the machine</summary>\n");
            tables::words(page, "Properties of the machine", &facts);
            page.push_str("</details>\n");
        }
    }
    match &report.written_out {
        None => folded(page, "The plan", source),
        Some(whole) => {
            folded(
                page,
                "The complete plan, with the settings of its base",
                whole,
            );
            folded(page, "The plan's own file", source);
        }
    }
    page.push_str("</details>\n</section>\n");
}

/// Writes a text in a collapsed element under its title.
fn folded(page: &mut String, title: &str, text: &str) {
    let (title, text) = (escape(title), escape(text));
    writeln!(
        page,
        "<details>\n<summary>{title}</summary>\n<pre>{text}</pre>\n</details>"
    )
    .expect(INFALLIBLE);
}

/// Escapes a text for HTML, in an element or a quoted attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Escapes JSON for a script element, which ends at the first `</` in any context. In JSON these
/// characters occur in strings only, where an escape has the same meaning.
fn in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_becomes_markup() {
        assert_eq!(
            escape("<b onclick='x'>\"a\" & b</b>"),
            "&lt;b onclick=&#39;x&#39;&gt;&quot;a&quot; &amp; b&lt;/b&gt;"
        );
        assert_eq!(escape("größer: ≥ 1 µs"), "größer: ≥ 1 µs");
        let json = serde_json::json!({ "label": "</script><script>alert(1)&" }).to_string();
        let inside = in_script(&json);
        assert!(!inside.contains(['<', '>', '&']), "{inside}");
        let read: serde_json::Value = serde_json::from_str(&inside).expect("it is JSON still");
        assert_eq!(read["label"], "</script><script>alert(1)&");
    }
}
