//! Output of a run and of a session.

use std::io;

/// Phases of a run, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Creating the subdirectories, if there are any; not timed.
    MakeSubdirectories,
    /// Creating the pool.
    Create,
    /// The transactions.
    Transactions,
    /// Deleting the remaining files.
    Delete,
    /// Removing the subdirectories; not timed.
    RemoveSubdirectories,
}

impl Phase {
    /// Returns the text that the original prints when the phase starts.
    #[must_use]
    pub const fn announcement(self) -> &'static str {
        match self {
            Self::MakeSubdirectories => "Creating subdirectories...",
            Self::Create => "Creating files...",
            Self::Transactions => "Performing transactions",
            Self::Delete => "Deleting files...",
            Self::RemoveSubdirectories => "Deleting subdirectories...",
        }
    }
}

/// An observer of the phases of a run, called on the thread of the run's caller.
pub trait Observer {
    /// Handles the start of a phase.
    fn begin(&mut self, _phase: Phase) {}

    /// Handles the success of a phase.
    fn end(&mut self, _phase: Phase) {}

    /// Handles the completion of about a tenth of the transactions; with one thread only.
    fn dot(&mut self) {}

    /// Handles the stop of the transactions because no file is left.
    fn out_of_files(&mut self) {}
}

/// An observer that ignores all calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// Output of a session, and access to its command files.
///
/// [`Terminal`](crate::directory::Terminal) is the implementation for a terminal.
pub trait Console {
    /// Prints text, which includes its line ends.
    fn print(&mut self, text: &str);

    /// Prints an error message, which includes its line end.
    fn error(&mut self, text: &str);

    /// Appends text to a file; creates the file if it does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    fn append(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// Returns the text of a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not UTF-8.
    fn load(&mut self, path: &str) -> io::Result<String>;
}

/// Prints the original's messages during a run.
pub(super) struct Announcer<'a>(pub(super) &'a mut dyn Console);

impl Observer for Announcer<'_> {
    fn begin(&mut self, phase: Phase) {
        self.0.print(phase.announcement());
    }

    fn end(&mut self, _phase: Phase) {
        self.0.print("Done\n");
    }

    fn dot(&mut self) {
        self.0.print(".");
    }

    fn out_of_files(&mut self) {
        self.0.print(
            "out of files!\n\
             For this workload, either increase the number of files or\n\
             decrease the number of transactions.\n",
        );
    }
}
