//! What a run says while it runs, and where a session's text goes.

use std::io;

/// The parts of a run, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Making the subdirectories, if there are any; not timed.
    MakeSubdirectories,
    /// Making the pool.
    Create,
    /// The transactions.
    Transactions,
    /// Deleting what is left.
    Delete,
    /// Removing the subdirectories; not timed.
    RemoveSubdirectories,
}

impl Phase {
    /// What the original says when the phase begins.
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

/// Somebody who watches the phases of a run, on the thread that called it.
pub trait Observer {
    /// A phase begins.
    fn begin(&mut self, _phase: Phase) {}

    /// A phase has ended well.
    fn end(&mut self, _phase: Phase) {}

    /// About a tenth of the transactions was done; with one thread only.
    fn dot(&mut self) {}

    /// The transactions ended because no file was left.
    fn out_of_files(&mut self) {}
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// Where a session's text goes, and where its command files are.
///
/// [`Terminal`](crate::directory::Terminal) is the one of a person at a terminal.
pub trait Console {
    /// Prints text, which brings its own line ends.
    fn print(&mut self, text: &str);

    /// Prints a message about an error, which brings its own line end.
    fn error(&mut self, text: &str);

    /// Adds text to a file, and makes it if it is not there.
    fn append(&mut self, path: &str, text: &str) -> io::Result<()>;

    /// The text of a file.
    fn load(&mut self, path: &str) -> io::Result<String>;
}

/// Says what the original says during a run.
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
