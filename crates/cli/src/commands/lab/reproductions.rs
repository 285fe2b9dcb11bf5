//! `jext lab reproductions`: compares published figures with the records.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use lab::Plan;
use lab::plan::builtin;
use lab::reproduction::{self, Reproduction};

use crate::output;

/// Compare all published figures and claims with the records; run nothing.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// File for the document; the default is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    out: Option<PathBuf>,
    /// Only the plans that run on the kernel of a guest.
    #[arg(long)]
    guests: bool,
    /// Folder of the records.
    #[arg(long, value_name = "FOLDER", default_value = lab::store::FOLDER)]
    results: PathBuf,
    /// Print the table of claims only.
    #[arg(long, conflicts_with_all = ["json", "out"])]
    table: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !arguments.results.is_dir() {
        let folder = arguments.results.display();
        bail!("{folder}: no such folder of records; `jext lab run` makes them");
    }
    let plans = builtin::ALL.iter().map(|builtin| builtin.plan());
    let plans: Vec<Plan> = plans.collect::<Result<_, _>>()?;
    let wanted = |plan: &Plan| !arguments.guests || plan.has_guests();
    let all: Vec<Reproduction> = plans
        .into_iter()
        .filter(wanted)
        .map(|plan| Reproduction::read(plan, &arguments.results))
        .collect::<Result<_, _>>()?;
    if arguments.json {
        output::print_json(&reproduction::json(&all))?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.table {
        output::print(&reproduction::table(&all))?;
        return Ok(ExitCode::SUCCESS);
    }
    let document = reproduction::document(&all);
    match &arguments.out {
        None => output::print(&document)?,
        Some(path) => {
            fs::write(path, document).with_context(|| path.display().to_string())?;
            output::print(&format!("{}\n", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
