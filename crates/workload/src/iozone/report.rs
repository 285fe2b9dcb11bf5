//! The reports of IOzone: the text of `-R`, and CSV.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use rt::Nanos;

use super::matrix::Cell;
use super::test::{TESTS, Test};
use crate::outcome::Document;

const KIB: u64 = 1024;

/// Result of a test in a cell.
pub(super) struct CellResult {
    pub(super) test: &'static Test,
    pub(super) cell: Cell,
    pub(super) bytes: u64,
    pub(super) span: Nanos,
}

impl CellResult {
    /// Returns the rate in whole KiB per second.
    fn kib_per_second(&self) -> u64 {
        let rate = self.bytes as f64 / KIB as f64 / self.span.as_secs_f64();
        if rate.is_finite() { rate as u64 } else { 0 }
    }
}

pub(super) fn documents(results: &[CellResult]) -> Vec<Document> {
    vec![
        Document {
            name: "excel",
            text: excel(results),
        },
        Document {
            name: "csv",
            text: csv(results),
        },
    ]
}

/// Returns the text of `-R`: a block per test, a row per file size, a column per record size.
fn excel(results: &[CellResult]) -> String {
    let mut text = "Excel output is below:\n".to_owned();
    let sizes: BTreeSet<u64> = results.iter().map(|result| result.cell.size).collect();
    let records: BTreeSet<usize> = results.iter().map(|result| result.cell.record).collect();
    for test in &TESTS {
        let of_test = results
            .iter()
            .filter(|result| result.test.phase == test.phase);
        let rates: BTreeMap<(u64, usize), u64> = of_test
            .map(|result| {
                let key = (result.cell.size, result.cell.record);
                (key, result.kib_per_second())
            })
            .collect();
        if rates.is_empty() {
            continue;
        }
        text.push_str(&format!("\n\"{} report\"\n       ", test.phase));
        for record in &records {
            put(&mut text, format_args!(" \"{}\"", *record as u64 / KIB));
        }
        for size in &sizes {
            put(&mut text, format_args!("\n\"{}\"  ", size / KIB));
            for record in &records {
                let rate = rates.get(&(*size, *record)).copied().unwrap_or(0);
                put(&mut text, format_args!(" {rate}"));
            }
        }
        text.push('\n');
    }
    text
}

fn csv(results: &[CellResult]) -> String {
    let mut text = "test,file_kib,record_kib,bytes,seconds,kib_per_second\n".to_owned();
    for result in results {
        put(
            &mut text,
            format_args!(
                "{},{},{},{},{:.9},{}\n",
                result.test.phase,
                result.cell.size / KIB,
                result.cell.record as u64 / KIB,
                result.bytes,
                result.span.as_secs_f64(),
                result.kib_per_second()
            ),
        );
    }
    text
}

fn put(text: &mut String, piece: std::fmt::Arguments<'_>) {
    text.write_fmt(piece)
        .expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_are_missing_are_zeros() {
        let result = |size, record| CellResult {
            test: &TESTS[0],
            cell: Cell { size, record },
            bytes: size,
            span: Nanos::from_millis(500),
        };
        let results = [result(64 << 10, 4096), result(128 << 10, 8192)];
        assert_eq!(
            excel(&results),
            "Excel output is below:\n\n\"Writer report\"\n        \"4\" \"8\"\n\"64\"   128 0\n\"128\"   0 256\n"
        );
        assert!(csv(&results).ends_with("Writer,128,8,131072,0.500000000,256\n"));
    }
}
