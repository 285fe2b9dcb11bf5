//! `memory-build`: measures the memory of builds of images of millions of files.
//!
//! The same tree is built from a directory and from an archive, of the size that it needs and of
//! the smallest (`--fit`). Each build is a separate `jext build`, whose high-water mark of resident
//! memory is compared with the limit that `jext build` promises for any number of files. In a tmpfs
//! the tree takes approximately 1 KiB for each file, and the time is that of the program.

mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::output;
use crate::peak::{self, Usage};
use crate::program;
use crate::scratch::Scratch;

const MIB: f64 = (1_u64 << 20) as f64;
/// Most memory that a build may take, in bytes.
const LIMIT_BYTES: u64 = 256 << 20;

/// Measure the memory of building images of millions of files.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the tree, the archive and the image, which are removed afterwards.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Number of files in the tree; each twentieth has contents.
    #[arg(long, value_name = "COUNT", default_value_t = 2_000_000)]
    files: u32,
    /// Number of files in a directory.
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    per_directory: u32,
    /// Types of the images.
    #[arg(
        short = 't',
        value_name = "TYPES",
        value_delimiter = ',',
        default_value = "ext4"
    )]
    file_system: Vec<String>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// A build.
struct Row {
    file_system: String,
    source: &'static str,
    size: &'static str,
    image_bytes: u64,
    usage: Usage,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let machine = Machine::read()?;
    let place = Scratch::make(&arguments.folder, "memory-build")?;
    // Ctrl-C reaches the children too, and they exit; dropping `place` then removes the folder.
    ctrlc::set_handler(|| {}).context("Ctrl-C")?;
    let program = program::find()?;
    let shape = tree::Shape {
        files: arguments.files,
        per_directory: arguments.per_directory,
    };
    tree::make(&place.at("tree"), shape)?;
    tree::archive(&place.at("tree.tar"), shape)?;
    let mut rows = Vec::new();
    for file_system in &arguments.file_system {
        for source in ["tree", "tree.tar"] {
            for size in ["--slack=10", "--fit"] {
                rows.push(measure(&program, &place, file_system, (source, size))?);
            }
        }
    }
    if arguments.json {
        let rows: Vec<Value> = rows.iter().map(row_json).collect();
        output::print_json(&json!({
            "machine": machine.to_json(),
            "files": arguments.files,
            "files_per_directory": arguments.per_directory,
            "limit_bytes": LIMIT_BYTES,
            "builds": rows,
        }))?;
    } else {
        let head = format!(
            "{} files, {} in a directory; at most {:.0} MiB are allowed.",
            arguments.files,
            arguments.per_directory,
            LIMIT_BYTES as f64 / MIB
        );
        output::print(&format!("{}\n{head}\n{}\n", table(&rows), machine.text()))?;
    }
    let is_kept = rows.iter().all(|row| row.usage.peak_bytes <= LIMIT_BYTES);
    Ok(match is_kept {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn measure(
    program: &Path,
    place: &Scratch,
    file_system: &str,
    (source, size): (&'static str, &'static str),
) -> Result<Row> {
    let image = place.at("image");
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path of UTF-8");
    let (from, out) = (text(&place.at(source))?, text(&image)?);
    let usage = peak::run(
        program,
        &["build", "-q", "-t", file_system, size, &out, &from],
    )?;
    let image_bytes = std::fs::metadata(&image).context("the image")?.len();
    std::fs::remove_file(&image).context("the image")?;
    Ok(Row {
        file_system: file_system.to_owned(),
        source: match source {
            "tree" => "directory",
            _ => "archive",
        },
        size,
        image_bytes,
        usage,
    })
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "type",
        "source",
        "size",
        "image, MiB",
        "peak, MiB",
        "time, s",
    ]);
    for row in rows {
        let figures = [
            row.image_bytes as f64 / MIB,
            row.usage.peak_bytes as f64 / MIB,
            row.usage.seconds,
        ];
        let mut cells = vec![
            Cell::new(&row.file_system),
            Cell::new(row.source),
            Cell::new(row.size),
        ];
        cells.extend(
            figures.iter().map(|figure| {
                Cell::new(format!("{figure:.1}")).set_alignment(CellAlignment::Right)
            }),
        );
        table.add_row(cells);
    }
    table
}

fn row_json(row: &Row) -> Value {
    json!({
        "type": row.file_system,
        "source": row.source,
        "size": row.size,
        "image_bytes": row.image_bytes,
        "peak_bytes": row.usage.peak_bytes,
        "seconds": row.usage.seconds,
    })
}
