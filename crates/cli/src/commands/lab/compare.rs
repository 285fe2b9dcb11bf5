//! `jext lab compare`: compares two record files: two machines, two versions, two days; or two
//! blocks of one file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use lab::metric::MetricKind;
use lab::report::compare::Comparison;
use lab::report::headline;
use lab::report::sides::Sides;
use lab::store::{Brief, Store};

use crate::output;

/// Compare the trials that two record files share, or two blocks of one file.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Record file to compare with.
    #[arg(value_name = "FIRST.jsonl")]
    first: PathBuf,
    /// Record file whose gain is printed.
    #[arg(value_name = "SECOND.jsonl", required_unless_present = "blocks")]
    second: Option<PathBuf>,
    /// Two blocks of the first file, to be compared in every figure, such as kernel,engine.
    #[arg(long, value_name = "BLOCK,BLOCK", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["second", "metric"])]
    blocks: Option<Vec<String>>,
    /// Figure to compare; by default the primary figure of the workload.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(second) = &arguments.second else {
        return run_blocks(arguments);
    };
    let (first, second) = (read(&arguments.first)?, read(second)?);
    let name = match &arguments.metric {
        Some(name) => name,
        None => primary(first.iter().chain(&second)),
    };
    let Some(metric) = MetricKind::named(name) else {
        bail!("{name}: no figure has that name; `jext lab report --json` shows them");
    };
    let comparison = Comparison::of(metric, &first, &second);
    if comparison.rows.is_empty() {
        let first = arguments.first.display();
        bail!("{first} and the second file have no trial with {name} in common");
    }
    if arguments.json {
        output::print_json(&comparison.json())?;
    } else {
        output::print(&comparison.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Compares two blocks of the first file.
fn run_blocks(arguments: &Arguments) -> Result<ExitCode> {
    let path = &arguments.first;
    let Some([first, second]) = arguments.blocks.as_deref() else {
        bail!("--blocks: two blocks are needed, such as kernel,engine");
    };
    check_exists(path)?;
    let sides = Sides::of([first, second], &Store::at(path).read()?);
    if sides.combinations.is_empty() {
        let path = path.display();
        bail!("{path}: the blocks {first} and {second} have no combination of levels in common");
    }
    if arguments.json {
        output::print_json(&sides.json())?;
    } else {
        output::print(&sides.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the primary figure of the records' workload.
fn primary<'r>(records: impl Iterator<Item = &'r Brief>) -> &'static str {
    headline::of_records(records.map(|record| &record.context.settings)).primary
}

fn read(path: &Path) -> Result<Vec<Brief>> {
    check_exists(path)?;
    Ok(Store::at(path).read_briefs()?)
}

fn check_exists(path: &Path) -> Result<()> {
    if !path.exists() {
        bail!("{}: no such file", path.display());
    }
    Ok(())
}
