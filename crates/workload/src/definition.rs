//! [`Definition`]: a named workload, and [`Workload`], the trait of a workload with parsed
//! parameters.

use std::fmt;
use std::sync::Arc;

use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::{self, Stage};

/// A workload with checked parameters.
pub trait Workload: Send + Sync + fmt::Debug {
    /// Runs the workload once. With [`Frame::Common`], its directory, which has the workload's
    /// name, exists and is empty; the caller removes it with its contents afterwards.
    ///
    /// # Errors
    /// Fails with the first error of the target, or if the run was cancelled.
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError>;
}

/// A named workload.
#[derive(Debug)]
pub struct Definition {
    /// Name of the workload in plans and commands, and of its directory.
    pub name: &'static str,
    /// A description in one line.
    pub title: &'static str,
    /// Parameters of the workload itself, in addition to those of its [`frame`](Self::frame).
    pub parameters: &'static [Parameter],
    /// Figures that compare its runs.
    pub headline: Headline,
    /// Place of its files, and the parameters that it shares with others.
    pub frame: Frame,
    /// Returns the number of bytes that a run writes before it deletes anything, if the parameters
    /// determine it.
    pub footprint: fn(&Values) -> Option<u64>,
    /// Parses and checks parameters.
    pub read: fn(&Values) -> Result<Arc<dyn Workload>, ParameterError>,
}

/// Place of a workload's files, and the parameters that it shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// A directory for the workload, with [`stage::PARAMETERS`].
    Common,
    /// The target's root, without shared parameters, as in the original program.
    Original,
}

impl Frame {
    /// Returns the parameters that workloads of this frame share.
    #[must_use]
    pub const fn parameters(self) -> &'static [Parameter] {
        match self {
            Self::Common => stage::PARAMETERS,
            Self::Original => &[],
        }
    }
}

impl Definition {
    /// Returns all parameters: the shared ones, then those of the workload.
    pub fn all_parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        self.frame.parameters().iter().chain(self.parameters)
    }

    /// Returns the defaults of all parameters.
    #[must_use]
    pub fn defaults(&self) -> Values {
        Values::defaults([self.frame.parameters(), self.parameters])
    }
}
