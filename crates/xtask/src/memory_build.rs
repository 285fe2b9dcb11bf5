//! `memory-build`: measures the memory of builds of images of millions of files.
//!
//! Trees of many files and of many directories are built from a directory and from an archive, and
//! a tree of two archives on top of each other, of which the second one replaces half of the files
//! of the first. Each has the size that it needs and the smallest (`--fit`). Each build is a
//! separate `jext build`, whose high-water mark of resident memory is compared with the limit that
//! `jext build` promises for any number of files. In a tmpfs a tree takes approximately 1 KiB for
//! each file, and the time is that of the program.

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
    /// Number of files, or of directories, in a tree; each twentieth file has contents. Each of two
    /// layers has half of them.
    #[arg(long, value_name = "COUNT", default_value_t = 2_000_000)]
    files: u32,
    /// Number of files, or of directories, in a directory.
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

/// A source, or several.
struct Source {
    name: &'static str,
    files: &'static [&'static str],
    make: fn(&Scratch, tree::Shape) -> Result<()>,
}

const SOURCES: [Source; 5] = [
    Source {
        name: "directory of files",
        files: &["tree"],
        make: |place, shape| tree::make(&place.at("tree"), shape),
    },
    Source {
        name: "archive of files",
        files: &["tree.tar"],
        make: |place, shape| tree::archive(&place.at("tree.tar"), shape),
    },
    Source {
        name: "directory of directories",
        files: &["tree"],
        make: |place, shape| tree::make(&place.at("tree"), shape.of_directories()),
    },
    Source {
        name: "archive of directories",
        files: &["tree.tar"],
        make: |place, shape| tree::archive(&place.at("tree.tar"), shape.of_directories()),
    },
    Source {
        name: "two layers of files",
        files: &["lower.tar", "upper.tar"],
        make: |place, shape| {
            let (lower, upper) = shape.layers();
            tree::archive(&place.at("lower.tar"), lower)?;
            tree::archive(&place.at("upper.tar"), upper)
        },
    },
];

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
    let shape = tree::Shape::of_files(arguments.files, arguments.per_directory);
    let mut rows = Vec::new();
    for source in &SOURCES {
        (source.make)(&place, shape)?;
        for file_system in &arguments.file_system {
            for size in ["--slack=10", "--fit"] {
                rows.push(measure(&program, &place, file_system, (source, size))?);
            }
        }
        source
            .files
            .iter()
            .try_for_each(|name| place.remove(name))?;
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
    (source, size): (&Source, &'static str),
) -> Result<Row> {
    let image = place.at("image");
    let text = |path: &Path| path.to_str().map(str::to_owned).context("a path of UTF-8");
    let out = text(&image)?;
    let from = source.files.iter().map(|name| text(&place.at(name)));
    let from = from.collect::<Result<Vec<_>>>()?;
    let mut line = vec!["build", "-q", "-t", file_system, size, &out];
    line.extend(from.iter().map(String::as_str));
    let usage = peak::run(program, &line)?;
    let image_bytes = std::fs::metadata(&image).context("the image")?.len();
    std::fs::remove_file(&image).context("the image")?;
    Ok(Row {
        file_system: file_system.to_owned(),
        source: source.name,
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
