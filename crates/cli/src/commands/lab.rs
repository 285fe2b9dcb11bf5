//! `jext lab`: runs experiments from their plans.

mod all;
mod bar;
mod canonical;
mod compare;
mod devices;
mod kernel;
mod keys;
mod list;
mod measure;
mod merge;
mod replay;
mod reproductions;
mod summary;
mod trials;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use lab::plan::{Shard, builtin};
use lab::record::csv;
use lab::report::Counterparts;
use lab::runner::{self, Failure, RunOptions, RunOutcome};
use lab::store::{Brief, Store};
use lab::system::{namespace, strays};
use lab::{Plan, Progress, Report, preflight};

use crate::output;
use bar::Bar;

/// Exit status of a run that Ctrl-C interrupted, as in shells: 128 plus the signal number.
const EXIT_INTERRUPTED: u8 = 130;

/// Run experiments from their plans, and report the results.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a plan, or all built-in plans, and print tables. Trials already recorded by the same
    /// build are not repeated.
    Run(RunArguments),
    /// List the built-in plans.
    List(list::Arguments),
    /// Report the figures of a plan from its records, without running it.
    Report(ReportArguments),
    /// Print on one page what several plans say to take, and what a power cut costs it.
    Summary(summary::Arguments),
    /// Compare the trials that two record files share.
    Compare(compare::Arguments),
    /// List the device models and hosts for simulated trials, or show the properties of one.
    Devices(devices::Arguments),
    /// Install or build the kernels of targets such as uml:ext3.
    Kernel(kernel::Arguments),
    /// List the keys of a plan.
    Keys(keys::Arguments),
    /// List the trials of a plan, each with its shard.
    Trials(trials::Arguments),
    /// Merge the records of shards.
    Merge(merge::Arguments),
    /// Print the part of records that every run has in common.
    Canonical(canonical::Arguments),
    /// Replay a recording of `jext bench --record` on other devices, and compare the times.
    Replay(replay::Arguments),
    /// Compare published figures with the records.
    Reproductions(reproductions::Arguments),
    /// Measure the time to load and report a large number of records.
    Measure(measure::Arguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Name of a built-in plan, or path of a TOML file.
    #[arg(value_name = "NAME|PATH", required_unless_present = "all")]
    plan: Option<String>,
    #[command(flatten)]
    records: RecordArguments,
    /// Run all built-in plans one after another, each in a separate process.
    #[arg(long, conflicts_with_all = ["plan", "resume", "json"])]
    all: bool,
    /// Number of simulated trials that run at the same time.
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Run each trial this many times, whatever the plan says. Repetitions that are recorded count.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: Option<u32>,
    /// Continue an interrupted run: recorded trials are not repeated. This is the default; with the
    /// option, a run without records is an error.
    #[arg(long)]
    resume: bool,
    /// Run only a part of the trials: shard I of N, such as 2/8, or shards I to J, such as 2-3/8.
    /// `jext lab merge` merges the records of all shards; `jext lab run` then adds repetitions
    /// where intervals are too wide.
    #[arg(long, value_name = "I/N", conflicts_with_all = ["all", "json"])]
    shard: Option<Shard>,
    /// Repeat trials that are already recorded.
    #[arg(long, conflicts_with = "resume")]
    fresh: bool,
    /// This process is already in its mount namespace, and the messages about the plan were printed
    /// before.
    #[arg(long, hide = true)]
    inside: bool,
}

#[derive(Debug, Args)]
struct ReportArguments {
    /// Name of a built-in plan, or path of a TOML file.
    #[arg(value_name = "NAME|PATH")]
    plan: String,
    #[command(flatten)]
    records: RecordArguments,
    /// Print a row of CSV for each trial.
    #[arg(long, conflicts_with_all = ["json", "html"])]
    csv: bool,
    /// Write a self-contained HTML page.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RecordArguments {
    /// Folder of the records.
    #[arg(long, value_name = "FOLDER", default_value = lab::store::FOLDER)]
    results: PathBuf,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Print the counters of the engine and the devices as well.
    #[arg(long)]
    counters: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Run(arguments) => match &arguments.plan {
            Some(name) => run_plan(name, arguments),
            None => all::run(arguments),
        },
        Command::List(arguments) => list::run(arguments),
        Command::Report(arguments) => report(arguments),
        Command::Summary(arguments) => summary::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Devices(arguments) => devices::run(arguments),
        Command::Kernel(arguments) => kernel::run(arguments),
        Command::Keys(arguments) => keys::run(arguments),
        Command::Trials(arguments) => trials::run(arguments),
        Command::Merge(arguments) => merge::run(arguments),
        Command::Canonical(arguments) => canonical::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Reproductions(arguments) => reproductions::run(arguments),
        Command::Measure(arguments) => measure::run(arguments),
    }
}

fn run_plan(name: &str, arguments: &RunArguments) -> Result<ExitCode> {
    let (mut plan, _) = read_plan(name)?;
    if let Some(count) = arguments.repetitions {
        plan = plan.repeated(count);
    }
    let results = &arguments.records.results;
    let defaults = RunOptions::default();
    let mut options = RunOptions {
        folder: results.clone(),
        fresh: arguments.fresh,
        shard: arguments.shard,
        ..defaults
    };
    let bar = Arc::new(Bar::default());
    stop_at_interrupt(&options.stop, &bar)?;
    if !arguments.inside {
        warn_of_rounding(name, &plan);
        preflight::check(&plan, name)?;
        let store = options.store(&plan);
        if arguments.resume && !store.path().exists() {
            let folder = results.display();
            bail!("{name}: nothing to resume: no records of this plan in {folder}");
        }
        store.prepare().context("records cannot be kept")?;
        warn_of_torn_line(&store)?;
        if plan.mounts() {
            strays::release().iter().for_each(|line| output::warn(line));
            return Err(namespace::enter("--inside"));
        }
    }
    let jobs = arguments.jobs.map_or(options.jobs, |jobs| jobs as usize);
    options.jobs = preflight::jobs_in_memory(&plan, jobs);
    let watcher: Arc<dyn Progress> = Arc::<Bar>::clone(&bar);
    let outcome = runner::run(&plan, &options, &watcher);
    bar.end();
    let outcome = outcome?;
    let briefs: Vec<Brief> = outcome.records.iter().map(Brief::from).collect();
    let report = Report::of(&plan, &briefs, &counterparts(&plan, results)?);
    if arguments.shard.is_none() {
        arguments.records.print(&report)?;
    }
    if !arguments.records.json {
        output::print(&summary(&outcome, &report))?;
    }
    for Failure { trial, cause } in &outcome.failures {
        output::fail(&anyhow::anyhow!("trial failed: {trial}: {cause}"));
    }
    Ok(match (outcome.is_stopped, outcome.failures.is_empty()) {
        (true, _) => ExitCode::from(EXIT_INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

/// Warns that the last record is incomplete and is ignored.
fn warn_of_torn_line(store: &Store) -> Result<()> {
    if let Some(line) = store.torn_line()? {
        let path = store.path().display();
        output::warn(&format!(
            "{path}:{line}: the last record was cut off and is passed over"
        ));
    }
    Ok(())
}

/// Handles Ctrl-C: the first one ends the run and keeps its results, the second one ends the
/// program.
fn stop_at_interrupt(stop: &runner::Stop, bar: &Arc<Bar>) -> Result<()> {
    let (stop, bar) = (stop.clone(), Arc::clone(bar));
    let handler = move || {
        if stop.is_requested() {
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
        bar.warn("ending the trials that are running; once more to leave at once");
        stop.request();
    };
    ctrlc::set_handler(handler).context("Ctrl-C")
}

fn summary(outcome: &RunOutcome, report: &Report) -> String {
    let recorded = match outcome.recorded {
        0 => String::new(),
        count => format!(", {count} recorded before (--fresh runs them again)"),
    };
    let stopped = match outcome.is_stopped {
        true => format!(
            "; stopped with {} to go, the same command goes on",
            report.missing
        ),
        false => String::new(),
    };
    let (run, path) = (outcome.run, outcome.path.display());
    format!("\n{run} trials run{recorded}{stopped}; records in {path}\n")
}

fn report(arguments: &ReportArguments) -> Result<ExitCode> {
    let (name, folder) = (&arguments.plan, &arguments.records.results);
    let (plan, source) = read_plan(name)?;
    warn_of_rounding(name, &plan);
    let store = store_with_records(name, &plan, folder)?;
    if arguments.csv {
        let mut out = BufWriter::new(io::stdout().lock());
        csv::write(&mut out, &runner::recorded(&plan, folder)?)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = Report::of(&plan, &store.read_briefs()?, &counterparts(&plan, folder)?);
    let Some(path) = &arguments.html else {
        arguments.records.print(&report)?;
        return Ok(ExitCode::SUCCESS);
    };
    let again = format!(
        "jext lab run {name}\njext lab report {name} --html {}",
        path.display()
    );
    let page = report.html(&again, &source);
    fs::write(path, page).with_context(|| path.display().to_string())?;
    output::print(&format!("{}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the store of a plan; it is an error if there are no records.
fn store_with_records(name: &str, plan: &Plan, folder: &Path) -> Result<Store> {
    let store = Store::new(folder, plan);
    if !store.path().exists() {
        let is_file = folder.is_file();
        let folder = folder.display();
        if is_file {
            bail!("{folder}: is a file; --results takes the folder of the records");
        }
        bail!("{name}: no records of this plan in {folder}; `jext lab run {name}` makes them");
    }
    warn_of_torn_line(&store)?;
    Ok(store)
}

/// Returns the engine's figures for the cells of a plan for guests, from records in the folder.
fn counterparts(plan: &Plan, folder: &Path) -> Result<Counterparts> {
    Counterparts::of(plan, |plan| {
        let store = Store::new(folder, plan);
        match store.path().exists() {
            true => Ok(store.read_briefs()?),
            false => Ok(Vec::new()),
        }
    })
}

/// Returns the plan of that name, and its text.
fn read_plan(name: &str) -> Result<(Plan, String)> {
    let (plan, text) = match builtin::named(name) {
        Some(builtin) => (builtin.plan()?, builtin.text.to_owned()),
        None if Path::new(name).is_dir() => bail!(
            "{name}: is a directory, and not a plan; a folder of records is named by --results, after the plan"
        ),
        None if name.contains(['/', '.']) => {
            let text = fs::read_to_string(name).with_context(|| name.to_owned())?;
            (Plan::parse(name, &text)?, text)
        }
        None => bail!(
            "{name}: no plan of that name is built in; `jext lab list` shows them{}",
            file_like(name)
        ),
    };
    Ok((plan, text))
}

/// Returns the name of a plan's file here that was perhaps meant.
fn file_like(name: &str) -> String {
    let files = [format!("{name}.toml"), format!("./{name}")];
    let found = files.iter().find(|file| Path::new(file).is_file());
    found.map_or_else(String::new, |file| format!("; the file here is {file}"))
}

/// Warns of values that were rounded when the plan was read.
fn warn_of_rounding(name: &str, plan: &Plan) {
    plan.notes
        .iter()
        .for_each(|note| output::warn(&format!("{name}: {note}")));
}

impl RecordArguments {
    fn print(&self, report: &Report) -> Result<()> {
        if self.json {
            output::print_json(&report.json())
        } else {
            output::print(&report.text(self.counters))
        }
    }
}
