//! `jext lab canonical`: prints the part of records that every run has in common.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::merge::BuildArgument;
use crate::output;

/// Print records without everything that may differ between two runs of a simulated trial by one
/// build: time, machine, executable and load. Each trial is a line of JSON, in the order of the
/// trials' ids, so that `cmp` compares two runs.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Record files of one plan and one build; they are merged.
    #[arg(value_name = "FILE.jsonl", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    build: BuildArgument,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut text = String::new();
    for record in arguments.build.merge(&arguments.files)? {
        text.push_str(&record.canonical()?);
        text.push('\n');
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
