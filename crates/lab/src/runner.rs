//! Running a plan: what is recorded is skipped, simulated trials run in parallel, real ones one
//! after another.
//!
//! Simulated worlds share nothing, so as many run at once as there are processors. Real trials
//! would disturb each other: they run alone and in randomised blocks: all levels once, in an order
//! that the plan's seed shuffles, then all of them once more in another order, so that whatever
//! drifts on the machine drifts over all levels. R. A. Fisher, The Arrangement of Field
//! Experiments, Journal of the Ministry of Agriculture 33, 1926.
//!
//! # When a run ends
//!
//! After the trials that a plan asks for come rounds of one more trial for each combination whose
//! interval is wider than the plan's precision, until none is or there are as many as may be.
//! [`Stop`] ends a run early: no trial begins any more, those that are running are cancelled, and
//! what was recorded is kept, so that the same command goes on there.

mod rounds;
mod stop;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use workload::Control;

use crate::plan::{Plan, Trial};
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
    /// True to run trials again that have a record.
    pub fresh: bool,
    /// Ends the run early.
    pub stop: Stop,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            folder: PathBuf::from(store::FOLDER),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            fresh: false,
            stop: Stop::default(),
        }
    }
}

/// An observer of a run, called from several threads.
pub trait Progress: Send + Sync {
    /// The run begins: so many trials are to be run, so many are recorded already.
    fn begin(&self, _to_run: usize, _recorded: usize) {}

    /// So many trials more are to be run, because intervals are too wide.
    fn extended(&self, _by: usize) {}

    /// A trial begins. `number` counts from 0 over those that are to be run.
    fn started(&self, _number: usize, _trial: &Trial) {}

    /// Reports the progress of a trial, 0 to 1. It is called from within the trial, so it must be
    /// quick.
    fn advanced(&self, _number: usize, _fraction: f64) {}

    /// A trial has ended: its record, or why it has none.
    fn ended(&self, _number: usize, _trial: &Trial, _result: Result<&Record, &str>) {}
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// A record of every trial that has one, those of earlier runs included.
    pub records: Vec<Record>,
    /// Number of trials that were run now.
    pub run: usize,
    /// Number of trials that had a record.
    pub recorded: usize,
    /// The trials that failed, and why.
    pub failures: Vec<Failure>,
    /// True if the run was ended early.
    pub is_stopped: bool,
    /// The place of the records.
    pub path: PathBuf,
}

/// A trial that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The trial, in words.
    pub trial: String,
    /// Why.
    pub cause: String,
}

/// Runs a plan.
///
/// # Errors
/// If records cannot be read or written. A trial that fails is no error of the run: see
/// [`RunOutcome::failures`].
pub fn run(plan: &Plan, options: &RunOptions, progress: &Arc<dyn Progress>) -> Result<RunOutcome> {
    let store = Store::new(&options.folder, plan);
    let known = store::latest(store::of_this_program(store.read()?));
    let mut rounds = Rounds::new(plan, known.values().filter(|_| !options.fresh));
    let crew = Crew {
        plan,
        store: &store,
        progress,
        stop: &options.stop,
        results: Mutex::new(Results::default()),
    };
    let first = rounds.first();
    let recorded = plan.trials().len() - first.len();
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
        // The rounds have put the real ones in their order.
        let (simulated, real): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.setup.is_simulated());
        crew.work(&simulated, options.jobs.max(1), begun)?;
        crew.work(&real, 1, begun + simulated.len())?;
        begun += count;
        rounds.learn(&mut crew.results().finished);
        open = rounds.next();
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

/// The records of a plan's trials in the plan's order, repetitions that were added for an interval
/// among them.
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

/// The records of a plan, without running anything: the last of each trial, whichever program made
/// it.
///
/// # Errors
/// If they cannot be read.
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
    // Ended trials that the rounds have not learnt of: each with its time, or nothing if it failed.
    finished: Vec<(Trial, Option<f64>)>,
    // The first error of the store, after which nothing more is begun.
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
    /// Does the jobs on so many threads; the first one's number is `first`.
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

    /// Does one job; whether to go on.
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
                let primary = headline::of_workload(job.trial.settings.workload()).primary;
                let value = record.metric(primary);
                results.finished.push((job.trial.clone(), value));
                drop(results);
                self.progress.ended(number, &job.trial, Ok(&record));
            }
            // It was cancelled, and so has not failed.
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
