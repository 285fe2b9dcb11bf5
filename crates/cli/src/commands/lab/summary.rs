//! `jext lab summary`: what several plans say to take, on one page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use lab::report::Report;
use lab::report::summary::{Summary, has_losses, has_times};

use super::{counterparts, read_plan, store_with_records};
use crate::output;

/// Print on one page what several plans say to take, and what a power cut costs it.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Names of built-in plans, or paths of TOML files.
    #[arg(value_name = "NAME|PATH", required = true)]
    plans: Vec<String>,
    /// Plan of power cuts with the same rows, such as journal-2026-lost.
    #[arg(long, value_name = "NAME|PATH")]
    loss: Option<String>,
    /// Folder of the records.
    #[arg(long, value_name = "FOLDER", default_value = lab::store::FOLDER)]
    results: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let report = |name: &String| report(name, &arguments.results);
    let reports: Vec<Report> = arguments.plans.iter().map(report).collect::<Result<_>>()?;
    let loss = arguments.loss.as_ref().map(report).transpose()?;
    if let (Some(name), Some(loss)) = (&arguments.loss, &loss) {
        ensure!(
            has_losses(loss),
            "--loss {name}: not a plan of power cuts, as journal-2026-lost is"
        );
    }
    for (name, report) in arguments.plans.iter().zip(&reports) {
        ensure!(
            has_times(report),
            "{name}: a plan of power cuts only; name it with --loss"
        );
    }
    let summary = Summary::of(&reports, loss.as_ref());
    match arguments.json {
        true => output::print_json(&summary.json())?,
        false => output::print(&summary.text())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the report of a plan; it is an error if there are no records.
fn report(name: &str, folder: &Path) -> Result<Report> {
    let (plan, _) = read_plan(name)?;
    let briefs = store_with_records(name, &plan, folder)?.read_briefs()?;
    Ok(Report::of(&plan, &briefs, &counterparts(&plan, folder)?))
}
