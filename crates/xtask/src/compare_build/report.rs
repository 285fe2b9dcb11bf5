//! The comparison as a table and as JSON.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use serde_json::{Value, json};

use super::{Comparison, Figures};
use crate::machine::Machine;

const HEADS: [&str; 3] = ["", "time, s", "processor time, s"];

impl Comparison {
    fn build_ratio(&self) -> f64 {
        self.jext.wall.median() / self.mke2fs.wall.median()
    }

    fn check_ratio(&self) -> f64 {
        self.fsck.wall.median() / self.e2fsck.wall.median()
    }
}

pub(super) fn text(machine: &Machine, comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(HEADS);
    for (name, figures) in [
        ("mke2fs -d", &comparison.mke2fs),
        ("jext build", &comparison.jext),
        ("e2fsck -fn", &comparison.e2fsck),
        ("jext fsck", &comparison.fsck),
    ] {
        let cells = [figures.wall.shown(), figures.processor.shown()];
        let mut row = vec![Cell::new(name)];
        row.extend(cells.map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
        table.add_row(row);
    }
    format!(
        "{table}\njext build takes {:.2} of the time, jext fsck of its image {:.2}. Medians, with the least and the greatest.\n{} files and {} directories, \
         {} bytes; images of {} bytes, {}. e2fsck finds both clean; two builds are the same to the byte.\n{}\n",
        comparison.build_ratio(),
        comparison.check_ratio(),
        comparison.shape.files,
        comparison.shape.directories(),
        comparison.shape.bytes,
        comparison.image_bytes,
        comparison.file_system.name(),
        machine.text()
    )
}

pub(super) fn json(machine: &Machine, comparison: &Comparison) -> Value {
    let figures = |figures: &Figures| json!({ "time": figures.wall.to_json(), "processor_time": figures.processor.to_json() });
    json!({
        "machine": machine.to_json(),
        "type": comparison.file_system.name(),
        "files": comparison.shape.files,
        "directories": comparison.shape.directories(),
        "file_bytes": comparison.shape.bytes,
        "image_bytes": comparison.image_bytes,
        "mke2fs": figures(&comparison.mke2fs),
        "jext": figures(&comparison.jext),
        "ratio": comparison.build_ratio(),
        "e2fsck": figures(&comparison.e2fsck),
        "fsck": figures(&comparison.fsck),
        "check_ratio": comparison.check_ratio(),
    })
}
