//! How a run is done and measured, beside the parameters of the original.

use super::parameters::Parameters;
use crate::parameter::ParameterError;
use crate::stdio;

/// How a run is done and measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whose clock and report.
    pub mode: Mode,
    /// When files are synced.
    pub fsync: Fsync,
    /// Whether the target is synced inside the timing.
    pub final_sync: FinalSync,
    /// How many threads share the files and the transactions.
    pub threads: u32,
    /// The buffer of a stream in bytes, where [`Parameters::buffered`] is set.
    pub stdio_buffer: usize,
    /// Whether a latency is measured for every call.
    pub latencies: bool,
}

impl Options {
    /// What the original does, and nothing else.
    #[must_use]
    pub const fn compat() -> Self {
        Self {
            mode: Mode::Compat,
            latencies: false,
            ..Self::lab()
        }
    }

    /// The laboratory's form: nanoseconds and latencies, one thread, no syncing.
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

/// Whose clock and report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The original's: whole seconds, integer division, no report of a run that ran out of files.
    Compat,
    /// Ours: nanoseconds.
    Lab,
}

/// When a file is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Never, as in the original.
    None,
    /// Before a file that was written is closed.
    Close,
    /// After every write that reaches the target.
    EveryWrite,
}

/// Whether and when the whole target is synced; the time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalSync {
    /// Never, as in the original.
    None,
    /// Once, after the last file is deleted.
    End,
    /// At the end of each phase, so that each pays for its own writes.
    EachPhase,
}
