//! Runs a plan: skips recorded trials, runs simulated trials in parallel and real ones one after
//! another.
//!
//! Simulated worlds share nothing, so one runs on each processor. Real trials would disturb each
//! other: they run alone and in randomised blocks. Each block runs all levels once, in an order
//! shuffled by the plan's seed, so that drift of the machine affects all levels alike. R. A.
//! Fisher, The Arrangement of Field Experiments, Journal of the Ministry of Agriculture 33, 1926.
//!
//! # End of a run
//!
//! After the trials of the plan, rounds follow with one more trial for each combination whose
//! interval is wider than the plan's precision, until all are precise or have the maximum number of
//! repetitions. [`Stop`] ends a run early: no further trial starts, running trials are cancelled,
//! and records are kept, so that the same command resumes the run.

mod rounds;
mod stop;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use workload::Control;

use crate::plan::{Plan, Shard, Trial};
use crate::record::Record;
use crate::report::headline;
use crate::setup::Setup;
use crate::store::{self, Store};
use crate::trial;

use rounds::Rounds;
pub use stop::Stop;

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The folder of the records.
    pub folder: PathBuf,
    /// Number of simulated trials that run at once; at least one.
    pub jobs: usize,
    /// True to run recorded trials again.
    pub fresh: bool,
    /// The part of the plan's trials to run, and no more than the plan's repetitions of each;
    /// `None` for all. Its records are in a file of its own.
    pub shard: Option<Shard>,
    /// Ends the run early.
    pub stop: Stop,
}

impl RunOptions {
    /// Returns the store of the records that a run makes.
    #[must_use]
    pub fn store(&self, plan: &Plan) -> Store {
        match self.shard {
            Some(shard) => Store::of_shard(&self.folder, plan, shard),
            None => Store::new(&self.folder, plan),
        }
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            folder: PathBuf::from(store::FOLDER),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            fresh: false,
            shard: None,
            stop: Stop::default(),
        }
    }
}

/// An observer of a run, called from several threads.
pub trait Progress: Send + Sync {
    /// Reports the start of a run: `to_run` trials remain, `recorded` trials have a record.
    fn begin(&self, _to_run: usize, _recorded: usize) {}

    /// Reports `by` additional trials, because intervals are too wide.
    fn extended(&self, _by: usize) {}

    /// Reports the start of a trial. `number` counts from 0 over the trials of this run.
    fn started(&self, _number: usize, _trial: &Trial) {}

    /// Reports the progress of a trial, 0 to 1. It is called from within the trial and must be
    /// fast.
    fn advanced(&self, _number: usize, _fraction: f64) {}

    /// Reports the end of a trial: its record, or the reason for its failure.
    fn ended(&self, _number: usize, _trial: &Trial, _result: Result<&Record, &str>) {}
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The records of all trials that have one, those of earlier runs included.
    pub records: Vec<Record>,
    /// Number of trials that this run has executed.
    pub run: usize,
    /// Number of trials that had a record.
    pub recorded: usize,
    /// The trials that failed, and why.
    pub failures: Vec<Failure>,
    /// True if the run was stopped early.
    pub is_stopped: bool,
    /// The file of the records.
    pub path: PathBuf,
}

/// A trial that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The description of the trial.
    pub trial: String,
    /// The reason.
    pub cause: String,
}

/// Runs a plan.
///
/// # Errors
/// Fails if records cannot be read or written. A failed trial is not an error of the run: see
/// [`RunOutcome::failures`].
pub fn run(plan: &Plan, options: &RunOptions, progress: &Arc<dyn Progress>) -> Result<RunOutcome> {
    let store = options.store(plan);
    let is_own = |trial: &Trial| options.shard.is_none_or(|shard| shard.has(trial));
    let known = store::latest(store::of_this_program(store.read()?));
    let mut rounds = Rounds::new(plan, known.values().filter(|_| !options.fresh));
    let crew = Crew {
        plan,
        store: &store,
        progress,
        stop: &options.stop,
        results: Mutex::new(Results::default()),
    };
    let mut first = rounds.first();
    first.retain(is_own);
    let own = plan.trials().iter().filter(|trial| is_own(trial)).count();
    let recorded = own - first.len();
    progress.begin(first.len(), recorded);
    let mut begun = 0;
    let mut open = first;
    loop {
        let jobs: Vec<Job> = open
            .into_iter()
            .map(|trial| {
                let setup = Setup::of(&trial.settings)?;
                trial::check_system(&setup).with_context(|| trial.name())?;
                Ok(Job { trial, setup })
            })
            .collect::<Result<_>>()?;
        let count = jobs.len();
        // `Rounds` has put the real trials in order.
        let (simulated, real): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.setup.is_simulated());
        crew.work(&simulated, options.jobs.max(1), begun)?;
        crew.work(&real, 1, begun + simulated.len())?;
        begun += count;
        rounds.learn(&mut crew.results().finished);
        // More repetitions depend on those of the other shards.
        open = match options.shard {
            Some(_) => Vec::new(),
            None => rounds.next(),
        };
        if open.is_empty() || options.stop.is_requested() {
            break;
        }
        progress.extended(open.len());
    }
    let results = crew
        .results
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let all = store::latest(store::of_this_program(store.read()?));
    Ok(RunOutcome {
        records: in_order(plan, &all),
        run: results.done,
        recorded,
        failures: results.failures,
        is_stopped: options.stop.is_requested(),
        path: store.path().to_owned(),
    })
}

/// Returns the records of a plan's trials in the plan's order, with the repetitions that were added
/// for precision.
fn in_order(plan: &Plan, all: &BTreeMap<String, Record>) -> Vec<Record> {
    let mut records = Vec::with_capacity(all.len());
    for combination in plan.combinations() {
        let warmups = (0..plan.warmup).map(|number| (number, true));
        let runs = (0..plan.repetitions_max).map(|number| (number, false));
        for (repetition, is_warmup) in warmups.chain(runs) {
            let id = combination.trial(repetition, is_warmup).id();
            records.extend(all.get(&id).cloned());
        }
    }
    records
}

/// Returns the records of a plan without running anything: the last of each trial, from any
/// program.
///
/// # Errors
/// Fails if they cannot be read.
pub fn recorded(plan: &Plan, folder: &Path) -> Result<Vec<Record>> {
    let all = store::latest(Store::new(folder, plan).read()?);
    Ok(in_order(plan, &all))
}

struct Job {
    trial: Trial,
    setup: Setup,
}

#[derive(Default)]
struct Results {
    done: usize,
    failures: Vec<Failure>,
    // Finished trials that the rounds do not know yet: each with its figure, or `None` if it
    // failed.
    finished: Vec<(Trial, Option<f64>)>,
    // The first error of the store; after it no further trial starts.
    broken: Option<anyhow::Error>,
}

struct Crew<'a> {
    plan: &'a Plan,
    store: &'a Store,
    progress: &'a Arc<dyn Progress>,
    stop: &'a Stop,
    results: Mutex<Results>,
}

impl Crew<'_> {
    /// Runs the jobs on `threads` threads; the first job's number is `first`.
    fn work(&self, jobs: &[Job], threads: usize, first: usize) -> Result<()> {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(jobs.len()) {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(index) else { return };
                        if !self.job(first + index, job) {
                            return;
                        }
                    }
                });
            }
        });
        match self.results().broken.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Runs one job; returns true if the run continues.
    fn job(&self, number: usize, job: &Job) -> bool {
        if self.stop.is_requested() || self.results().broken.is_some() {
            return false;
        }
        self.progress.started(number, &job.trial);
        let progress = Arc::clone(self.progress);
        let control = Control::with_progress(move |fraction| progress.advanced(number, fraction));
        let control = Arc::new(control);
        self.stop.watch(&control);
        let started = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        let clock = Instant::now();
        let result = trial::run(&job.trial, &job.setup, control);
        let seconds = clock.elapsed().as_secs_f64();
        match result {
            Ok(measured) => {
                let record = Record::new(self.plan, &job.trial, started, seconds, measured);
                let mut results = self.results();
                if let Err(error) = self.store.add(&record) {
                    results.broken = Some(error.into());
                    return false;
                }
                results.done += 1;
                let primary = headline::of(&job.trial.settings).primary;
                let value = record.metric(primary);
                results.finished.push((job.trial.clone(), value));
                drop(results);
                self.progress.ended(number, &job.trial, Ok(&record));
            }
            // A cancelled trial has not failed.
            Err(_) if self.stop.is_requested() => return false,
            Err(error) => {
                let cause = format!("{error:#}");
                self.progress.ended(number, &job.trial, Err(&cause));
                let mut results = self.results();
                results.finished.push((job.trial.clone(), None));
                results.failures.push(Failure {
                    trial: job.trial.name(),
                    cause,
                });
            }
        }
        true
    }

    fn results(&self) -> std::sync::MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
