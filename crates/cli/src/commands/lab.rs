//! `jext lab`: experiments by their plans.

mod all;
mod bar;
mod compare;
mod devices;
mod measure;
mod reproductions;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use lab::plan::builtin;
use lab::record::csv;
use lab::runner::{self, Failure, RunOptions, RunOutcome};
use lab::store::Store;
use lab::system::{namespace, strays};
use lab::{Plan, Progress, Report, preflight};
use serde_json::json;

use crate::output;
use bar::Bar;

/// Exit status of a run that was ended by Ctrl-C, as in shells: 128 and the number of the signal.
const EXIT_INTERRUPTED: u8 = 130;

/// Run experiments by their plans, and report what they found.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a plan, or all that are built in, and print tables. What was recorded by this very
    /// program is not run again.
    Run(RunArguments),
    /// List the plans that are built in.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the figures of a plan from its records, and run nothing.
    Report(ReportArguments),
    /// Set the trials that two record files have in common beside each other.
    Compare(compare::Arguments),
    /// List the device models and hosts that simulated trials can have, or show what one does.
    Devices(devices::Arguments),
    /// Set what others have published beside what was recorded.
    Reproductions(reproductions::Arguments),
    /// Measure how long a large number of records takes to load and to report.
    Measure(measure::Arguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    /// The name of a plan that is built in, or the path of a TOML file.
    #[arg(value_name = "NAME|PATH", required_unless_present = "all")]
    plan: Option<String>,
    #[command(flatten)]
    records: RecordArguments,
    /// Run every plan that is built in, one after another, each in a process of its own.
    #[arg(long, conflicts_with_all = ["plan", "resume", "json"])]
    all: bool,
    /// Number of simulated trials that run at once.
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Go on with a run that was ended: nothing that is recorded is run again. It is what happens
    /// anyway; said, it is an error if nothing is recorded.
    #[arg(long)]
    resume: bool,
    /// Run what was recorded already once more.
    #[arg(long, conflicts_with = "resume")]
    fresh: bool,
    /// This process is in its mount namespace already, and what there is to say of the plan was
    /// said outside.
    #[arg(long, hide = true)]
    inside: bool,
}

#[derive(Debug, Args)]
struct ReportArguments {
    /// The name of a plan that is built in, or the path of a TOML file.
    #[arg(value_name = "NAME|PATH")]
    plan: String,
    #[command(flatten)]
    records: RecordArguments,
    /// Print a row of CSV for each trial.
    #[arg(long, conflicts_with_all = ["json", "html"])]
    csv: bool,
    /// Write a page for a browser, complete in itself.
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
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Run(arguments) => match &arguments.plan {
            Some(name) => run_plan(name, arguments),
            None => all::run(arguments),
        },
        Command::List { json } => list(*json),
        Command::Report(arguments) => report(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Devices(arguments) => devices::run(arguments),
        Command::Reproductions(arguments) => reproductions::run(arguments),
        Command::Measure(arguments) => measure::run(arguments),
    }
}

fn run_plan(name: &str, arguments: &RunArguments) -> Result<ExitCode> {
    let (plan, _) = read_plan(name)?;
    let results = &arguments.records.results;
    let defaults = RunOptions::default();
    let bar = Arc::new(Bar::default());
    stop_at_interrupt(&defaults.stop, &bar)?;
    if !arguments.inside {
        warn_of_rounding(name, &plan);
        preflight::check(&plan, name)?;
        let store = Store::new(results, &plan);
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
    let jobs = arguments.jobs.map_or(defaults.jobs, |jobs| jobs as usize);
    let options = RunOptions {
        folder: results.clone(),
        jobs: preflight::jobs_in_memory(&plan, jobs),
        fresh: arguments.fresh,
        stop: defaults.stop,
    };
    let watcher: Arc<dyn Progress> = Arc::<Bar>::clone(&bar);
    let outcome = runner::run(&plan, &options, &watcher);
    bar.end();
    let outcome = outcome?;
    let report = Report::new(&plan, &outcome.records);
    arguments.records.print(&report)?;
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

/// Says that the last record was cut off; it is passed over.
fn warn_of_torn_line(store: &Store) -> Result<()> {
    if let Some(line) = store.torn_line()? {
        let path = store.path().display();
        output::warn(&format!(
            "{path}:{line}: the last record was cut off and is passed over"
        ));
    }
    Ok(())
}

/// The first Ctrl-C ends the run and keeps what is done; the second ends the program.
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
    let store = Store::new(folder, &plan);
    if !store.path().exists() {
        let folder = folder.display();
        bail!("{name}: no records of this plan in {folder}; `jext lab run {name}` makes them");
    }
    warn_of_torn_line(&store)?;
    if arguments.csv {
        let mut out = BufWriter::new(io::stdout().lock());
        csv::write(&mut out, &runner::recorded(&plan, folder)?)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = Report::of(&plan, &store.read_briefs()?);
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

fn list(json: bool) -> Result<ExitCode> {
    let plans: Vec<Plan> = builtin::ALL
        .iter()
        .map(|plan| plan.plan())
        .collect::<Result<_, _>>()?;
    if json {
        let plans = plans.iter().map(|plan| {
            json!({ "name": plan.name, "question": plan.question, "trials": plan.trials().len() })
        });
        output::print_json(&plans.collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    let widest = plans.iter().map(|plan| plan.name.len()).max().unwrap_or(0);
    for plan in &plans {
        let trials = plan.trials().len();
        let name = &plan.name;
        output::print(&format!(
            "{name:<widest$}  {trials:>4} trials  {}\n",
            plan.question
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The plan of that name, and its text.
fn read_plan(name: &str) -> Result<(Plan, String)> {
    let (plan, text) = match builtin::named(name) {
        Some(builtin) => (builtin.plan()?, builtin.text.to_owned()),
        None if name.contains(['/', '.']) => {
            let text = fs::read_to_string(name).with_context(|| name.to_owned())?;
            (Plan::parse(name, &text)?, text)
        }
        None => bail!("{name}: no plan of that name is built in; `jext lab list` shows them"),
    };
    Ok((plan, text))
}

/// Says what was rounded while a plan was read.
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
            output::print(&report.text())
        }
    }
}
