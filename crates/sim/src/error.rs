//! [`SimError`]: the failure of a run, and its replay id.

use std::fmt;

use rt::Nanos;

use crate::replay::ReplayId;

/// The error of a failed run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{failure}\n  at {at} of virtual time; repeat with {replay}")]
pub struct SimError {
    /// Kind of failure.
    pub failure: Failure,
    /// Virtual time of the failure.
    pub at: Nanos,
    /// Trace hash at the failure.
    pub trace_hash: u64,
    /// Replay id of the run.
    pub replay: Box<ReplayId>,
}

/// The kinds of failures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// No task is left that could end the wait of these tasks.
    #[error("deadlock: no task can ever go on{}", Listed(.tasks))]
    Deadlock {
        /// Every waiting task.
        tasks: Vec<StuckTask>,
    },
    /// The root task has returned, and these tasks still wait.
    #[error("tasks are left when the world ends{}", Listed(.tasks))]
    TasksLeft {
        /// Every host task that is left, daemons included.
        tasks: Vec<StuckTask>,
    },
    /// A task panicked.
    #[error("task `{task}` panicked {message}{}", OnNextLine(.backtrace))]
    Panicked {
        /// Name of the task.
        task: String,
        /// Location and message of the panic.
        message: String,
        /// Backtrace of the panic, if backtraces were captured.
        backtrace: Option<String>,
    },
    /// The run exceeded its limit of virtual time.
    #[error("the run passed its limit of {limit} of virtual time{}", Listed(.tasks))]
    TimeLimit {
        /// Limit.
        limit: Nanos,
        /// Every waiting task.
        tasks: Vec<StuckTask>,
    },
    /// The run exceeded its limit of scheduling steps.
    #[error("the run passed its limit of {limit} steps{}", Listed(.tasks))]
    StepLimit {
        /// Limit.
        limit: u64,
        /// Every waiting task.
        tasks: Vec<StuckTask>,
    },
    /// A task of a world tried to run a world.
    #[error("a world cannot run inside a task of another world")]
    Nested,
    /// The system could not allocate a task's stack.
    #[error("no memory for the stack of task `{task}`: {message}")]
    NoStack {
        /// Name of the task.
        task: String,
        /// Message of the system.
        message: String,
    },
}

/// A waiting task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckTask {
    /// Name of the task.
    pub name: String,
    /// True if it is a daemon.
    pub is_daemon: bool,
    /// True if it is a device.
    pub is_device: bool,
    /// Object of the wait in words: `mutex`, `task ...`, `a moment`.
    pub waits_for: String,
    /// Address of the lock or condition variable, if it waits for one. It differs between runs.
    pub address: Option<usize>,
    /// Start of the wait.
    pub since: Nanos,
    /// Deadline of the wait, if it has one.
    pub until: Option<Nanos>,
    /// Backtrace of the wait, if backtraces were captured.
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

/// Tasks, formatted one per line.
struct Listed<'a>(&'a [StuckTask]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|task| write!(out, "\n  {task}"))
    }
}

/// An optional text, formatted on a line of its own.
struct OnNextLine<'a>(&'a Option<String>);

impl fmt::Display for OnNextLine<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|text| write!(out, "\n{text}"))
    }
}
