//! fs_mark: creates, writes and syncs files by one of seven methods, in loops.
//!
//! # Origin
//!
//! R. Wheeler's fs_mark 3.x (2003 to 2016). A loop creates `-n` files of `-s` bytes in each of the
//! threads' directories, by writes of `-w` bytes, then removes them. Before each file it creates
//! the file's directory, which nearly always exists; that call is part of the loop's time and of
//! the overhead. The sync method `-S`: 0 none; 1 fsync before each close (the default); 2 a sync of
//! everything and an fsync of each thread's first file, after the loop; 3 open and fsync every file
//! again, the last first; 4 as 3 after a sync of everything; 5 as 3 in the order of creation; 6 as
//! 5 after a sync.
//!
//! # Figures
//!
//! `files_rate` is files over the time of the loops, including the syncs after them but not the
//! removal, as in the original; `overhead` is the part of that time outside file operations. The
//! original's minimum, average and maximum per operation are the latencies here, with percentiles.
//!
//! # Differences from the original
//!
//! - Threads are threads, not processes, and share one clock.
//! - Names have the original's length, 40, and 24 random characters, but a sequence number in place
//!   of process time stamps.
//! - With subdirectories, files go to the next one after [`Parameters::files_per_subdirectory`]
//!   files, round robin. The original's other mode, a change every 180 s, depends on the clock and
//!   is omitted.
//! - The contents are checked before the removal, outside the measured time.

mod writer;

use std::sync::Arc;

use crate::contents::PIECE_BYTES_MAX;
use crate::definition::{Definition, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::Stage;

use writer::Writer;

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "fs_mark: creates files and syncs them by one of seven methods",
    parameters: &[
        Parameter::number("fs_mark.threads", (1, 1024), 1, "threads (-t)"),
        Parameter::number(
            "fs_mark.directories",
            (0, 1024),
            0,
            "number of directories for the threads (-d); 0 for one per thread",
        ),
        Parameter::number(
            "fs_mark.subdirectories",
            (0, 100_000),
            0,
            "subdirectories per directory (-D)",
        ),
        Parameter::number(
            "fs_mark.files_per_subdirectory",
            (1, 1_000_000),
            1,
            "files in a subdirectory before the next one is used (-N)",
        ),
        Parameter::number(
            "fs_mark.files",
            (1, 10_000_000),
            1000,
            "files per thread and loop (-n)",
        ),
        Parameter::bytes("fs_mark.size", 51_200, "file size in bytes (-s)"),
        Parameter::bytes("fs_mark.write", 16_384, "bytes per write (-w)"),
        Parameter::number(
            "fs_mark.name_length",
            (30, 255),
            40,
            "length of a file name in characters (-p)",
        ),
        Parameter::number("fs_mark.sync", (0, 6), 1, "sync method (-S)"),
        Parameter::number("fs_mark.loops", (1, 10_000), 1, "number of loops (-L)"),
        Parameter::switch(
            "fs_mark.keep",
            false,
            "whether files are kept until the end (-k)",
        ),
    ],
    headline: Headline {
        primary: "files_rate",
        shown: &[
            "files_rate",
            "write_rate",
            "overhead",
            "delete_time",
            "elapsed",
        ],
    },
    frame: Frame::Common,
    footprint: |_| None,
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "fs_mark";

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Number of threads.
    pub threads: u32,
    /// Number of directories for the threads, at most one per thread.
    pub directories: u32,
    /// Number of subdirectories per directory.
    pub subdirectories: u32,
    /// Number of files created in one subdirectory before the next.
    pub files_per_subdirectory: u32,
    /// Number of files per thread and loop.
    pub files: u32,
    /// Size of a file in bytes.
    pub size: u64,
    /// Bytes per write.
    pub write: usize,
    /// Length of a name in characters.
    pub name_length: usize,
    /// Sync method.
    pub sync: SyncMethod,
    /// Number of loops.
    pub loops: u32,
    /// True to keep the files of a loop until the end.
    pub keep: bool,
}

/// A method to sync files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncMethod {
    /// Sync each file before its close (1).
    pub in_place: bool,
    /// Sync everything after the loop (2, 4, 6).
    pub everything: bool,
    /// Files to open and sync again after that.
    pub after: SyncAfter,
}

/// Files to open and sync again after a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncAfter {
    /// None.
    None,
    /// The first file of each thread (2).
    First,
    /// All files, the last one first (3, 4).
    Backwards,
    /// All files, in order of creation (5, 6).
    Forwards,
}

impl SyncMethod {
    /// Returns the method of this number, 0 to 6.
    #[must_use]
    pub const fn numbered(number: u32) -> Self {
        Self {
            in_place: number == 1,
            everything: matches!(number, 2 | 4 | 6),
            after: match number {
                2 => SyncAfter::First,
                3 | 4 => SyncAfter::Backwards,
                5 | 6 => SyncAfter::Forwards,
                _ => SyncAfter::None,
            },
        }
    }
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let threads = values.number("fs_mark.threads");
        let directories = match values.number("fs_mark.directories") {
            0 => threads,
            said if said <= threads => said,
            said => {
                let message = format!("{said} are more than the threads, {threads}");
                return Err(ParameterError::new("fs_mark.directories", message));
            }
        };
        Ok(Self {
            threads,
            directories,
            subdirectories: values.number("fs_mark.subdirectories"),
            files_per_subdirectory: values.number("fs_mark.files_per_subdirectory"),
            files: values.number("fs_mark.files"),
            size: values.bytes("fs_mark.size"),
            write: values.buffer("fs_mark.write", PIECE_BYTES_MAX as u64)?,
            name_length: values.number("fs_mark.name_length") as usize,
            sync: SyncMethod::numbered(values.number("fs_mark.sync")),
            loops: values.number("fs_mark.loops"),
            keep: values.switch("fs_mark.keep"),
        })
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let files = u64::from(self.threads) * u64::from(self.files) * u64::from(self.loops);
        let mut run = stage.run(self.write, files);
        let mut writers = (0..self.threads)
            .map(|thread| Writer::new(self, thread, run.client(u64::from(thread))))
            .collect::<Vec<_>>();
        for writer in &mut writers {
            writer.make_directory()?;
        }
        let mut verifier = run.quiet_client(u64::MAX);
        for _ in 0..self.loops {
            writers = run.crew("write", writers, Writer::work)?;
            if stage.verifies() {
                for writer in &writers {
                    writer.verify(&mut verifier)?;
                }
            }
            if !self.keep {
                writers = run.crew("unlink", writers, Writer::unlink)?;
            }
        }
        let (mut overhead, took) = (rt::Nanos::ZERO, run.took("write"));
        for writer in writers {
            overhead += writer.overhead;
            run.absorb(writer.client);
        }
        let unlink = run.took("unlink");
        let mut outcome = run.finish();
        outcome.totals();
        outcome.seconds("create_time", took);
        outcome.seconds("delete_time", unlink);
        outcome.seconds("overhead", overhead);
        outcome.rate("files_rate", files, took);
        outcome.rate("write_rate", files * self.size, took);
        outcome.count("created", files);
        outcome.count("bytes_written", files * self.size);
        Ok(outcome)
    }
}
