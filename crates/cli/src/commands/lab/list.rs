//! `jext lab list`: lists the built-in plans.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use lab::Plan;
use lab::plan::builtin;
use lab::store::Store;
use serde_json::json;

use crate::output;

/// List the built-in plans, each with its trials and the time that they take on one processor.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Print only the names of the plans that run in simulation, without a kernel.
    #[arg(long, conflicts_with_all = ["json", "durations"])]
    simulated: bool,
    /// Print the seconds of a trial of each plan, from records: the contents of
    /// plans/durations.tsv.
    #[arg(long, conflicts_with = "json")]
    durations: bool,
    /// Folder of the records.
    #[arg(long, value_name = "FOLDER", requires = "durations", default_value = lab::store::FOLDER)]
    results: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let plans: Vec<Plan> = builtin::ALL
        .iter()
        .map(|plan| plan.plan())
        .collect::<Result<_, _>>()?;
    if arguments.simulated {
        let names = plans
            .iter()
            .filter(|plan| !plan.mounts() && !plan.has_guests());
        let names: Vec<&str> = names.map(|plan| plan.name.as_str()).collect();
        output::print(&format!("{}\n", names.join("\n")))?;
    } else if arguments.durations {
        output::print(&durations(&plans, arguments)?)?;
    } else if arguments.json {
        let plans = plans.iter().map(|plan| {
            json!({
                "name": plan.name,
                "question": plan.question,
                "trials": plan.trials().len(),
                "seconds": seconds(plan),
                "mounts": plan.mounts(),
            })
        });
        output::print_json(&plans.collect())?;
    } else {
        output::print(&text(&plans)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the real seconds of all trials of a plan, one after another, if they were measured.
fn seconds(plan: &Plan) -> Option<f64> {
    let trial = builtin::seconds_of_trial(&plan.name)?;
    Some(trial * plan.trials().len() as f64)
}

fn text(plans: &[Plan]) -> Result<String> {
    let widest = plans.iter().map(|plan| plan.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for plan in plans {
        let trials = plan.trials().len();
        let takes = seconds(plan).map_or_else(|| "-".to_owned(), duration);
        let (name, question) = (&plan.name, &plan.question);
        writeln!(
            text,
            "{name:<widest$}  {trials:>4} trials  {takes:>7}  {question}"
        )?;
    }
    Ok(text)
}

/// Formats a number of seconds.
fn duration(seconds: f64) -> String {
    match seconds {
        ..100.0 => format!("{seconds:.0} s"),
        ..6000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3600.0),
    }
}

/// Returns a line for each plan; without records of a plan its present line.
fn durations(plans: &[Plan], arguments: &Arguments) -> Result<String> {
    let mut text = "# Real seconds of a trial, the mean over the records: written by \
                    `jext lab list --durations`, which scripts/lab-results calls.\n"
        .to_owned();
    for plan in plans {
        let records = Store::new(&arguments.results, plan).read()?;
        let measured = match records.len() {
            0 => builtin::seconds_of_trial(&plan.name),
            count => {
                let sum: f64 = records.iter().map(|record| record.real_seconds).sum();
                Some((sum / count as f64).max(0.01))
            }
        };
        if let Some(seconds) = measured {
            writeln!(text, "{}\t{seconds:.2}", plan.name)?;
        }
    }
    Ok(text)
}
