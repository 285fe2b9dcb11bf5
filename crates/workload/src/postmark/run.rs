//! A run of PostMark: the subdirectories, the three phases, and the cleanup after a failure.

use std::sync::Arc;

use super::account::{Account, Timing};
use super::console::{NoObserver, Observer, Phase};
use super::options::{FinalSync, Options};
use super::parameters::Parameters;
use super::report;
use super::worker::{Shared, Worker};
use crate::control::Control;
use crate::crew::{self, Failed};
use crate::meter::{Call, Meter};
use crate::outcome::Outcome;
use crate::parameter::ParameterError;
use crate::run_error::RunError;
use crate::target::Target;

/// Work of a thread in a phase.
type Work = fn(&mut Worker, &mut dyn Observer) -> Result<(), RunError>;

/// Runs the benchmark once.
///
/// The observer is called on the calling thread, the control's callback on any. The outcome has the
/// original's reports as documents, named `verbose` and `terse`.
///
/// # Errors
/// Fails with the first error of the target, after removing the created files as far as the target
/// allows; also if the parameters or options are invalid.
pub fn run(
    parameters: &Parameters,
    options: &Options,
    target: &Arc<dyn Target>,
    control: &Arc<Control>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    parameters.check().map_err(ParameterError::from)?;
    options.check(parameters)?;
    let shared = Arc::new(Shared {
        parameters: parameters.clone(),
        options: options.clone(),
        control: Arc::clone(control),
        failed: Failed::default(),
    });
    let mut crew = Crew::new(shared, target)?;
    match crew.measure(observer) {
        Ok(timing) => Ok(crew.outcome(timing)),
        Err(error) => {
            crew.abandon();
            Err(error)
        }
    }
}

/// All threads of a run.
struct Crew {
    shared: Arc<Shared>,
    target: Arc<dyn Target>,
    // Empty during a phase with several threads, which then own the workers.
    workers: Vec<Worker>,
    // Meter for calls outside the workers.
    meter: Meter,
    subdirectories: Vec<String>,
}

impl Crew {
    fn new(shared: Arc<Shared>, target: &Arc<dyn Target>) -> Result<Self, RunError> {
        let meter = Meter::new(Arc::clone(target), shared.options.latencies);
        let worker = |index| Worker::new(&shared, index, meter.clone());
        let workers = (0..shared.options.threads)
            .map(worker)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            target: Arc::clone(target),
            workers,
            meter,
            subdirectories: Vec::new(),
            shared,
        })
    }

    fn measure(&mut self, observer: &mut dyn Observer) -> Result<Timing, RunError> {
        self.make_subdirectories(observer)?;
        let control = Arc::clone(&self.shared.control);
        let number = u64::from(self.shared.parameters.number);
        control.begin(2 * number + u64::from(self.shared.parameters.transactions));
        let wall = rt::wall();
        let started = rt::monotonic();
        let created = self.phase(Phase::Create, Worker::create_all, observer)?;
        let transacted = self.phase(Phase::Transactions, Worker::transact_all, observer)?;
        control.set_left(self.workers.iter().map(Worker::live).sum());
        let deleted = self.phase(Phase::Delete, Worker::delete_all, observer)?;
        if self.shared.options.final_sync == FinalSync::End {
            self.sync()?;
        }
        let ended = rt::monotonic();
        self.remove_subdirectories(observer)?;
        Ok(Timing {
            wall,
            started,
            created,
            transacted,
            deleted,
            ended,
        })
    }

    fn sync(&mut self) -> Result<(), RunError> {
        Ok(self.meter.time(Call::Sync, |target| target.sync())?)
    }

    fn phase(
        &mut self,
        phase: Phase,
        work: Work,
        observer: &mut dyn Observer,
    ) -> Result<rt::Nanos, RunError> {
        observer.begin(phase);
        self.each(work, observer)?;
        if self.shared.options.final_sync == FinalSync::EachPhase {
            self.sync()?;
        }
        let end = rt::monotonic();
        if phase == Phase::Transactions && self.workers.iter().any(|worker| worker.out_of_files) {
            observer.out_of_files();
        } else {
            observer.end(phase);
        }
        Ok(end)
    }

    /// Runs `work` for every worker: a single one on this thread, several on a thread each.
    fn each(&mut self, work: Work, observer: &mut dyn Observer) -> Result<(), RunError> {
        if let [worker] = self.workers.as_mut_slice() {
            return work(worker, observer);
        }
        let workers = std::mem::take(&mut self.workers);
        let (workers, result) =
            crew::each("postmark", workers, &self.shared.failed, move |worker| {
                work(worker, &mut NoObserver)
            });
        self.workers = workers;
        result
    }

    fn make_subdirectories(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let paths: Vec<String> = match self.workers.first() {
            Some(worker) => worker.names().subdirectories().collect(),
            None => Vec::new(),
        };
        if paths.is_empty() {
            return Ok(());
        }
        observer.begin(Phase::MakeSubdirectories);
        for path in paths {
            self.target.mkdir(&path)?;
            self.subdirectories.push(path);
        }
        observer.end(Phase::MakeSubdirectories);
        Ok(())
    }

    fn remove_subdirectories(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        if self.subdirectories.is_empty() {
            return Ok(());
        }
        observer.begin(Phase::RemoveSubdirectories);
        for path in &self.subdirectories {
            self.target.rmdir(path)?;
        }
        self.subdirectories.clear();
        observer.end(Phase::RemoveSubdirectories);
        Ok(())
    }

    fn abandon(&mut self) {
        for worker in &mut self.workers {
            worker.abandon();
        }
        for path in &self.subdirectories {
            // The run has already failed; its first error counts.
            let _ = self.target.rmdir(path);
        }
    }

    fn outcome(self, timing: Timing) -> Outcome {
        let mut account = Account::new(&self.shared.parameters, &self.shared.options, timing);
        for worker in self.workers {
            account.add(&worker.counts, worker.out_of_files, worker.client.meter);
        }
        account.add_latencies(self.meter);
        let documents = report::documents(&account);
        account.outcome(documents)
    }
}
