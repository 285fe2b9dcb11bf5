//! [`Definition`]: a named workload, and [`Workload`], the trait of a workload with parsed
//! parameters.

use std::fmt;
use std::sync::Arc;

use crate::contents::{PAGE_BYTES, PAGES_BYTES};
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
    /// Returns the data that a run writes before it deletes anything, if the parameters determine
    /// it.
    pub footprint: fn(&Values) -> Option<Footprint>,
    /// Parses and checks parameters.
    pub read: fn(&Values) -> Result<Arc<dyn Workload>, ParameterError>,
}

/// The data that a workload writes before it deletes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Its size in bytes.
    pub bytes: u64,
    /// Maximum size in bytes of its pages that differ from each other.
    pub distinct: u64,
}

impl Footprint {
    /// Returns the footprint of files that are filled with the [`contents`](crate::contents) of
    /// this crate; `None` if it is too large for a number.
    #[must_use]
    pub fn of_contents(bytes: Option<u64>, files: u64) -> Option<Self> {
        let bytes = bytes?;
        // Each file's last page may be a page of its own.
        let distinct = files.saturating_mul(PAGE_BYTES).saturating_add(PAGES_BYTES);
        Some(Self {
            bytes,
            distinct: distinct.min(bytes),
        })
    }

    /// Returns the footprint of arbitrary data; `None` if it is too large for a number.
    #[must_use]
    pub fn of_bytes(bytes: Option<u64>) -> Option<Self> {
        bytes.map(|bytes| Self {
            bytes,
            distinct: bytes,
        })
    }
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
