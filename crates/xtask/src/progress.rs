//! Progress on a terminal: a line for each step.

use std::io::{self, IsTerminal};

use crate::output;

/// Steps of a long command.
pub(crate) struct Steps {
    all: u64,
    begun: u64,
    is_shown: bool,
}

impl Steps {
    /// Returns the progress of a command of `all` steps.
    pub(crate) fn new(all: u64) -> Self {
        Self {
            all,
            begun: 0,
            is_shown: io::stderr().is_terminal(),
        }
    }

    /// Prints that the next step starts.
    pub(crate) fn begin(&mut self, what: &str) {
        self.begun += 1;
        if self.is_shown {
            output::tell(&format!("{} of {}: {what}", self.begun, self.all));
        }
    }
}
