//! [`Stage`]: the target, control, seed and options of a run.

use std::sync::Arc;

use crate::control::Control;
use crate::crew::Failed;
use crate::parameter::{Parameter, Values};
use crate::run_error::RunError;
use crate::target::Target;

/// The parameters of all workloads with [`Frame::Common`](crate::Frame::Common).
pub const PARAMETERS: &[Parameter] = &[
    Parameter::number(
        "bench.seed",
        (1, u32::MAX as i64),
        42,
        "seed of the workload's random streams",
    ),
    Parameter::switch(
        "bench.latencies",
        true,
        "whether a latency is measured for every call",
    ),
    Parameter::switch(
        "bench.verify",
        true,
        "whether reads are compared with the written data",
    ),
];

/// The target, control, seed and options of a run.
#[derive(Clone)]
pub struct Stage {
    target: Arc<dyn Target>,
    control: Arc<Control>,
    failed: Failed,
    seed: u64,
    is_timed: bool,
    verifies: bool,
}

impl Stage {
    /// Returns a stage for a workload that has its own seed and times its own calls.
    #[must_use]
    pub fn bare(target: &Arc<dyn Target>, control: &Arc<Control>) -> Self {
        Self {
            target: Arc::clone(target),
            control: Arc::clone(control),
            failed: Failed::default(),
            seed: 0,
            is_timed: false,
            verifies: false,
        }
    }

    /// Returns a stage on a target; `values` hold [`PARAMETERS`].
    #[must_use]
    pub fn new(target: &Arc<dyn Target>, control: &Arc<Control>, values: &Values) -> Self {
        Self {
            seed: u64::from(values.number("bench.seed")),
            is_timed: values.switch("bench.latencies"),
            verifies: values.switch("bench.verify") && target.keeps_contents(),
            ..Self::bare(target, control)
        }
    }

    /// Returns the handle that cancels the run and observes its progress.
    #[must_use]
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Returns the target.
    #[must_use]
    pub fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// Returns the seed of all random streams.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns true if a latency is recorded for every call.
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Returns the flag that a failing task sets.
    pub(crate) fn failed(&self) -> &Failed {
        &self.failed
    }

    /// Returns true if data that is read is compared with the data that was written.
    #[must_use]
    pub fn verifies(&self) -> bool {
        self.verifies
    }

    /// Counts steps as done, for the progress display.
    pub fn advance(&self, steps: u64) {
        self.control.advance(steps);
    }

    /// Returns false if another task has failed.
    ///
    /// # Errors
    /// Fails with [`RunError::Cancelled`] if the run was cancelled.
    pub fn goes_on(&self) -> Result<bool, RunError> {
        if self.control.is_cancelled() {
            return Err(RunError::Cancelled);
        }
        Ok(!self.failed.is_set())
    }
}
