//! `jext crash --recording`: power cuts in the recording of a guest or of another program.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use crash::recorded::{Id, Report, Setup, Tally};
use serde_json::json;

use crate::output::{print, print_json};
use crate::progress;

/// Arguments of power cuts in a recording.
#[derive(Debug, Args)]
pub(crate) struct RecordedArguments {
    /// Cut the power in a recording of `jext bench --record`: at every flush and at instants
    /// between. Each image that this may leave is recovered and checked, a share by e2fsck, too.
    /// Only ext2, ext3 and ext4 are judged: that recovery succeeds and the volume is sound, and not
    /// what files contain. --minutes, --states and --seed apply.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["all", "cells", "generator", "length", "shard", "threads", "compare", "real"]
    )]
    recording: Option<PathBuf>,
    /// Image with the contents of the device before the recording, if it was not empty; repeat it
    /// for the journal's device.
    #[arg(long, requires = "recording", value_name = "IMAGE")]
    initial: Vec<PathBuf>,
    /// Explore one in this number of the instants between flushes; 1 is all of them. The default is
    /// all if there are at most 256, and otherwise as many.
    #[arg(long, requires = "recording", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    one_in: Option<u64>,
    /// Repeat the power cut that a violation names.
    #[arg(
        long,
        requires = "recording",
        value_name = "ID",
        conflicts_with_all = ["one_in", "minutes", "states", "json"]
    )]
    replay: Option<Id>,
    /// New file for the image that the power cut of --replay leaves, not recovered; repeat it for
    /// the journal's device.
    #[arg(long, requires = "replay", value_name = "FILE")]
    output: Vec<PathBuf>,
}

/// Options from the other arguments.
pub(super) struct Options {
    pub(super) minutes: Option<Duration>,
    pub(super) states: Option<u64>,
    pub(super) seed: u64,
    pub(super) is_json: bool,
}

impl RecordedArguments {
    /// Returns the recording, if one is given.
    pub(super) fn recording(&self) -> Result<Option<&Path>> {
        let has_others = !self.initial.is_empty() || self.one_in.is_some() || self.replay.is_some();
        ensure!(
            self.recording.is_some() || !has_others,
            "--initial, --one-in and --replay are for --recording FILE"
        );
        Ok(self.recording.as_deref())
    }
}

pub(super) fn run(
    path: &Path,
    arguments: &RecordedArguments,
    options: &Options,
) -> Result<ExitCode> {
    let setup = Setup {
        initial: arguments.initial.clone(),
        one_in: arguments.one_in,
        after: options.minutes,
        images: options.states,
        ..Setup::new(path, options.seed)
    };
    let named = || path.display().to_string();
    if let Some(id) = arguments.replay {
        return replay(&setup, id, &arguments.output).with_context(named);
    }
    let bar = progress::share(1000);
    let report = setup.explore(&|tally, share| {
        bar.set_position((share * 1000.0) as u64);
        bar.set_message(format!("{} images", tally.distinct));
    });
    bar.finish_and_clear();
    let report = report.with_context(named)?;
    match options.is_json {
        true => print_json(&to_json(&setup, &report))?,
        false => print(&to_text(&setup, &report))?,
    }
    Ok(match report.tally.violations {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Repeats a power cut, and writes what it leaves to new files.
fn replay(setup: &Setup, id: Id, output: &[PathBuf]) -> Result<ExitCode> {
    for (number, path) in output.iter().enumerate() {
        let is_there = path.symlink_metadata().is_ok() || output[..number].contains(path);
        ensure!(!is_there, "{}", already(path));
    }
    let left = setup.left_by(id)?;
    let (wanted, given) = (left.devices.len(), output.len());
    ensure!(
        given == 0 || given == wanted,
        "it has {wanted} devices, and --output names {given} files: give one for each, in their order"
    );
    let mut text = String::new();
    for (path, device) in output.iter().zip(&left.devices) {
        create(path)?;
        let named = || path.display().to_string();
        device.write_to_file(path).with_context(named)?;
        let _ = writeln!(text, "{}: left by the power cut {id}", path.display());
    }
    let code = match &left.broken {
        Some(broken) => {
            let _ = writeln!(text, "violation of {broken}");
            ExitCode::FAILURE
        }
        None if left.is_torn => {
            text.push_str("half of the superblock was written: other programs refuse that, too\n");
            ExitCode::SUCCESS
        }
        None => {
            text.push_str("no violation\n");
            ExitCode::SUCCESS
        }
    };
    print(&text)?;
    Ok(code)
}

/// Creates a file that is not there, also where two names of one folder lead to it.
fn create(path: &Path) -> Result<()> {
    let created = File::create_new(path);
    created.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => anyhow!("{}", already(path)),
        _ => anyhow!("{}: {error}", path.display()),
    })
}

fn already(path: &Path) -> String {
    format!(
        "{}: is there already: give each device a new file",
        path.display()
    )
}

fn to_text(setup: &Setup, report: &Report) -> String {
    let Tally {
        commands,
        flushes,
        instants_at_flushes,
        instants_between,
        explored,
        tried,
        distinct,
        e2fsck,
        torn,
        ..
    } = report.tally;
    let judged = match report.is_repaired {
        false => "images that differ, recovered and checked",
        true => "images that differ, repaired by e2fsck and checked: there is no journal",
    };
    let mut text = format!(
        "{commands:9} commands, {flushes} of them flushes\n\
         {instants_at_flushes:9} instants at flushes, {instants_between} between them\n\
         {explored:9} instants explored, from event {} on, when the file system is whole\n\
         {tried:9} images tried\n\
         {distinct:9} {judged}\n\
         {e2fsck:9} of them given to e2fsck\n\
         {torn:9} of them with half a superblock, which other programs refuse, too\n\
         in {:.1} s\n",
        report.start,
        report.elapsed.as_secs_f64(),
    );
    if !report.is_complete {
        text.push_str("stopped before the last instant\n");
    }
    for violation in &report.violations {
        let _ = writeln!(
            text,
            "violation of {}\n  {}",
            violation.broken,
            command(setup, violation.id)
        );
    }
    let more = report.tally.violations - report.violations.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "and {more} more violations");
    }
    if report.tally.violations == 0 {
        text.push_str("no violation\n");
    }
    text
}

/// Returns the command that repeats a power cut.
fn command(setup: &Setup, id: Id) -> String {
    let mut command = format!("jext crash --recording {}", quoted(&setup.path));
    for path in &setup.initial {
        let _ = write!(command, " --initial {}", quoted(path));
    }
    let _ = write!(command, " --replay {id}");
    command
}

/// Returns a path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=".contains(letter);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

fn to_json(setup: &Setup, report: &Report) -> serde_json::Value {
    let tally = &report.tally;
    let violations = report.violations.iter().map(|violation| {
        json!({
            "rule": violation.broken.rule.to_string(),
            "what": violation.broken.what,
            "cut": violation.id.to_string(),
            "command": command(setup, violation.id),
        })
    });
    json!({
        "commands": tally.commands,
        "flushes": tally.flushes,
        "instants_at_flushes": tally.instants_at_flushes,
        "instants_between": tally.instants_between,
        "start": report.start,
        "explored": tally.explored,
        "tried": tally.tried,
        "distinct": tally.distinct,
        "e2fsck": tally.e2fsck,
        "torn": tally.torn,
        "complete": report.is_complete,
        "seconds": report.elapsed.as_secs_f64(),
        "violation_count": tally.violations,
        "violations": violations.collect::<Vec<_>>(),
    })
}
