//! The comparison as a table and as JSON.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use serde_json::{Value, json};

use super::{Comparison, MOUNT_OPTIONS, Side};
use crate::machine::Machine;

const HEADS: [&str; 7] = [
    "",
    "files",
    "extents",
    "mean extents of a file",
    "in one extent",
    "most",
    "time, s",
];

impl Comparison {
    fn sides(&self) -> [(&'static str, &Side); 2] {
        [("kernel ext4", &self.kernel), ("jext", &self.jext)]
    }

    fn ratio(&self) -> f64 {
        self.jext.extents.mean() / self.kernel.extents.mean()
    }
}

pub(super) fn text(machine: &Machine, comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(HEADS);
    for (name, Side { aged, extents }) in comparison.sides() {
        let cells = [
            extents.files().to_string(),
            extents.all().to_string(),
            format!("{:.2}", extents.mean()),
            format!("{:.1} %", extents.whole_percent()),
            extents.greatest().to_string(),
            format!("{:.0}", aged.seconds),
        ];
        let mut row = vec![Cell::new(name)];
        row.extend(cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    let aged = &comparison.jext.aged;
    format!(
        "{table}\njext's files have {:.2} of the kernel's extents. {} operations wrote {} bytes and left {}; volumes of {} bytes, {} % full, \
         seed {}, {MOUNT_OPTIONS}.\ne2fsck finds both clean; the kernel's filefrag counts.\n{}\n",
        comparison.ratio(),
        aged.operations,
        aged.written,
        aged.bytes,
        comparison.size_bytes,
        comparison.fill_percent,
        comparison.seed,
        machine.text()
    )
}

pub(super) fn json(machine: &Machine, comparison: &Comparison) -> Value {
    let side = |Side { aged, extents }: &Side| {
        json!({
            "files": extents.files(),
            "extents": extents.all(),
            "mean_extents": extents.mean(),
            "whole_percent": extents.whole_percent(),
            "most_extents": extents.greatest(),
            "seconds": aged.seconds,
        })
    };
    json!({
        "machine": machine.to_json(),
        "size_bytes": comparison.size_bytes,
        "fill_percent": comparison.fill_percent,
        "seed": comparison.seed,
        "operations": comparison.jext.aged.operations,
        "written_bytes": comparison.jext.aged.written,
        "left_bytes": comparison.jext.aged.bytes,
        "mount_options": MOUNT_OPTIONS,
        "kernel": side(&comparison.kernel),
        "jext": side(&comparison.jext),
        "ratio": comparison.ratio(),
    })
}
