//! The comparison as a table and as JSON.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use serde_json::{Value, json};

use super::{Comparison, Form, MOUNT_OPTIONS, Task};
use crate::machine::Machine;

const INFALLIBLE: &str = "writing to a string does not fail";
pub(super) fn text(machine: &Machine, form: Form, comparisons: &[Comparison]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    let kernel = format!("kernel {} on tmpfs, s", form.file_system.name());
    table.set_header(["task", &kernel, "jext in process, s", "jext / kernel"]);
    for Comparison {
        task,
        kernel,
        engine,
    } in comparisons
    {
        let ratio = engine.median() / kernel.median();
        let cells = [kernel.shown(), engine.shown(), format!("{ratio:.2}")];
        let mut row = vec![Cell::new(name(*task))];
        row.extend(cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    let Form {
        size_bytes,
        block_bytes,
        journal_megabytes,
        ..
    } = form;
    let mut text = format!("{table}\n");
    writeln!(
        text,
        "Medians, with the least and the greatest; final sync included. {size_bytes} bytes in blocks of {block_bytes}, \
         {journal_megabytes} MB of log, {MOUNT_OPTIONS}.\n{}",
        machine.text()
    )
    .expect(INFALLIBLE);
    text
}

fn name(task: Task) -> String {
    match task {
        Task::PostMark(test) => format!("PostMark {}", test.number),
        Task::Sequential(phase, bytes) => format!("{} MiB: {}", bytes >> 20, phase.name()),
    }
}

fn parameters(task: Task) -> Value {
    match task {
        Task::PostMark(test) => json!({
            "test": test.number,
            "size": [test.sizes.0, test.sizes.1],
            "number": test.files,
            "transactions": test.transactions,
        }),
        Task::Sequential(phase, bytes) => json!({ "sequential": phase.name(), "bytes": bytes }),
    }
}

pub(super) fn json(machine: &Machine, form: Form, comparisons: &[Comparison]) -> Value {
    let tasks: Vec<Value> = comparisons
        .iter()
        .map(
            |Comparison {
                 task,
                 kernel,
                 engine,
             }| {
                json!({
                    "task": parameters(*task),
                    "kernel": kernel.to_json(),
                    "jext": engine.to_json(),
                    "ratio": engine.median() / kernel.median(),
                })
            },
        )
        .collect();
    json!({
        "machine": machine.to_json(),
        "type": form.file_system.name(),
        "size_bytes": form.size_bytes,
        "block_bytes": form.block_bytes,
        "journal_megabytes": form.journal_megabytes,
        "mount_options": MOUNT_OPTIONS,
        "tasks": tasks,
    })
}
