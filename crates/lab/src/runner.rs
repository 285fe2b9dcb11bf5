//! Running a plan: what is recorded is skipped, simulated trials run in parallel, real ones one after another.
//!
//! Simulated worlds share nothing, so as many run at once as there are processors. Real trials would disturb each other:
//! they run alone, in an order that the plan's seed shuffles, so that whatever drifts on the machine drifts over all levels.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use workload::Control;

use crate::hash::StableHash;
use crate::plan::{Plan, Trial};
use crate::record::Record;
use crate::setup::Setup;
use crate::store::{self, Store};
use crate::trial;

/// How a plan is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOptions {
    /// Where records are kept.
    pub folder: PathBuf,
    /// How many simulated trials run at once; at least one.
    pub jobs: usize,
    /// Whether to run what is recorded already once more.
    pub fresh: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            folder: PathBuf::from(store::FOLDER),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            fresh: false,
        }
    }
}

/// Somebody who watches a run, from several threads.
pub trait Progress: Send + Sync {
    /// The run begins: so many trials are to be run, so many are recorded already.
    fn begin(&self, _to_run: usize, _recorded: usize) {}

    /// A trial begins. `number` counts from 0 over those that are to be run.
    fn started(&self, _number: usize, _trial: &Trial) {}

    /// How far a trial is, 0 to 1. It is called from within the trial, so it must be quick.
    fn advanced(&self, _number: usize, _fraction: f64) {}

    /// A trial has ended: its record, or why it has none.
    fn ended(&self, _number: usize, _trial: &Trial, _result: Result<&Record, &str>) {}
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// What came of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// A record of every trial that has one, those of earlier runs included.
    pub records: Vec<Record>,
    /// How many trials were run now.
    pub run: usize,
    /// How many were recorded already.
    pub recorded: usize,
    /// The trials that failed, and why.
    pub failures: Vec<Failure>,
    /// Where the records are.
    pub path: PathBuf,
}

/// A trial that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which, in words.
    pub trial: String,
    /// Why.
    pub cause: String,
}

/// Runs a plan.
///
/// # Errors
/// If records cannot be read or written. A trial that fails is no error of the run: see [`RunOutcome::failures`].
pub fn run(plan: &Plan, options: &RunOptions, progress: &Arc<dyn Progress>) -> Result<RunOutcome> {
    let store = Store::new(&options.folder, plan);
    let known = store::latest(store::of_this_program(store.read()?));
    let trials = plan.trials();
    let is_open = |trial: &Trial| options.fresh || !known.contains_key(&trial.id());
    let mut open: Vec<Job> = Vec::new();
    for trial in trials.iter().filter(|trial| is_open(trial)) {
        let setup = Setup::of(&trial.settings)?;
        trial::check_system(&setup).with_context(|| trial.name())?;
        open.push(Job {
            trial: trial.clone(),
            setup,
        });
    }
    let recorded = trials.len() - open.len();
    progress.begin(open.len(), recorded);
    let (simulated, mut real): (Vec<Job>, Vec<Job>) =
        open.into_iter().partition(|job| job.setup.is_simulated());
    // Warm-up trials stay in front.
    real.sort_by_key(|job| (!job.trial.is_warmup, shuffled(plan.seed, &job.trial)));
    let crew = Crew {
        plan,
        store: &store,
        progress,
        results: Mutex::new(Results::default()),
    };
    crew.work(&simulated, options.jobs.max(1), 0)?;
    crew.work(&real, 1, simulated.len())?;
    let results = crew
        .results
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let all = store::latest(store::of_this_program(store.read()?));
    Ok(RunOutcome {
        records: trials
            .iter()
            .filter_map(|trial| all.get(&trial.id()).cloned())
            .collect(),
        run: results.done,
        recorded,
        failures: results.failures,
        path: store.path().to_owned(),
    })
}

/// The records of a plan, without running anything: the last of each trial, whichever program made it.
///
/// # Errors
/// If they cannot be read.
pub fn recorded(plan: &Plan, options: &RunOptions) -> Result<Vec<Record>> {
    let all = store::latest(Store::new(&options.folder, plan).read()?);
    Ok(plan
        .trials()
        .iter()
        .filter_map(|trial| all.get(&trial.id()).cloned())
        .collect())
}

struct Job {
    trial: Trial,
    setup: Setup,
}

#[derive(Default)]
struct Results {
    done: usize,
    failures: Vec<Failure>,
    // The first error of the store, after which nothing more is begun.
    broken: Option<anyhow::Error>,
}

struct Crew<'a> {
    plan: &'a Plan,
    store: &'a Store,
    progress: &'a Arc<dyn Progress>,
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
        if self.results().broken.is_some() {
            return false;
        }
        self.progress.started(number, &job.trial);
        let progress = Arc::clone(self.progress);
        let control = Control::with_progress(move |fraction| progress.advanced(number, fraction));
        let started = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        let clock = Instant::now();
        let result = trial::run(&job.trial, &job.setup, Arc::new(control));
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
                drop(results);
                self.progress.ended(number, &job.trial, Ok(&record));
            }
            Err(error) => {
                let cause = format!("{error:#}");
                self.progress.ended(number, &job.trial, Err(&cause));
                self.results().failures.push(Failure {
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

/// Where a real trial comes in the shuffled order.
fn shuffled(seed: u64, trial: &Trial) -> u64 {
    let mut hash = StableHash::new();
    hash.number(seed);
    hash.text(&trial.id());
    hash.finish()
}
