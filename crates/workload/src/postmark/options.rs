//! Options of a run and its measurement, in addition to the original's parameters.

use super::parameters::Parameters;
use crate::parameter::ParameterError;
use crate::stdio;

/// Options of a run and its measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Clock and report.
    pub mode: Mode,
    /// Points at which files are synced.
    pub fsync: Fsync,
    /// Points at which the target is synced inside the measured time.
    pub final_sync: FinalSync,
    /// Number of threads that share the files and the transactions.
    pub threads: u32,
    /// Size of a stream's buffer in bytes, if [`Parameters::buffered`] is set.
    pub stdio_buffer: usize,
    /// True to measure the latency of every call.
    pub latencies: bool,
}

impl Options {
    /// Returns the options that match the original.
    #[must_use]
    pub const fn compat() -> Self {
        Self {
            mode: Mode::Compat,
            latencies: false,
            ..Self::lab()
        }
    }

    /// Returns the lab mode: nanoseconds and latencies, one thread, no syncing.
    #[must_use]
    pub const fn lab() -> Self {
        Self {
            mode: Mode::Lab,
            fsync: Fsync::None,
            final_sync: FinalSync::None,
            threads: 1,
            stdio_buffer: stdio::BUFFER_BYTES,
            latencies: true,
        }
    }

    /// Checks that the options fit each other and the parameters.
    ///
    /// # Errors
    /// Fails if the original has no such option, if there are more threads than files, or if
    /// streams have no buffer.
    pub fn check(&self, parameters: &Parameters) -> Result<(), ParameterError> {
        let plain = Self {
            latencies: self.latencies,
            ..Self::compat()
        };
        if self.mode == Mode::Compat && *self != plain {
            return Err(ParameterError::new(
                "postmark",
                "the original neither syncs nor has threads: use the lab form",
            ));
        }
        if self.threads == 0 || self.threads > parameters.number {
            let (threads, files) = (self.threads, parameters.number);
            let message = format!("{threads} threads cannot share {files} files");
            return Err(ParameterError::new("postmark.threads", message));
        }
        if self.stdio_buffer == 0 {
            return Err(ParameterError::new(
                "postmark.buffering",
                "the stdio buffer has no bytes",
            ));
        }
        Ok(())
    }
}

/// Clock and report of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The original's: whole seconds, integer division, no report of a run that ran out of files.
    Compat,
    /// Nanoseconds, and a report of every run.
    Lab,
}

/// Points at which a file is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Never, as in the original.
    None,
    /// Before a written file is closed.
    Close,
    /// After every write that reaches the target.
    EveryWrite,
}

/// Points at which the whole target is synced, inside the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalSync {
    /// Never, as in the original.
    None,
    /// Once, after the last file is deleted.
    End,
    /// At the end of each phase, so that each phase pays for its own writes.
    EachPhase,
}
