//! `jext fsck`: checks a file system and never writes to it. Exit statuses are those of fsck(8).

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use block::BlockDevice;
use clap::Args;
use fsck::{Options, Problem, Report, Severity, SuperblockFault};
use serde_json::{Value, json};

use crate::foreign;
use crate::image::{Access, open_device};
use crate::output;

const INFALLIBLE: &str = "writing to a string does not fail";
/// Problems were found, and are left.
const LEFT: u8 = 4;
/// The check could not be done.
const OPERATIONAL: u8 = 8;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 16;

/// Check a file system; nothing is written.
///
/// The exit status is 0 if nothing is wrong, 4 if problems were found, 8 if the check could not be done, and 16 if the
/// command line is wrong.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The file system's device.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// The external journal's device.
    #[arg(long, visible_alias = "journal", value_name = "DEV")]
    journal_device: Option<String>,
    /// Change nothing. It is always so; taken for the sake of scripts.
    #[arg(short = 'n')]
    no_change: bool,
    /// Check even if the file system seems clean. It is always so; taken for the sake of scripts.
    #[arg(short = 'f')]
    force: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let report = match check(arguments) {
        Ok(report) => report,
        Err(error) => {
            output::fail(&error);
            return Ok(ExitCode::from(OPERATIONAL));
        }
    };
    if arguments.json {
        output::print_json(&to_json(&arguments.image, &report))?;
    } else {
        output::print(&text(&arguments.image, &report))?;
    }
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(LEFT)
    })
}

fn check(arguments: &Arguments) -> Result<Report> {
    let device = open_device(&arguments.image, Access::Read)?;
    let journal = arguments.journal_device.as_deref();
    let journal = journal
        .map(|text| open_device(text, Access::Read))
        .transpose()?;
    let options = Options {
        now: Some(rt::wall().seconds),
    };
    let checked = fsck::check(&*device, journal.as_deref(), &options);
    checked
        .map_err(|error| explain(error, &device))
        .with_context(|| arguments.image.clone())
}

/// Of a device that holds no file system it says what it holds.
fn explain(error: fsck::Error, device: &Arc<dyn BlockDevice>) -> anyhow::Error {
    match error {
        fsck::Error::NoSuperblock {
            why: SuperblockFault::Magic { .. },
        } => anyhow!("{}", foreign::describe(device)),
        error => error.into(),
    }
}

fn text(image: &str, report: &Report) -> String {
    let mut text = String::new();
    for problem in &report.problems {
        let note = match problem.kind.severity() {
            Severity::Error => "",
            Severity::Note => "note ",
        };
        writeln!(text, "{note}{problem}").expect(INFALLIBLE);
    }
    if report.omitted > 0 {
        writeln!(text, "and {} more", report.omitted).expect(INFALLIBLE);
    }
    let statistics = &report.statistics;
    if statistics.needs_recovery {
        let line = "the journal has to be replayed; what was checked is what lies on the disk now";
        writeln!(text, "{image}: {line}").expect(INFALLIBLE);
    }
    if statistics.unmarked_transactions > 0 {
        let count = statistics.unmarked_transactions;
        writeln!(
            text,
            "{image}: the log holds {count} transactions that the superblock does not call for; it is opened for writing after \
             `jext journal replay` has brought them home, or `jext journal discard` has dropped them"
        )
        .expect(INFALLIBLE);
    }
    let state = if report.is_clean() {
        "clean"
    } else {
        "NOT CLEAN"
    };
    writeln!(
        text,
        "{image}: {state}, {}/{} files, {}/{} blocks",
        statistics.used_inodes, statistics.inodes, statistics.used_blocks, statistics.blocks
    )
    .expect(INFALLIBLE);
    text
}

fn to_json(image: &str, report: &Report) -> Value {
    let statistics = &report.statistics;
    json!({
        "image": image,
        "clean": report.is_clean(),
        "needs_recovery": statistics.needs_recovery,
        "unmarked_transactions": statistics.unmarked_transactions,
        "problems": report.problems.iter().map(problem_json).collect::<Vec<_>>(),
        "problems_omitted": report.omitted,
        "block_bytes": statistics.block_bytes,
        "blocks": statistics.blocks,
        "used_blocks": statistics.used_blocks,
        "map_blocks": statistics.map_blocks,
        "inodes": statistics.inodes,
        "used_inodes": statistics.used_inodes,
        "regular_files": statistics.regular_files,
        "directories": statistics.directories,
        "indexed_directories": statistics.indexed_directories,
        "symlinks": statistics.symlinks,
        "fast_symlinks": statistics.fast_symlinks,
        "devices": statistics.devices,
        "pipes": statistics.pipes,
        "orphans": statistics.orphans,
    })
}

fn problem_json(problem: &Problem) -> Value {
    let place = &problem.place;
    let severity = match problem.kind.severity() {
        Severity::Error => "error",
        Severity::Note => "note",
    };
    json!({
        "number": problem.kind.number(),
        "name": problem.kind.name(),
        "severity": severity,
        "sentence": problem.kind.sentence(),
        "group": place.group,
        "inode": place.inode,
        "block": place.block,
        "file_block": place.file_block,
        "entry": place.entry,
        "entry_name": place.name.as_deref().map(output::name_text),
        "found": problem.found,
        "expected": problem.expected,
    })
}
