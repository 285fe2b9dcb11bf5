//! `jext lab run --all`: runs all built-in plans, one after another.
//!
//! Each runs in a separate process, so that a plan that cannot run here, fails, or crashes does not
//! prevent the others from running.

use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use lab::plan::builtin;

use super::{EXIT_INTERRUPTED, RunArguments};
use crate::output;

/// The result of a plan.
struct Ended {
    name: &'static str,
    status: ExitStatus,
    seconds: u64,
}

pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    // Ctrl-C also reaches the plan's process, which ends as usual.
    let flag = Arc::clone(&is_stopped);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed)).context("Ctrl-C")?;
    let mut ended: Vec<Ended> = Vec::new();
    let count = builtin::ALL.len();
    for (number, plan) in (1..).zip(builtin::ALL) {
        output::print(&format!("\n== {} ({number} of {count})\n\n", plan.name))?;
        let clock = Instant::now();
        let status = command(arguments, plan.name)?.status().context("jext")?;
        ended.push(Ended {
            name: plan.name,
            status,
            seconds: clock.elapsed().as_secs(),
        });
        if is_stopped.load(Ordering::Relaxed) {
            break;
        }
    }
    output::print(&summary(&ended, count))?;
    let is_good = |plan: &Ended| plan.status.success();
    Ok(if is_stopped.load(Ordering::Relaxed) {
        ExitCode::from(EXIT_INTERRUPTED)
    } else if ended.iter().all(is_good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the command that runs one plan with these arguments.
fn command(arguments: &RunArguments, name: &str) -> Result<Command> {
    let program = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(program);
    command.args(["lab", "run", name, "--results"]);
    command.arg(&arguments.records.results);
    if let Some(jobs) = arguments.jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    if let Some(count) = arguments.repetitions {
        command.args(["--repetitions", &count.to_string()]);
    }
    if arguments.fresh {
        command.arg("--fresh");
    }
    Ok(command)
}

/// Returns a line for each plan, and a line for all.
fn summary(ended: &[Ended], count: usize) -> String {
    let widest = ended.iter().map(|plan| plan.name.len()).max().unwrap_or(0);
    let mut text = "\n== all\n\n".to_owned();
    for Ended {
        name,
        status,
        seconds,
    } in ended
    {
        let what = match status.code() {
            Some(0) => "complete".to_owned(),
            Some(code) => format!("not complete, exit code {code}"),
            None => format!("died: {status}"),
        };
        text.push_str(&format!("{name:<widest$}  {seconds:>6} s  {what}\n"));
    }
    let complete = ended.iter().filter(|plan| plan.status.success()).count();
    text.push_str(&format!("{complete} of {count} plans complete\n"));
    text
}
