//! `memory`: measures the memory of a process that copies a large file into an image and out of it.
//!
//! Each copy is a separate `jext cp`, with a memory budget far below the size of the file, on an
//! image in a file. It reports the high-water mark of the resident memory of the whole program, and
//! the duration. The file that comes out is compared with the one that went in.

mod pattern;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};
use block::text::Size;
use clap::{Args, ValueEnum};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::output;
use crate::peak::{self, Usage};
use crate::program;

/// Space in the image for metadata and reserved blocks: one byte per this many of the file, and a
/// constant in bytes.
const ROOM_SHARE: u64 = 8;
const ROOM_BYTES: u64 = 64 << 20;
const MIB: f64 = (1_u64 << 20) as f64;
/// Allowance on top of the budget for the program, its buffers and requests under way: one byte per
/// this many bytes of budget.
const ALLOWANCE_SHARE: u64 = 4;

/// Measure the memory of copying a large file into an image and out of it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the file, the image and the copy, which are removed afterwards; needs three times
    /// the size.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Size of the file.
    #[arg(long, value_name = "SIZE", default_value = "10GB")]
    size: String,
    /// Memory budget.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    memory: String,
    /// Size of the log.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 128)]
    journal: u32,
    /// Location of the log.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "internal,external"
    )]
    place: Vec<Place>,
    /// Data modes.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "ordered,writeback,journal"
    )]
    data: Vec<Data>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Place {
    Internal,
    External,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Data {
    Ordered,
    Writeback,
    Journal,
}

/// Usage of a pair of copies.
struct Row {
    place: Place,
    data: Data,
    inward: Usage,
    outward: Usage,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::External => "external",
        }
    }
}

impl Data {
    fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Writeback => "writeback",
            Self::Journal => "journal",
        }
    }
}

/// The files of the benchmark, removed when it ends.
struct Files {
    source: PathBuf,
    image: PathBuf,
    log: PathBuf,
    copy: PathBuf,
}

impl Files {
    fn new(folder: &Path) -> Result<Self> {
        ensure!(folder.is_dir(), "{}: not a directory", folder.display());
        let name = |what: &str| folder.join(format!("jext-memory-{}.{what}", std::process::id()));
        Ok(Self {
            source: name("source"),
            image: name("image"),
            log: name("log"),
            copy: name("copy"),
        })
    }

    fn all(&self) -> [&Path; 4] {
        [&self.source, &self.image, &self.log, &self.copy]
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in self.all() {
            // Some of the files may not exist.
            let _ = std::fs::remove_file(path);
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let size = bytes("--size", &arguments.size)?;
    let budget = bytes("--memory", &arguments.memory)?;
    let limit = budget + budget / ALLOWANCE_SHARE;
    let machine = Machine::read()?;
    let files = Files::new(&arguments.folder)?;
    // Ctrl-C reaches the children too, and they exit; dropping `files` then removes the files.
    ctrlc::set_handler(|| {}).context("Ctrl-C")?;
    let program = program::find()?;
    pattern::write(&files.source, size)?;
    let mut rows = Vec::new();
    for place in &arguments.place {
        for data in &arguments.data {
            rows.push(measure(
                &program,
                arguments,
                (&files, size),
                (*place, *data),
            )?);
        }
    }
    let is_kept = rows
        .iter()
        .all(|row| row.inward.peak_bytes.max(row.outward.peak_bytes) < limit);
    if arguments.json {
        let rows: Vec<Value> = rows.iter().map(row_json).collect();
        output::print_json(&json!({
            "machine": machine.to_json(),
            "file_bytes": size,
            "budget_bytes": budget,
            "limit_bytes": limit,
            "journal_megabytes": arguments.journal,
            "copies": rows,
        }))?;
    } else {
        let head = format!(
            "A file of {size} bytes, a budget of {:.0} MiB, a log of {} MB; at most {:.0} MiB are allowed.",
            budget as f64 / MIB,
            arguments.journal,
            limit as f64 / MIB
        );
        output::print(&format!("{}\n{head}\n{}\n", table(&rows), machine.text()))?;
    }
    Ok(if is_kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn measure(
    program: &Path,
    arguments: &Arguments,
    (files, size): (&Files, u64),
    (place, data): (Place, Data),
) -> Result<Row> {
    let run = |words: &[&str]| peak::run(program, words);
    for path in [&files.image, &files.log] {
        // Removes the files of the previous row, if there are any.
        let _ = std::fs::remove_file(path);
    }
    let journal = u64::from(arguments.journal) << 20;
    let image_bytes = (size + size / ROOM_SHARE + journal + ROOM_BYTES).next_multiple_of(1 << 20);
    let (image, log) = (text(&files.image)?, text(&files.log)?);
    let image_size = format!("{}K", image_bytes >> 10);
    let mut make = vec!["mkfs", "-q", "-t", "ext3", "-b", "4096", image, &image_size];
    let log_option = match place {
        Place::Internal => format!("size={}", arguments.journal),
        Place::External => {
            let size = format!("{}K", journal >> 10);
            run(&["mkfs", "-q", "-O", "journal_dev", "-b", "4096", log, &size])?;
            format!("device={log}")
        }
    };
    make.extend(["-J", &log_option]);
    run(&make)?;
    let mount = format!("data={}", data.name());
    let mut copy = vec!["cp", "--memory", &arguments.memory, "-o", &mount];
    if place == Place::External {
        copy.extend(["--journal", log]);
    }
    let inside = format!("{image}:/file");
    let with = |from, to| [&copy[..], &[from, to]].concat();
    let inward = run(&with(text(&files.source)?, &inside))?;
    let outward = run(&with(&inside, text(&files.copy)?))?;
    pattern::check(&files.copy, size)?;
    std::fs::remove_file(&files.copy).context("the copy")?;
    Ok(Row {
        place,
        data,
        inward,
        outward,
    })
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    let heads = [
        "log",
        "data",
        "peak in, MiB",
        "time in, s",
        "peak out, MiB",
        "time out, s",
    ];
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(heads);
    for Row {
        place,
        data,
        inward,
        outward,
    } in rows
    {
        let figures = [inward, outward].map(|usage| [usage.peak_bytes as f64 / MIB, usage.seconds]);
        let mut cells = vec![Cell::new(place.name()), Cell::new(data.name())];
        cells.extend(
            figures.as_flattened().iter().map(|figure| {
                Cell::new(format!("{figure:.1}")).set_alignment(CellAlignment::Right)
            }),
        );
        table.add_row(cells);
    }
    table
}

fn row_json(row: &Row) -> Value {
    let usage = |usage: &Usage| json!({ "peak_bytes": usage.peak_bytes, "seconds": usage.seconds });
    json!({
        "log": row.place.name(),
        "data": row.data.name(),
        "in": usage(&row.inward),
        "out": usage(&row.outward),
    })
}

fn bytes(option: &str, text: &str) -> Result<u64> {
    let size = Size::parse(text).map_err(|error| anyhow!("{option} {text}: {error}"))?;
    Ok(size.bytes())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str()
        .with_context(|| format!("{}: not UTF-8", path.display()))
}
