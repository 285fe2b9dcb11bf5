//! fsstress: random operations on trees, compared at the end with a model.
//!
//! # Origin
//!
//! SGI's `fsstress`, as in xfstests: tasks choose operations by their frequencies and apply them to
//! random names. There it tests that the machine survives, and that `fsck` and another mount find
//! the file system intact.
//!
//! # Differences from the original
//!
//! - Every task works in its own directory and keeps a model of it, so that all results are checked
//!   at once, and all names, kinds, sizes, links and bytes at the end. The original's tasks share
//!   one tree and accept any result.
//! - The frequencies are the original's for the operations that [`Target`](crate::Target) supports:
//!   creat 4, write 4, read 4, mkdir 2, symlink 2, rename 2, truncate 2; unlink, link, rmdir, stat,
//!   readdir, readlink, fsync, fdatasync, fsync of a directory and sync 1 each. Direct, mapped and
//!   vectored transfers, devices, owners, attributes and ranges are not supported.
//! - Writes start within the file or at its end, and truncation only shortens files, so that every
//!   byte is known.

mod model;
mod task;

use std::sync::Arc;

use crate::definition::{Definition, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::Stage;

use task::Task;

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "fsstress: random operations on trees, compared with a model",
    parameters: &[
        Parameter::number(
            "fsstress.operations",
            (1, 1_000_000_000),
            10_000,
            "operations per task (-n)",
        ),
        Parameter::number("fsstress.tasks", (1, 1024), 4, "tasks (-p)"),
        Parameter::bytes(
            "fsstress.write_max",
            64 << 10,
            "maximum size of a write in bytes",
        ),
        Parameter::bytes("fsstress.size_max", 1 << 20, "maximum file size in bytes"),
        Parameter::number(
            "fsstress.names_max",
            (1, 1_000_000),
            500,
            "maximum number of names per task",
        ),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &["operations_rate", "longest_call", "elapsed"],
    },
    frame: Frame::Common,
    footprint: |_| None,
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "fsstress";
const WRITE_MAX: u64 = 1 << 20;

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Number of operations per task.
    pub operations: u32,
    /// Number of tasks, each with its directory.
    pub tasks: u32,
    /// Maximum size of a write in bytes.
    pub write_max: usize,
    /// Maximum size of a file in bytes.
    pub size_max: u64,
    /// Maximum number of names per task.
    pub names_max: u32,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        Ok(Self {
            operations: values.number("fsstress.operations"),
            tasks: values.number("fsstress.tasks"),
            write_max: values.buffer("fsstress.write_max", WRITE_MAX)?,
            size_max: values.bytes("fsstress.size_max"),
            names_max: values.number("fsstress.names_max"),
        })
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let operations = u64::from(self.operations) * u64::from(self.tasks);
        let mut run = stage.run(self.write_max, operations);
        let mut tasks = Vec::new();
        for index in 0..self.tasks {
            let directory = format!("{FOLDER}/{index}");
            stage.target().mkdir(&directory)?;
            let client = run.client(u64::from(index));
            tasks.push(Task::new(self, directory, index, client));
        }
        let tasks = run.crew("operations", tasks, Task::work)?;
        let span = run.elapsed();
        let tasks = run.crew("check", tasks, Task::check)?;
        for task in tasks {
            run.absorb(task.client);
        }
        let mut outcome = run.finish();
        outcome.totals();
        outcome.count("operations", operations);
        outcome.rate("operations_rate", operations, span);
        Ok(outcome)
    }
}
