//! `jext lab`: experiments by their plans.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use lab::plan::{Trial, builtin};
use lab::runner::{self, Failure, RunOptions};
use lab::system::namespace;
use lab::{Plan, Progress, Record, Report};
use serde_json::json;

use crate::{output, progress};

/// Thousandths of a trial are what its progress is counted in.
const PARTS: u64 = 1000;

/// Run experiments by their plans, and report what they found.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a plan, and print its table. What was recorded by this very program is not run again.
    Run(RunArguments),
    /// List the plans that are built in.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the table of a plan from its records, and run nothing.
    Report(ReportArguments),
}

#[derive(Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    plan: PlanArguments,
    /// How many simulated trials run at once.
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Run what was recorded already once more.
    #[arg(long)]
    fresh: bool,
    /// This process is in its mount namespace already.
    #[arg(long, hide = true)]
    inside: bool,
}

#[derive(Debug, Args)]
struct ReportArguments {
    #[command(flatten)]
    plan: PlanArguments,
}

#[derive(Debug, Args)]
struct PlanArguments {
    /// The name of a plan that is built in, or the path of a TOML file.
    #[arg(value_name = "NAME|PATH")]
    plan: String,
    /// Where records are kept.
    #[arg(long, value_name = "FOLDER", default_value = lab::store::FOLDER)]
    results: PathBuf,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::Run(arguments) => run_plan(arguments),
        Command::List { json } => list(*json),
        Command::Report(arguments) => report(arguments),
    }
}

fn run_plan(arguments: &RunArguments) -> Result<ExitCode> {
    let plan = arguments.plan.read()?;
    if !arguments.inside && plan.mounts() {
        return Err(namespace::enter("--inside"));
    }
    let defaults = RunOptions::default();
    let options = RunOptions {
        folder: arguments.plan.results.clone(),
        jobs: arguments.jobs.map_or(defaults.jobs, |jobs| jobs as usize),
        fresh: arguments.fresh,
    };
    let bar = Arc::new(Bar::default());
    let watcher: Arc<dyn Progress> = Arc::<Bar>::clone(&bar);
    let outcome = runner::run(&plan, &options, &watcher);
    bar.end();
    let outcome = outcome?;
    arguments
        .plan
        .print(&Report::new(&plan, &outcome.records))?;
    if !arguments.plan.json {
        let recorded = match outcome.recorded {
            0 => String::new(),
            count => format!(", {count} recorded before (--fresh runs them again)"),
        };
        let path = outcome.path.display();
        output::print(&format!(
            "\n{} trials run{recorded}; records in {path}\n",
            outcome.run
        ))?;
    }
    for Failure { trial, cause } in &outcome.failures {
        output::fail(&anyhow::anyhow!("trial failed: {trial}: {cause}"));
    }
    let is_good = outcome.failures.is_empty();
    Ok(if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn report(arguments: &ReportArguments) -> Result<ExitCode> {
    let plan = arguments.plan.read()?;
    let options = RunOptions {
        folder: arguments.plan.results.clone(),
        ..RunOptions::default()
    };
    let records = runner::recorded(&plan, &options)?;
    if records.is_empty() {
        let name = &arguments.plan.plan;
        let folder = options.folder.display();
        bail!("{name}: no records of this plan in {folder}; `jext lab run {name}` makes them");
    }
    arguments.plan.print(&Report::new(&plan, &records))?;
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

impl PlanArguments {
    fn read(&self) -> Result<Plan> {
        let name = &self.plan;
        let plan = match builtin::named(name) {
            Some(builtin) => builtin.plan()?,
            None if name.contains(['/', '.']) => {
                let text = std::fs::read_to_string(name).with_context(|| name.clone())?;
                Plan::parse(name, &text)?
            }
            None => bail!("{name}: no plan of that name is built in; `jext lab list` shows them"),
        };
        plan.notes
            .iter()
            .for_each(|note| output::warn(&format!("{name}: {note}")));
        Ok(plan)
    }

    fn print(&self, report: &Report) -> Result<()> {
        if self.json {
            output::print_json(&report.json())
        } else {
            output::print(&report.text())
        }
    }
}

/// One bar for all trials. Trials add their thousandths; the bar draws itself.
#[derive(Default)]
struct Bar {
    bar: OnceLock<ProgressBar>,
    parts: OnceLock<Vec<AtomicU64>>,
}

impl Bar {
    fn end(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    fn set(&self, number: usize, parts: u64) {
        if let (Some(bar), Some(slot)) = (self.bar.get(), self.slot(number)) {
            let before = slot.swap(parts, Ordering::Relaxed);
            bar.inc(parts.saturating_sub(before));
        }
    }

    fn slot(&self, number: usize) -> Option<&AtomicU64> {
        self.parts.get()?.get(number)
    }
}

impl Progress for Bar {
    fn begin(&self, to_run: usize, _recorded: usize) {
        self.parts
            .get_or_init(|| (0..to_run).map(|_| AtomicU64::new(0)).collect());
        self.bar
            .get_or_init(|| progress::share(to_run as u64 * PARTS));
    }

    fn started(&self, _number: usize, trial: &Trial) {
        if let Some(bar) = self.bar.get() {
            bar.set_message(trial.name());
        }
    }

    fn advanced(&self, number: usize, fraction: f64) {
        self.set(number, (fraction * PARTS as f64) as u64);
    }

    fn ended(&self, number: usize, _trial: &Trial, _result: Result<&Record, &str>) {
        self.set(number, PARTS);
    }
}
