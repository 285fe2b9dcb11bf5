//! fsstress: random operations on trees, compared at the end with what must be there.
//!
//! # Origin
//!
//! SGI's `fsstress`, as in xfstests: tasks choose operations by their frequencies and do them to
//! random names. What it shows there is whether the machine survives, and whether `fsck` and
//! another mount find the file system whole.
//!
//! # Where ours differs
//!
//! - Every task works in a directory of its own and keeps a model of it, so that all results are
//!   checked at once and all names, kinds, sizes, links and bytes at the end. The original's tasks
//!   share one tree and expect any result.
//! - Frequencies are the original's for the operations that the trait [`Target`](crate::Target) has
//!   calls for: creat 4, write 4, read 4, mkdir 2, symlink 2, rename 2, truncate 2; unlink, link,
//!   rmdir, stat, readdir, readlink, fsync, fdatasync, fsync of a directory and sync 1 each.
//!   Direct, mapped and vectored transfers, devices, owners, attributes and ranges have none.
//! - Writes begin within the file or at its end, and truncation makes files shorter, so that every
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

/// The workload by its name.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "fsstress: random operations on trees, compared with a model",
    parameters: &[
        Parameter::number(
            "fsstress.operations",
            (1, 1_000_000_000),
            10_000,
            "operations a task (-n)",
        ),
        Parameter::number("fsstress.tasks", (1, 1024), 4, "tasks (-p)"),
        Parameter::bytes("fsstress.write_max", 64 << 10, "the largest write"),
        Parameter::bytes("fsstress.size_max", 1 << 20, "the largest file"),
        Parameter::number(
            "fsstress.names_max",
            (1, 1_000_000),
            500,
            "names a task has at most",
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

/// What a run is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Operations a task.
    pub operations: u32,
    /// Tasks, each with its directory.
    pub tasks: u32,
    /// The largest write in bytes.
    pub write_max: usize,
    /// The largest file in bytes.
    pub size_max: u64,
    /// Names a task has at most.
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
