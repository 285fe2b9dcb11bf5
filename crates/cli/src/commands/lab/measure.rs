//! `jext lab measure`: measures the time to load and report a large number of records.
//!
//! The records are copies of one simulated trial that is actually run, with other repetition
//! numbers and times within a few percent: of normal size, and all different.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use lab::plan::Trial;
use lab::record;
use lab::report::Counterparts;
use lab::runner::{self, NoProgress, RunOptions};
use lab::store::{Lines, Store};
use lab::{Plan, Progress, Record, Report};
use serde_json::json;

use crate::output;

/// A plan of a hundred combinations, with as many repetitions as needed.
const PLAN: &str = r#"
[plan]
name = "measure"
question = "how long do many records take?"
repetitions = REPETITIONS
[fixed]
device = "slice(sim:atlas-v-18,1GiB..1056MiB)"
host = "p4-2.66-2003"
memory.host = "32MiB"
postmark.number = 50
postmark.transactions = 100
postmark.final_sync = "end"
[factors]
fs.data = ["ordered", "writeback"]
fs.commit = COMMITS
[baseline]
fs.commit = 1
"#;
/// Number of levels of the second factor.
const COMMITS: u32 = 50;
/// Number of combinations.
const COMBINATIONS: u32 = 2 * COMMITS;

/// Measure the time to load and report a large number of records.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Number of records; a multiple of 100. A million take about 3 GB.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    records: u32,
    /// Folder with enough space; the records are removed at the end.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let repetitions = arguments.records / COMBINATIONS;
    if repetitions * COMBINATIONS != arguments.records {
        bail!("{}: not a multiple of {COMBINATIONS}", arguments.records);
    }
    let plan = plan(repetitions)?;
    let folder = arguments
        .folder
        .join(format!("jext-lab-measure-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    let result = measure(&plan, &folder, arguments);
    std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    result?;
    Ok(ExitCode::SUCCESS)
}

fn plan(repetitions: u32) -> Result<Plan> {
    let commits: Vec<u32> = (1..=COMMITS).collect();
    let text = PLAN
        .replace("REPETITIONS", &repetitions.to_string())
        .replace("COMMITS", &format!("{commits:?}"));
    Ok(Plan::parse("measure", &text)?)
}

fn measure(plan: &Plan, folder: &std::path::Path, arguments: &Arguments) -> Result<()> {
    let store = Store::new(folder, plan);
    write(plan, &template(&folder.join("template"))?, &store)?;
    let bytes = store.path().metadata()?.len();
    let clock = Instant::now();
    let briefs = store.read_briefs()?;
    let loaded = clock.elapsed().as_secs_f64();
    let report = Report::of(plan, &briefs, &Counterparts::default());
    let reported = clock.elapsed().as_secs_f64();
    let page = report.html("jext lab measure", "");
    let all = clock.elapsed().as_secs_f64();
    if report.count != arguments.records as usize {
        bail!(
            "{} of {} records were counted",
            report.count,
            arguments.records
        );
    }
    if arguments.json {
        return output::print_json(&json!({
            "records": report.count,
            "bytes": bytes,
            "load_seconds": loaded,
            "report_seconds": reported - loaded,
            "page_seconds": all - reported,
            "page_bytes": page.len(),
            "seconds": all,
        }));
    }
    output::print(&format!(
        "{} records, {:.2} GB: loaded in {loaded:.2} s, report in {:.2} s, page in {:.2} s; together {all:.2} s\n",
        report.count,
        bytes as f64 / 1e9,
        reported - loaded,
        all - reported
    ))
}

/// Runs the first trial and returns its record.
fn template(folder: &std::path::Path) -> Result<Record> {
    let single = PLAN
        .replace("REPETITIONS", "1")
        .replace("COMMITS", "[1]")
        .replace("[\"ordered\", \"writeback\"]", "[\"ordered\"]");
    let plan = Plan::parse("measure", &single)?;
    let options = RunOptions {
        folder: folder.to_owned(),
        jobs: 1,
        ..RunOptions::default()
    };
    let progress: Arc<dyn Progress> = Arc::new(NoProgress);
    let outcome = runner::run(&plan, &options, &progress)?;
    let mut records = outcome.records.into_iter();
    records.next().context("the trial has no record")
}

fn write(plan: &Plan, template: &Record, store: &Store) -> Result<()> {
    let path = store.path();
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut lines = Lines::default();
    let mut context: Option<Arc<record::Context>> = None;
    for (index, trial) in plan.trials().iter().enumerate() {
        let mut record = alike(trial, template, index as u64);
        record.context = match context.take() {
            Some(context) if trial.repetition > 0 => context,
            _ => Arc::new(record::Context::of(plan, trial)),
        };
        context = Some(Arc::clone(&record.context));
        out.write_all(lines.of(&record)?.as_bytes())?;
    }
    Ok(out.flush()?)
}

/// Returns a record of another trial with slightly different figures.
fn alike(trial: &Trial, template: &Record, index: u64) -> Record {
    // Weyl's sequence of the golden ratio: evenly spread, no two alike.
    let off = 1.0 + 0.05 * ((index as f64 * 0.618_033_988_749_895).fract() - 0.5);
    let mut record = template.clone();
    let metrics = &mut record.measured.metrics;
    metrics.values_mut().for_each(|value| *value *= off);
    record.repetition = trial.repetition;
    record.seed = trial.replica.seed;
    record.workload_seed = trial.replica.workload_seed;
    if record.repetition > 0 {
        // Only the first repetition has one.
        record.measured.timeline = None;
    }
    record
}
