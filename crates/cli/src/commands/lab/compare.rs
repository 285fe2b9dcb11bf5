//! `jext lab compare`: compares two record files: two machines, two versions, two days.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use lab::metric::MetricKind;
use lab::report::compare::Comparison;
use lab::report::headline;
use lab::store::{Brief, Store};

use crate::output;

/// Compare the trials that two record files share.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Record file to compare with.
    #[arg(value_name = "FIRST.jsonl")]
    first: PathBuf,
    /// Record file whose gain is printed.
    #[arg(value_name = "SECOND.jsonl")]
    second: PathBuf,
    /// Figure to compare; by default the primary figure of the workload.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (first, second) = (read(&arguments.first)?, read(&arguments.second)?);
    let name = match &arguments.metric {
        Some(name) => name,
        None => primary(first.iter().chain(&second)),
    };
    let Some(metric) = MetricKind::named(name) else {
        bail!("{name}: no figure has that name; `jext lab report --json` shows them");
    };
    let comparison = Comparison::of(metric, &first, &second);
    if comparison.rows.is_empty() {
        let (first, second) = (arguments.first.display(), arguments.second.display());
        bail!("{first} and {second} have no trial with {name} in common");
    }
    if arguments.json {
        output::print_json(&comparison.json())?;
    } else {
        output::print(&comparison.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the primary figure of the records' workload.
fn primary<'r>(records: impl Iterator<Item = &'r Brief>) -> &'static str {
    headline::of_records(records.map(|record| &record.context.settings)).primary
}

fn read(path: &Path) -> Result<Vec<Brief>> {
    if !path.exists() {
        bail!("{}: no such file", path.display());
    }
    Ok(Store::at(path).read_briefs()?)
}
