//! The committed table, and its comparison with new counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::count::Count;

/// The architecture that the table is of.
pub(crate) const ARCH: &str = "x86_64";
/// Change of a count, in either direction, that the gate does not take.
pub(crate) const TOLERANCE_PERCENT: u64 = 3;
/// Beginning of the line that names the compiler.
const COMPILER: &str = "# compiler: ";

/// Instructions of one operation of each case.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// The compiler's name and version.
    pub(crate) compiler: String,
    counts: BTreeMap<String, u64>,
}

/// The outcome of a comparison.
pub(crate) struct Report {
    /// A line for each case.
    pub(crate) text: String,
    pub(crate) cases: usize,
    /// Number of cases that have changed, came or went.
    pub(crate) changed: usize,
}

impl Table {
    /// Makes a table of what was counted.
    pub(crate) fn new(counts: Vec<Count>) -> Result<Self> {
        let version = Command::new("rustc").arg("--version").output();
        let version = version.context("rustc --version")?.stdout;
        let counts = counts
            .into_iter()
            .map(|count| (count.case, count.instructions));
        Ok(Self {
            compiler: String::from_utf8_lossy(&version).trim().to_owned(),
            counts: counts.collect(),
        })
    }

    /// Reads the committed table.
    pub(crate) fn read() -> Result<Self> {
        let path = path();
        let text = std::fs::read_to_string(&path);
        let name = || path.display().to_string();
        Self::parse(&text.with_context(name)?).with_context(name)
    }

    /// Writes the table in the place of the committed one.
    pub(crate) fn write(&self) -> Result<()> {
        let path = path();
        std::fs::write(&path, self.text()).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut compiler = String::new();
        let mut counts = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            if let Some(name) = line.strip_prefix(COMPILER) {
                name.clone_into(&mut compiler);
            }
            if line.starts_with('#') {
                continue;
            }
            let wrong = || format!("line {}: not a case, a tab and a number", number + 1);
            let (case, count) = line.split_once('\t').with_context(wrong)?;
            let count = count.parse().with_context(wrong)?;
            let before = counts.insert(case.to_owned(), count);
            ensure!(before.is_none(), "line {}: {case} again", number + 1);
        }
        Ok(Self { compiler, counts })
    }

    /// Returns the table as a file has it.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "# Instructions of one operation: cargo xtask bench instructions --write\n{COMPILER}{}\n",
            self.compiler
        );
        for (case, count) in &self.counts {
            let _ = writeln!(text, "{case}\t{count}");
        }
        text
    }

    /// Compares this table, which is expected, with what was counted.
    pub(crate) fn compare(&self, counted: &Self) -> Report {
        let cases: BTreeSet<&String> = self.counts.keys().chain(counted.counts.keys()).collect();
        let width = cases.iter().map(|case| case.len()).max().unwrap_or(0);
        let mut report = Report {
            text: format!(
                "{:<width$} {:>12} {:>12} {:>9}\n",
                "case", "table", "counted", "change"
            ),
            cases: cases.len(),
            changed: 0,
        };
        for case in cases {
            let (before, after) = (self.counts.get(case), counted.counts.get(case));
            let (change, is_kept) = verdict(before.copied(), after.copied());
            report.changed += usize::from(!is_kept);
            let show = |count: Option<&u64>| count.map_or_else(|| "-".to_owned(), u64::to_string);
            let mark = if is_kept { "" } else { "  <" };
            let _ = writeln!(
                report.text,
                "{case:<width$} {:>12} {:>12} {change:>9}{mark}",
                show(before),
                show(after)
            );
        }
        report
    }
}

/// Returns the change of a count in words, and true if it is within the tolerance.
fn verdict(before: Option<u64>, after: Option<u64>) -> (String, bool) {
    let (Some(before), Some(after)) = (before, after) else {
        let word = if before.is_none() { "new" } else { "gone" };
        return (word.to_owned(), false);
    };
    let percent = (after as f64 - before as f64) * 100.0 / before.max(1) as f64;
    let is_kept = before.abs_diff(after) * 100 <= before * TOLERANCE_PERCENT;
    (format!("{percent:+.1} %"), is_kept)
}

/// Returns the path of the committed table.
fn path() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "instructions.tsv"]
        .iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(counts: &[(&str, u64)]) -> Table {
        let counts = counts
            .iter()
            .map(|(case, count)| (*case).to_owned() + "\t" + &count.to_string());
        let lines: Vec<String> = counts.collect();
        Table::parse(&format!("{COMPILER}rustc 1\n{}\n", lines.join("\n"))).expect("it is one")
    }

    #[test]
    fn text_is_parsed_to_the_same_table() {
        let written = table(&[("create/ext4", 100), ("unlink/ext3", 7)]);
        assert_eq!(Table::parse(&written.text()).expect("it is one"), written);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, expect) in [
            ("a\t1\nb 2\n", "line 2: not a case, a tab and a number"),
            ("a\t1\nb\tx\n", "line 2: not a case, a tab and a number"),
            ("a\t1\na\t2\n", "line 2: a again"),
        ] {
            let error = Table::parse(text).expect_err(text);
            assert_eq!(error.to_string(), expect);
        }
    }

    #[test]
    fn changes_of_more_than_the_tolerance_count_in_both_directions() {
        for (before, after, is_kept) in [
            (1000, 1000, true),
            (1000, 1030, true),
            (1000, 1031, false),
            (1000, 970, true),
            (1000, 969, false),
            (0, 1, false),
        ] {
            assert_eq!(verdict(Some(before), Some(after)).1, is_kept, "{after}");
        }
    }

    #[test]
    fn the_report_names_each_case_with_both_counts() {
        let expected = table(&[("create", 1000), ("gone", 5), ("read", 10)]);
        let counted = table(&[("create", 1100), ("fresh", 6), ("read", 10)]);
        let report = expected.compare(&counted);
        assert_eq!((report.cases, report.changed), (4, 3));
        let lines: Vec<Vec<&str>> = report
            .text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["create", "1000", "1100", "+10.0", "%", "<"]);
        assert_eq!(lines[2], ["fresh", "-", "6", "new", "<"]);
        assert_eq!(lines[3], ["gone", "5", "-", "gone", "<"]);
        assert_eq!(lines[4], ["read", "10", "10", "+0.0", "%"]);
    }
}
