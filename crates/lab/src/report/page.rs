//! A report as one HTML page: no network, no framework, readable without its script.
//!
//! Text and tables are HTML; the script draws the charts from data in the page and sorts the
//! tables. All text from plans and records passes through [`escape`], the data through
//! [`in_script`].

mod data;
mod tables;

use std::collections::BTreeSet;
use std::fmt::Write;

use super::answer;
use super::{BlockReport, Group, Report};

const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    include_str!("page/draw.js"),
    include_str!("page/figures.js"),
    include_str!("page/latencies.js"),
    include_str!("page/timeline.js"),
    include_str!("page/page.js"),
);
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
    render_answer(&mut page, report);
    render_warnings(&mut page, report);
    let mut number = 0;
    for block in &report.blocks {
        render_block(&mut page, block, &mut number);
    }
    tables::parameters(&mut page, report);
    render_origin(&mut page, report, again, source);
    let data = in_script(&data::of(report).to_string());
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

fn render_answer(page: &mut String, report: &Report) {
    page.push_str("<section id=\"answer\">\n<h2>Answer</h2>\n");
    let mut has_any = false;
    for block in &report.blocks {
        for group in &block.groups {
            let said = answer::sentences(group);
            if said.is_empty() {
                continue;
            }
            has_any = true;
            if report.blocks.len() > 1 || block.groups.len() > 1 {
                let title = heading(report, block, group);
                writeln!(page, "<h3>{title}</h3>").expect(INFALLIBLE);
            }
            page.push_str("<ul>\n");
            for line in said {
                writeln!(page, "<li>{}</li>", escape(&line)).expect(INFALLIBLE);
            }
            page.push_str("</ul>\n");
        }
    }
    if !has_any {
        page.push_str("<p>There are no records to compare yet.</p>\n");
    }
    if report.missing > 0 {
        writeln!(page, "<p>{} trials have no record yet.</p>", report.missing).expect(INFALLIBLE);
    }
    let groups = report.blocks.iter().flat_map(|block| &block.groups);
    let meanings: BTreeSet<String> = groups.map(answer::gain_meaning).collect();
    let meaning = Vec::from_iter(meanings).join(" ");
    let rule = "It is the geometric mean over the repetitions, in pairs; in brackets its 95 % interval, p by Student's t, corrected by Holm.";
    writeln!(
        page,
        "<p class=\"note\">{} {rule}</p>\n</section>",
        escape(&meaning)
    )
    .expect(INFALLIBLE);
}

/// Returns the heading of a group, unique in the report.
fn heading(report: &Report, block: &BlockReport, group: &Group) -> String {
    let common = common(group);
    let title = match (report.blocks.len(), common.is_empty()) {
        (1, _) => common,
        (_, true) => block.title.clone(),
        (_, false) => format!("{}: {common}", block.title),
    };
    escape(&title)
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

fn render_block(page: &mut String, block: &BlockReport, number: &mut usize) {
    writeln!(page, "<section>\n<h2>{}</h2>", escape(&block.title)).expect(INFALLIBLE);
    if !block.why.is_empty() {
        writeln!(page, "<p>{}</p>", escape(&block.why)).expect(INFALLIBLE);
    }
    for group in &block.groups {
        if !group.common.is_empty() {
            writeln!(page, "<h3>{}</h3>", escape(&common(group))).expect(INFALLIBLE);
        }
        for chart in ["figures", "latencies", "timeline"] {
            let attributes = format!("data-chart=\"{chart}\" data-group=\"{number}\"");
            writeln!(page, "<figure {attributes}></figure>").expect(INFALLIBLE);
        }
        tables::figures(page, group);
        *number += 1;
    }
    for source in &block.sources {
        writeln!(
            page,
            "<p class=\"quiet\">Published: {}.</p>",
            escape(source)
        )
        .expect(INFALLIBLE);
    }
    page.push_str("</section>\n");
}

fn common(group: &Group) -> String {
    let levels = group.common.iter();
    let levels: Vec<String> = levels
        .map(|(key, label)| format!("{key} = {label}"))
        .collect();
    levels.join(", ")
}

/// Writes the origin of the figures, and the command that repeats them.
fn render_origin(page: &mut String, report: &Report, again: &str, source: &str) {
    page.push_str("<section>\n<h2>How to reproduce</h2>\n");
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
    page.push_str("</section>\n");
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
