//! Silent corruption and its detection, as a table and as JSON.

use comfy_table::{CellAlignment, Table, presets};
use crash::explore::silent::{FATES, PARTS, SilentTally};
use serde_json::{Map, Value};

/// Returns a table with a row for each part of a volume that had damaged blocks; empty if none had.
pub(super) fn to_text(tally: &SilentTally) -> String {
    let damaged = PARTS.into_iter().filter(|part| tally.of_part(*part) > 0);
    let rows: Vec<Vec<String>> = damaged
        .map(|part| {
            let counts = FATES.map(|fate| tally.get(part, fate).to_string());
            [part.to_string()].into_iter().chain(counts).collect()
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let fates = FATES.map(|fate| fate.to_string());
    let name = "changed silently".to_owned();
    table.set_header([name].into_iter().chain(fates));
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("\n{table}\n")
}

/// Returns all parts with all counts.
pub(super) fn to_json(tally: &SilentTally) -> Value {
    let counts = |part| -> Value {
        let count = |fate| (format!("{fate}"), Value::from(tally.get(part, fate)));
        FATES.into_iter().map(count).collect::<Map<_, _>>().into()
    };
    let parts = PARTS.into_iter();
    let parts = parts.map(|part| (part.to_string(), counts(part)));
    parts.collect::<Map<_, _>>().into()
}
