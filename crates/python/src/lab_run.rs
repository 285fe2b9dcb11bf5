//! `run_plan`: simulated trials of a plan of the laboratory, as rows.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use lab::plan::{Shard, builtin};
use lab::runner::{self, NoProgress, RunOptions, RunOutcome, Stop};
use lab::setup::Setup;
use lab::{Plan, Progress, Record, preflight};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::Failure;
use crate::interruption::interruptible;
use crate::paths::host_path;

/// The settings of a run, by the names of the Python half.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RunArguments<'py> {
    /// Name of a built-in plan, or name for errors of `text`.
    plan: String,
    /// The plan as TOML, if it is not built in.
    text: Option<String>,
    results: Bound<'py, PyAny>,
    jobs: Option<usize>,
    repetitions: Option<u32>,
    fresh: bool,
    shard: Option<String>,
}

/// The same with types of Rust.
struct Run {
    name: String,
    text: Option<String>,
    results: PathBuf,
    jobs: Option<usize>,
    repetitions: Option<u32>,
    fresh: bool,
    shard: Option<String>,
}

/// Runs the trials of a plan that have no record yet. Returns the rows of all, and the trials that
/// failed with their causes.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "two lists")]
pub(crate) fn run_plan<'py>(
    py: Python<'py>,
    arguments: RunArguments<'py>,
) -> PyResult<(Bound<'py, PyList>, Vec<(String, String)>)> {
    let run = Run {
        name: arguments.plan,
        text: arguments.text,
        results: host_path(&arguments.results)?,
        jobs: arguments.jobs,
        repetitions: arguments.repetitions,
        fresh: arguments.fresh,
        shard: arguments.shard,
    };
    let stop = Stop::default();
    let outcome = interruptible(py, || stop.request(), || run.run(&stop))?;
    let outcome = outcome.map_err(|error| as_exception(py, error))?;
    let rows = PyList::empty(py);
    for record in &outcome.records {
        rows.append(row(py, record)?)?;
    }
    let failures = outcome.failures.into_iter();
    let failures = failures.map(|failure| (failure.trial, failure.cause));
    Ok((rows, failures.collect()))
}

/// Returns the names of the built-in plans, each with its question and true if all of its trials
/// are simulated.
#[pyfunction]
pub(crate) fn plan_names(py: Python<'_>) -> PyResult<Vec<(&'static str, String, bool)>> {
    let plans = py.detach(|| {
        let plans = builtin::ALL.iter().map(|builtin| {
            let plan = builtin.plan()?;
            let is_simulated = refusal(&plan).is_none();
            Ok((builtin.name, plan.question, is_simulated))
        });
        plans.collect::<Result<Vec<_>>>()
    });
    plans.map_err(|error| as_exception(py, error))
}

/// Returns the exception of a failed run: a plan that is wrong is a wrong argument.
fn as_exception(py: Python<'_>, error: anyhow::Error) -> PyErr {
    let is_of_system = error.chain().any(|cause| cause.is::<std::io::Error>());
    let failure = match is_of_system {
        true => Failure::Context(error),
        false => Failure::Argument(format!("{error:#}")),
    };
    failure.into_exception(py, None)
}

impl Run {
    fn run(&self, stop: &Stop) -> Result<RunOutcome> {
        let mut plan = self.plan()?;
        if let Some(count) = self.repetitions {
            plan = plan.repeated(count);
        }
        if let Some(why) = refusal(&plan) {
            bail!("{}: {why}", self.name);
        }
        preflight::check(&plan, &self.name)?;
        let shard: Option<Shard> = match &self.shard {
            Some(text) => Some(text.parse().with_context(|| format!("shard={text:?}"))?),
            None => None,
        };
        let defaults = RunOptions::default();
        let jobs = self.jobs.unwrap_or(defaults.jobs);
        let options = RunOptions {
            folder: self.results.clone(),
            jobs: preflight::jobs_in_memory(&plan, jobs),
            fresh: self.fresh,
            shard,
            stop: stop.clone(),
        };
        let progress: Arc<dyn Progress> = Arc::new(NoProgress);
        runner::run(&plan, &options, &progress)
    }

    fn plan(&self) -> Result<Plan> {
        let name = &self.name;
        if let Some(text) = &self.text {
            return Ok(Plan::parse(name, text)?);
        }
        match builtin::named(name) {
            Some(builtin) => Ok(builtin.plan()?),
            None if name.contains(['/', '.']) => {
                let text = fs::read_to_string(name).with_context(|| name.clone())?;
                Ok(Plan::parse(name, &text)?)
            }
            None => bail!("{name}: no plan of that name is built in; jext.lab.plans() lists them"),
        }
    }
}

/// Returns why a plan cannot run within a Python program; none if it can.
fn refusal(plan: &Plan) -> Option<&'static str> {
    let setups = plan.combinations();
    let mut setups = setups.iter().map(|c| Setup::of(&c.settings));
    // A parsed plan has no settings that are wrong.
    let is_plain = |setup: Result<Setup, _>| {
        setup.is_ok_and(|setup| setup.is_simulated() && !setup.has_guest())
    };
    match setups.all(is_plain) {
        true => None,
        false => Some(
            "has trials in real time or of a real kernel, which need a process of their own: use the command `jext lab run`",
        ),
    }
}

/// Returns a record as a row: its trial, then the level of each factor, then its figures.
fn row<'py>(py: Python<'py>, record: &Record) -> PyResult<Bound<'py, PyDict>> {
    let context = &record.context;
    let row = PyDict::new(py);
    row.set_item("plan", &context.plan)?;
    row.set_item("block", &context.block)?;
    row.set_item("trial", record.trial())?;
    row.set_item("repetition", record.repetition)?;
    row.set_item("is_warmup", record.is_warmup)?;
    row.set_item("seed", record.seed)?;
    for (key, level) in &context.levels {
        row.set_item(key, level)?;
    }
    for (name, value) in &record.measured.metrics {
        row.set_item(name, value)?;
    }
    Ok(row)
}
