//! `jext fsck`: checks a file system and never writes to it. Exit statuses are those of fsck(8).
//!
//! If the journal needs recovery, the engine replays it in memory. The checker, which shares no
//! code with the engine, then checks the result.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use block::BlockDevice;
use clap::Args;
use ext::volume::OpenReport;
use fsck::{Options, Problem, Report, Severity, SuperblockFault};
use serde_json::{Value, json};

use crate::advice;
use crate::foreign;
use crate::image::{open_to_look, open_unused, replay_in_memory, replayed, warn_of_errors};
use crate::output;

const INFALLIBLE: &str = "writing to a string does not fail";
/// Exit status: problems were found and left uncorrected.
const LEFT: u8 = 4;
/// Exit status: operational error, the check could not run.
const OPERATIONAL: u8 = 8;
/// Exit status: wrong command line.
pub(crate) const USAGE: u8 = 16;

/// Check a file system; nothing is written.
///
/// The exit status is 0 if nothing is wrong, 4 if problems were found, 8 if the check could not
/// run, and 16 if the command line is wrong.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Device of the file system.
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Device of the external journal.
    #[arg(long, visible_alias = "journal", value_name = "DEV")]
    journal_device: Option<String>,
    /// Change nothing, which is always the case; also check an image that a mount uses.
    #[arg(short = 'n')]
    no_change: bool,
    /// Check even if the file system seems clean. Always the case; accepted for scripts.
    #[arg(short = 'f')]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let checked = match check(arguments) {
        Ok(checked) => checked,
        Err(error) => {
            output::fail(&error);
            return Ok(ExitCode::from(OPERATIONAL));
        }
    };
    if arguments.json {
        output::print_json(&to_json(&arguments.image, &checked))?;
    } else {
        output::print(&text(&arguments.image, &checked))?;
    }
    Ok(if checked.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(LEFT)
    })
}

/// The result of a check.
struct Checked {
    report: Report,
    journal: JournalState,
}

impl Checked {
    /// Returns true if nothing is left to mend. A journal that cannot be replayed, or only in part,
    /// is left.
    fn is_clean(&self) -> bool {
        let is_left = match &self.journal {
            JournalState::Settled => false,
            JournalState::Replayed(report) => report.lost.is_some(),
            JournalState::Left(_) => true,
        };
        self.report.is_clean() && !is_left
    }
}

/// The state of the journal before the check.
enum JournalState {
    /// The journal needs no recovery.
    Settled,
    /// Its transactions and fast commits were replayed in memory.
    Replayed(OpenReport),
    /// The journal needs recovery but cannot be replayed, for this reason.
    Left(String),
}

fn check(arguments: &Arguments) -> Result<Checked> {
    // A check of a changing image may report false problems, so it has to be asked for.
    let open = |text: &str| match arguments.no_change {
        true => open_to_look(text),
        false => open_unused(text),
    };
    let device = open(&arguments.image)?;
    let journal = arguments.journal_device.as_deref();
    let journal = journal.map(open).transpose()?;
    let (device, journal, state) = match replay_in_memory(&device, journal.as_ref()) {
        Ok(None) => (device, journal, JournalState::Settled),
        Ok(Some(replayed)) => {
            warn_of_errors(&arguments.image, &replayed.report);
            let state = JournalState::Replayed(replayed.report);
            (replayed.device, replayed.journal, state)
        }
        Err(error) => (device, journal, JournalState::Left(advice::text(&error))),
    };
    let options = Options {
        now: Some(rt::wall().seconds),
    };
    let checked = fsck::check(&*device, journal.as_deref(), &options);
    let report = checked
        .map_err(|error| explain(error, &device))
        .with_context(|| arguments.image.clone())?;
    Ok(Checked {
        report,
        journal: state,
    })
}

/// Returns an error of a check. If the device holds no ext file system, names its contents.
fn explain(error: fsck::Error, device: &Arc<dyn BlockDevice>) -> anyhow::Error {
    match error {
        fsck::Error::NoSuperblock {
            why: SuperblockFault::Magic { .. },
        } => anyhow!("{}", foreign::describe(device)),
        error => error.into(),
    }
}

fn text(image: &str, checked: &Checked) -> String {
    let Checked { report, journal } = checked;
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
    match journal {
        JournalState::Settled => {}
        JournalState::Replayed(report) => {
            let count = replayed(report);
            writeln!(
                text,
                "{image}: was not closed cleanly: checked with {count} of its journal replayed in memory, and left as it is"
            )
            .expect(INFALLIBLE);
        }
        JournalState::Left(why) => writeln!(
            text,
            "{image}: was not closed cleanly, and the journal cannot be replayed ({why}): checked as it lies"
        )
        .expect(INFALLIBLE),
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
    let state = if checked.is_clean() {
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

fn to_json(image: &str, checked: &Checked) -> Value {
    let Checked { report, journal } = checked;
    let (needs_recovery, replayed, fast_commits) = match journal {
        JournalState::Settled => (false, 0, 0),
        JournalState::Replayed(report) => (
            true,
            report.replayed_transactions,
            report.replayed_fast_commits,
        ),
        JournalState::Left(_) => (true, 0, 0),
    };
    let statistics = &report.statistics;
    json!({
        "image": image,
        "clean": checked.is_clean(),
        "needs_recovery": needs_recovery,
        "replayed_transactions": replayed,
        "replayed_fast_commits": fast_commits,
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
