//! Notes of trials: marks in the tables, and footnotes.

use super::*;

const NOTE: &str = "made with --unsupported: mkfs.xfs refuses it otherwise";

fn noted(rows: &[usize]) -> Report {
    let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
    let mut all = records(&plan, &[100.0, 110.0, 95.0, 80.0]);
    for row in rows {
        all[*row].measured.notes.push(NOTE.to_owned());
    }
    Report::new(&plan, &all)
}

#[test]
fn a_row_with_a_note_is_marked_and_has_a_footnote() {
    let report = noted(&[1, 2]);
    let text = report.text(false);
    for part in ["4 MB [1] ", "8 MB [1] ", &format!("\n[1] {NOTE}\n")] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("16 MB [1]"), "{text}");
    assert_eq!(text.matches(NOTE).count(), 1, "{text}");
    let rows = &report.json()["blocks"][0]["groups"][0]["rows"];
    assert_eq!(rows[1]["notes"][0], NOTE);
    assert_eq!(rows[3]["notes"].as_array().map(Vec::len), Some(0));
    let page = report.html("again", "source");
    assert!(page.contains("4 MB [1]</th>"), "{page}");
    assert!(
        page.contains(&format!("<p class=\"note\">[1] {NOTE}</p>")),
        "{page}"
    );
}

#[test]
fn without_notes_nothing_is_marked() {
    let report = noted(&[]);
    assert!(!report.text(false).contains("[1]"));
    let page = report.html("again", "source");
    assert!(!page.contains("<p class=\"note\">[1]"), "{page}");
}
