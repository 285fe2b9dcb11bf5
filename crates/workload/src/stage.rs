//! [`Stage`]: what every run of a workload is given, and [`Run`]: what it keeps while it goes on.
//!
//! A run works in a folder of its own below the target's root, named as the workload. Phases follow one another; a phase
//! with several tasks starts a thread for each and ends with the last. What is not measured (setting up, verifying,
//! removing) happens between phases.

use std::sync::Arc;

use rt::Nanos;

use crate::client::Client;
use crate::contents::Contents;
use crate::control::Control;
use crate::crew::{self, Failed};
use crate::latency::Latencies;
use crate::meter::{Call, Meter};
use crate::outcome::{Outcome, Phase};
use crate::parameter::{Parameter, Values};
use crate::random::Random;
use crate::run_error::RunError;
use crate::target::Target;

/// The parameters that every workload but PostMark has.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::number(
        "bench.seed",
        (1, u32::MAX as i64),
        42,
        "the seed of the workload's random streams",
    ),
    Parameter::switch(
        "bench.latencies",
        true,
        "whether a latency is measured for every call",
    ),
    Parameter::switch(
        "bench.verify",
        true,
        "whether what is read is compared with what was written",
    ),
];

/// What every run is given.
#[derive(Clone)]
pub struct Stage {
    target: Arc<dyn Target>,
    control: Arc<Control>,
    failed: Failed,
    seed: u64,
    is_timed: bool,
    verifies: bool,
}

/// What a run keeps while it goes on.
pub struct Run {
    stage: Stage,
    contents: Arc<Contents>,
    phases: Vec<Phase>,
    latencies: Option<Latencies>,
}

impl Stage {
    /// A stage on a target; `values` hold [`PARAMETERS`].
    #[must_use]
    pub fn new(target: &Arc<dyn Target>, control: &Arc<Control>, values: &Values) -> Self {
        Self {
            target: Arc::clone(target),
            control: Arc::clone(control),
            failed: Failed::default(),
            seed: u64::from(values.number("bench.seed")),
            is_timed: values.switch("bench.latencies"),
            verifies: values.switch("bench.verify") && target.keeps_contents(),
        }
    }

    /// The target.
    #[must_use]
    pub fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// The seed of all random streams.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Whether what is read is compared with what was written.
    #[must_use]
    pub fn verifies(&self) -> bool {
        self.verifies
    }

    /// Counts steps as done, for whoever watches.
    pub fn advance(&self, steps: u64) {
        self.control.advance(steps);
    }

    /// Whether to go on: not when another task has failed.
    ///
    /// # Errors
    /// If the run was cancelled.
    pub fn goes_on(&self) -> Result<bool, RunError> {
        if self.control.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        Ok(!self.failed.is_set())
    }

    /// A run whose files are written in pieces of at most `piece_max` bytes, and of so many steps.
    #[must_use]
    pub fn run(&self, piece_max: usize, steps: u64) -> Run {
        self.control.begin(steps);
        Run {
            contents: Arc::new(Contents::new(self.seed, piece_max)),
            stage: self.clone(),
            phases: Vec::new(),
            latencies: None,
        }
    }
}

impl Run {
    /// The stage.
    #[must_use]
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The client of a task, with its own random stream.
    #[must_use]
    pub fn client(&self, task: u64) -> Client {
        self.client_with(task, self.stage.is_timed)
    }

    /// A client whose calls are not timed: for setting up and verifying.
    #[must_use]
    pub fn quiet_client(&self, task: u64) -> Client {
        self.client_with(task, false)
    }

    fn client_with(&self, task: u64, is_timed: bool) -> Client {
        let meter = Meter::new(Arc::clone(&self.stage.target), is_timed);
        let random = Random::new(self.stage.seed, task);
        let contents = Arc::clone(&self.contents);
        Client::new(meter, random, contents, self.stage.clone())
    }

    /// Does a phase on this thread and measures it.
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

    /// Does a phase with a thread for each worker, and measures from the first one's start to the last one's end.
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
        let failed = self.stage.failed.clone();
        self.phase(name, || {
            let (workers, result) = crew::each(name, workers, &failed, work);
            result.map(|()| workers)
        })
    }

    /// A phase that makes everything durable.
    pub fn sync(&mut self, name: &'static str) -> Result<(), RunError> {
        let mut client = self.client(u64::MAX);
        self.phase(name, || {
            Ok(client.meter.time(Call::Sync, |target| target.sync())?)
        })?;
        self.absorb(client);
        Ok(())
    }

    /// How long all phases of this name took together.
    #[must_use]
    pub fn took(&self, name: &str) -> Nanos {
        let named = self.phases.iter().filter(|phase| phase.name == name);
        named.map(|phase| phase.took).sum()
    }

    /// How long all phases took together.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        self.phases.iter().map(|phase| phase.took).sum()
    }

    /// Takes over what a client has measured.
    pub fn absorb(&mut self, mut client: Client) {
        self.absorb_latencies(client.meter.take_latencies());
    }

    /// Takes over what was measured otherwise.
    pub fn absorb_latencies(&mut self, more: Option<Latencies>) {
        Latencies::merge_into(&mut self.latencies, more);
    }

    /// What was measured so far.
    #[must_use]
    pub fn latencies(&self) -> Option<&Latencies> {
        self.latencies.as_ref()
    }

    /// The end: phases and latencies, without figures yet.
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
