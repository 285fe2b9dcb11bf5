//! [`SimError`]: how a run can fail, and from what it is repeated.

use std::fmt;

use rt::Nanos;

use crate::replay::ReplayId;

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{failure}\n  at {at} of virtual time; repeat with {replay}")]
pub struct SimError {
    /// What went wrong.
    pub failure: Failure,
    /// When, in virtual time.
    pub at: Nanos,
    /// The trace hash up to there.
    pub trace_hash: u64,
    /// From what the run is repeated.
    pub replay: Box<ReplayId>,
}

/// What can go wrong in a world.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Nobody who could end the wait of these tasks is left.
    #[error("deadlock: no task can ever go on{}", Listed(.tasks))]
    Deadlock {
        /// Every task that waits.
        tasks: Vec<StuckTask>,
    },
    /// The root task has returned, and these tasks are still there and wait.
    #[error("tasks are left when the world ends{}", Listed(.tasks))]
    TasksLeft {
        /// Every host task that is left, daemons included.
        tasks: Vec<StuckTask>,
    },
    /// A task panicked.
    #[error("task `{task}` panicked {message}{}", OnNextLine(.backtrace))]
    Panicked {
        /// The name of the task.
        task: String,
        /// Where, and what the panic said.
        message: String,
        /// How it came to that, if backtraces were captured.
        backtrace: Option<String>,
    },
    /// The run took longer than allowed, in virtual time.
    #[error("the run passed its limit of {limit} of virtual time{}", Listed(.tasks))]
    TimeLimit {
        /// The limit.
        limit: Nanos,
        /// Every task that waits.
        tasks: Vec<StuckTask>,
    },
    /// The run took more scheduling steps than allowed.
    #[error("the run passed its limit of {limit} steps{}", Listed(.tasks))]
    StepLimit {
        /// The limit.
        limit: u64,
        /// Every task that waits.
        tasks: Vec<StuckTask>,
    },
    /// A task of a world tried to run a world.
    #[error("a world cannot run inside a task of another world")]
    Nested,
    /// The system gave no memory for a task's stack.
    #[error("no memory for the stack of task `{task}`: {message}")]
    NoStack {
        /// The name of the task.
        task: String,
        /// What the system said.
        message: String,
    },
}

/// A task that waits, and for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckTask {
    /// The task's name.
    pub name: String,
    /// Whether it is a daemon.
    pub is_daemon: bool,
    /// Whether it is a device.
    pub is_device: bool,
    /// What it waits for, in words: `mutex`, `task ...`, `a moment`.
    pub waits_for: String,
    /// The address of the lock or condition variable, if it waits for one. It differs between runs.
    pub address: Option<usize>,
    /// Since when.
    pub since: Nanos,
    /// Until when, if there is a timeout.
    pub until: Option<Nanos>,
    /// Where in the program, if backtraces were captured.
    pub backtrace: Option<String>,
}

impl fmt::Display for StuckTask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (self.is_daemon, self.is_device) {
            (true, _) => "daemon",
            (_, true) => "device",
            _ => "task",
        };
        write!(out, "{kind} `{}` waits for {}", self.name, self.waits_for)?;
        if let Some(address) = self.address {
            write!(out, " {address:#x}")?;
        }
        write!(out, " since {}", self.since)?;
        if let Some(until) = self.until {
            write!(out, " until {until}")?;
        }
        if let Some(backtrace) = &self.backtrace {
            write!(out, "\n{backtrace}")?;
        }
        Ok(())
    }
}

/// Tasks, each on a line of its own.
struct Listed<'a>(&'a [StuckTask]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|task| write!(out, "\n  {task}"))
    }
}

/// A text on a line of its own, if there is one.
struct OnNextLine<'a>(&'a Option<String>);

impl fmt::Display for OnNextLine<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|text| write!(out, "\n{text}"))
    }
}
