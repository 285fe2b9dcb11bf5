//! [`Definition`]: a workload by its name, and the trait [`Workload`] of one whose parameters were
//! read.

use std::fmt;
use std::sync::Arc;

use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::{self, Stage};

/// A workload whose parameters were read and checked.
pub trait Workload: Send + Sync + fmt::Debug {
    /// Runs it once. With [`Frame::Common`], the directory named as the workload exists and is
    /// empty; the caller removes it with its contents afterwards.
    ///
    /// # Errors
    /// Fails with the first error of the target, or if the run was cancelled.
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError>;
}

/// A workload by its name.
#[derive(Debug)]
pub struct Definition {
    /// Its name in plans and commands, and of its directory.
    pub name: &'static str,
    /// A description in one line.
    pub title: &'static str,
    /// Its own parameters; those of its [`frame`](Self::frame) come on top.
    pub parameters: &'static [Parameter],
    /// The figures by which its runs are compared.
    pub headline: Headline,
    /// Where it works, and the parameters it shares with others.
    pub frame: Frame,
    /// Returns the number of bytes that it writes before it deletes anything, if the parameters
    /// determine it.
    pub footprint: fn(&Values) -> Option<u64>,
    /// Reads and checks parameters.
    pub read: fn(&Values) -> Result<Arc<dyn Workload>, ParameterError>,
}

/// Where a workload works, and the parameters it shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// In a directory of its own, with [`stage::PARAMETERS`].
    Common,
    /// In the target's root, with no parameters but its own, as the original program.
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
    /// Returns all parameters: the shared ones, then its own.
    pub fn all_parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        self.frame.parameters().iter().chain(self.parameters)
    }

    /// Returns the defaults of all parameters.
    #[must_use]
    pub fn defaults(&self) -> Values {
        Values::defaults([self.frame.parameters(), self.parameters])
    }
}
