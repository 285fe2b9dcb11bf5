//! The records of a small plan: its unperturbed repetition and a perturbed one. What may differ
//! between runs is left out: date, real time, machine and build. Debug builds, release builds and
//! other machines must print the same, however many trials run at once: their number is the only
//! argument.
//!
//! ```text
//! cargo run -p jext-lab --example records > debug.txt
//! cargo run --release -p jext-lab --example records 1 | diff debug.txt -
//! ```

use std::sync::Arc;

use anyhow::{Result, ensure};
use lab::runner::{self, NoProgress, RunOptions};
use lab::{Plan, Progress};

const FILE: &str = "records.toml";
const PLAN: &str = include_str!("records.toml");

fn main() -> Result<()> {
    let plan = Plan::parse(FILE, PLAN)?;
    let folder = tempfile::tempdir()?;
    let mut options = RunOptions {
        folder: folder.path().to_owned(),
        ..RunOptions::default()
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "the number of trials at once changes no record"
    )]
    let argument = std::env::args().nth(1);
    if let Some(jobs) = argument {
        options.jobs = jobs.parse()?;
    }
    let progress: Arc<dyn Progress> = Arc::new(NoProgress);
    let outcome = runner::run(&plan, &options, &progress)?;
    ensure!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    let compared = [0, 3];
    let records = outcome.records.iter();
    let records = records.filter(|record| compared.contains(&record.repetition));
    let lines = records.map(|record| Ok(record.canonical()?));
    // Trials run in parallel, so records arrive in any order.
    let mut lines: Vec<String> = lines.collect::<Result<_>>()?;
    lines.sort_unstable();
    for line in lines {
        println!("{line}");
    }
    Ok(())
}
