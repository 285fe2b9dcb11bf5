//! [`Run`]: the phases and latencies of a run in progress.
//!
//! Phases run one after another. A phase with several tasks starts a thread for each and lasts
//! until the last one finishes. Setup, verification and cleanup take place between phases and are
//! not measured.

use std::sync::Arc;

use rt::Nanos;

use crate::client::Client;
use crate::contents::Contents;
use crate::crew;
use crate::latency::Latencies;
use crate::meter::{Call, Meter};
use crate::outcome::{Outcome, Phase};
use crate::random::Random;
use crate::run_error::RunError;
use crate::stage::Stage;

/// A run in progress.
pub struct Run {
    stage: Stage,
    contents: Arc<Contents>,
    phases: Vec<Phase>,
    latencies: Option<Latencies>,
}

impl Stage {
    /// Starts a run of `steps` steps, whose files are written in pieces of at most `piece_max`
    /// bytes.
    #[must_use]
    pub fn run(&self, piece_max: usize, steps: u64) -> Run {
        self.control().begin(steps);
        Run {
            contents: Arc::new(Contents::new(self.seed(), piece_max)),
            stage: self.clone(),
            phases: Vec::new(),
            latencies: None,
        }
    }
}

impl Run {
    /// Returns the stage.
    #[must_use]
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Returns the client of a task, with its own random stream.
    #[must_use]
    pub fn client(&self, task: u64) -> Client {
        self.client_with(task, self.stage.is_timed())
    }

    /// Returns a client whose calls are not timed, for setting up and verifying.
    #[must_use]
    pub fn quiet_client(&self, task: u64) -> Client {
        self.client_with(task, false)
    }

    fn client_with(&self, task: u64, is_timed: bool) -> Client {
        let meter = Meter::new(Arc::clone(self.stage.target()), is_timed);
        let random = Random::new(self.stage.seed(), task);
        let contents = Arc::clone(&self.contents);
        Client::new(meter, random, contents, self.stage.clone())
    }

    /// Runs a phase on this thread and measures it.
    ///
    /// # Errors
    /// Fails with the error of `work`, or [`RunError::Cancelled`] if another task failed.
    pub fn phase<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        if !self.stage.goes_on()? {
            return Err(RunError::Cancelled);
        }
        let began = rt::monotonic();
        let result = work()?;
        self.end_phase(name, began);
        Ok(result)
    }

    /// Runs a phase with a thread for each worker, and measures it from the start of the first to
    /// the end of the last.
    ///
    /// # Errors
    /// Fails with the first error of a worker.
    pub fn crew<W, F>(
        &mut self,
        name: &'static str,
        workers: Vec<W>,
        work: F,
    ) -> Result<Vec<W>, RunError>
    where
        W: Send + 'static,
        F: Fn(&mut W) -> Result<(), RunError> + Clone + Send + 'static,
    {
        let failed = self.stage.failed().clone();
        self.phase(name, || {
            let (workers, result) = crew::each(name, workers, &failed, work);
            result.map(|()| workers)
        })
    }

    /// Runs a phase that syncs the whole target.
    ///
    /// # Errors
    /// Fails if the target's sync does.
    pub fn sync(&mut self, name: &'static str) -> Result<(), RunError> {
        let mut client = self.client(u64::MAX);
        self.phase(name, || {
            Ok(client.meter.time(Call::Sync, |target| target.sync())?)
        })?;
        self.absorb(client);
        Ok(())
    }

    /// Returns the total time of all phases of this name.
    #[must_use]
    pub fn took(&self, name: &str) -> Nanos {
        let named = self.phases.iter().filter(|phase| phase.name == name);
        named.map(|phase| phase.took).sum()
    }

    /// Returns the total time of all phases.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        self.phases.iter().map(|phase| phase.took).sum()
    }

    /// Merges the latencies of a client.
    pub fn absorb(&mut self, mut client: Client) {
        self.absorb_latencies(client.meter.take_latencies());
    }

    /// Merges latencies.
    pub fn absorb_latencies(&mut self, more: Option<Latencies>) {
        Latencies::merge_into(&mut self.latencies, more);
    }

    /// Returns the latencies so far.
    #[must_use]
    pub fn latencies(&self) -> Option<&Latencies> {
        self.latencies.as_ref()
    }

    /// Finishes the run. Returns its phases and latencies; the workload adds the figures.
    #[must_use]
    pub fn finish(self) -> Outcome {
        Outcome {
            phases: self.phases,
            latencies: self.latencies,
            ..Outcome::default()
        }
    }

    fn end_phase(&mut self, name: &'static str, began: Nanos) {
        self.phases.push(Phase {
            name,
            began,
            took: rt::monotonic().saturating_sub(began),
        });
    }
}
