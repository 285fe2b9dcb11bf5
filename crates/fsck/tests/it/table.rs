//! The table of problems in the documentation.

use fsck::{ProblemKind, Severity};

const DOCUMENT: &str = include_str!("../../../../docs/fsck.md");

#[test]
fn the_document_lists_every_kind() {
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| "));
    let rows: Vec<&str> = rows
        .filter(|row| row.starts_with(|c: char| c.is_ascii_digit()) && row.contains('`'))
        .collect();
    let expected: Vec<String> = ProblemKind::ALL
        .iter()
        .map(|kind| {
            let severity = match kind.severity() {
                Severity::Error => "error",
                Severity::Note => "note",
            };
            let (number, name) = (kind.number(), kind.name());
            format!("{number} | `{name}` | {severity} | {} |", kind.sentence())
        })
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn numbers_are_distinct_and_ascend() {
    let numbers: Vec<u16> = ProblemKind::ALL.iter().map(|kind| kind.number()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b));
}
