//! synctest: many tasks that write small files, make each durable, rename it three times and remove
//! it later, as the queue of a mail server does.
//!
//! # Origin
//!
//! `synctest`, one of A. Morton's ext3 tools (2000 to 2004), measured the journal of ext3 against
//! `ext2` with synchronous inodes. No copy of its source is available; its behaviour is known from
//! published descriptions. For each of 100 names a task creates the file, writes 5 to 250 kB
//! (exponentially distributed), optionally makes it durable, closes it, and optionally makes the
//! directory durable. It renames the file three times, each followed by the same, and removes the
//! file that was created 30 passes earlier. The classic run has 100 tasks with 50, 20, 10, 5 or 1
//! of them in a directory.
//!
//! # Choices where the source is missing
//!
//! - Sizes are exponential with the mean [`Parameters::size_mean`], drawn again until they are
//!   within the limits.
//! - The three renames stay in the directory: `NAME.new`, `.in`, `.active`, `.done`; further ones
//!   add a number.
//! - Names start with the task's number, so tasks share directories but not names.
//! - Directories are created before the clock starts. Files that remain after the last pass are
//!   verified and removed after it stops.
//! - `+S` is the inode flag that files inherit from their directory; `O_SYNC` opens the files
//!   synchronously instead.
//!
//! # Figures
//!
//! `elapsed` is the time of the slowest task; `files_rate` and `write_rate` are over it.
//! `longest_call` shows the stalls that a wrapping journal causes (15 to 20 s were reported for a
//! journal of 400 MB). The original has no latencies and one run, and the write cache of its disk
//! was enabled, so its "durable" data was not durable.

mod task;

use std::sync::Arc;

use crate::contents::PIECE_BYTES_MAX;
use crate::definition::{Definition, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::Stage;
use crate::target::InodeFlags;

use task::Task;

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "synctest: tasks that write, sync, rename and remove small files",
    parameters: &[
        Parameter::number("synctest.tasks", (1, 10_000), 100, "number of tasks"),
        Parameter::number(
            "synctest.tasks_per_directory",
            (1, 10_000),
            1,
            "number of tasks per directory",
        ),
        Parameter::number("synctest.files", (1, 1_000_000), 100, "files per task"),
        Parameter::number(
            "synctest.live",
            (1, 1_000_000),
            30,
            "passes after which a file is removed",
        ),
        Parameter::number("synctest.renames", (0, 100), 3, "renames a file"),
        Parameter::bytes("synctest.size_min", 5 << 10, "minimum file size in bytes"),
        Parameter::bytes("synctest.size_max", 250 << 10, "maximum file size in bytes"),
        Parameter::bytes(
            "synctest.size_mean",
            50 << 10,
            "mean of the exponential distribution before it is cut to the limits",
        ),
        Parameter::switch("synctest.fsync", true, "whether files are synced"),
        Parameter::switch(
            "synctest.directory_fsync",
            false,
            "whether directories are synced after each change",
        ),
        Parameter::word(
            "synctest.synchronous",
            &["no", "inodes", "files"],
            "synchronous operations: none, chattr +S on the tree, or files opened with O_SYNC",
        ),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &["files_rate", "write_rate", "elapsed"],
    },
    frame: Frame::Common,
    footprint: |_| None,
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "synctest";

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Number of tasks.
    pub tasks: u32,
    /// Number of tasks per directory.
    pub tasks_per_directory: u32,
    /// Number of files per task.
    pub files: u32,
    /// Number of passes after which a file is removed.
    pub live: u32,
    /// Number of renames per file.
    pub renames: u32,
    /// Minimum size of a file in bytes.
    pub size_min: u64,
    /// Maximum size of a file in bytes.
    pub size_max: u64,
    /// Mean in bytes of the distribution before it is cut to the limits.
    pub size_mean: u64,
    /// True to sync files.
    pub fsync: bool,
    /// True to sync directories after each change.
    pub directory_fsync: bool,
    /// Operations that are synchronous without a sync call.
    pub synchronous: Synchronous,
}

/// Operations that are synchronous without a sync call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// None.
    Nothing,
    /// All inodes (`chattr +S`).
    Inodes,
    /// Writes to files (`O_SYNC`).
    Files,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let read = Self {
            tasks: values.number("synctest.tasks"),
            tasks_per_directory: values.number("synctest.tasks_per_directory"),
            files: values.number("synctest.files"),
            live: values.number("synctest.live"),
            renames: values.number("synctest.renames"),
            size_min: values.bytes("synctest.size_min"),
            size_max: values.buffer("synctest.size_max", PIECE_BYTES_MAX as u64)? as u64,
            size_mean: values.bytes("synctest.size_mean"),
            fsync: values.switch("synctest.fsync"),
            directory_fsync: values.switch("synctest.directory_fsync"),
            synchronous: match values.text("synctest.synchronous") {
                "inodes" => Synchronous::Inodes,
                "files" => Synchronous::Files,
                _ => Synchronous::Nothing,
            },
        };
        if read.size_min > read.size_mean || read.size_mean > read.size_max {
            return Err(ParameterError::new(
                "synctest.size_mean",
                "must lie between the smallest and the largest size",
            ));
        }
        Ok(read)
    }

    fn directory_of(&self, task: u32) -> String {
        format!("{FOLDER}/{}", task / self.tasks_per_directory)
    }

    fn make_directories(&self, stage: &Stage) -> Result<(), RunError> {
        let target = stage.target();
        if self.synchronous == Synchronous::Inodes {
            let flags = InodeFlags {
                sync: true,
                ..InodeFlags::default()
            };
            target.set_flags(FOLDER, flags)?;
        }
        for first in (0..self.tasks).step_by(self.tasks_per_directory as usize) {
            target.mkdir(&self.directory_of(first))?;
        }
        // The tasks must not pay for these changes.
        Ok(target.sync()?)
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let files = u64::from(self.tasks) * u64::from(self.files);
        let mut run = stage.run(self.size_max as usize, files);
        self.make_directories(stage)?;
        let tasks = (0..self.tasks)
            .map(|index| Task::new(self, index, run.client(u64::from(index))))
            .collect();
        let tasks = run.crew("work", tasks, Task::work)?;
        let mut verifier = run.quiet_client(u64::MAX);
        let mut written = 0;
        for task in tasks {
            if stage.verifies() {
                task.verify(&mut verifier)?;
            }
            written += task.written;
            run.absorb(task.client);
        }
        let elapsed = run.elapsed();
        let mut outcome = run.finish();
        outcome.totals();
        outcome.rate("files_rate", files, elapsed);
        outcome.rate("write_rate", written, elapsed);
        outcome.count("created", files);
        outcome.count("bytes_written", written);
        Ok(outcome)
    }
}
