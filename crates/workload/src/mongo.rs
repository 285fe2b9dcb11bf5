//! Mongo: creates, copies, links, reads, stats, renames and removes trees of files with very
//! different sizes.
//!
//! # Origin
//!
//! `mongo.pl` of Namesys (H. Reiser and others), in the edition of 2000 that the Linux Test Project
//! kept. For a median file size it runs seven phases, each [`Parameters::repetitions`] times, each
//! repetition with one tree per process. A phase's time is the sum over the repetitions, and a
//! `sync` follows it outside that time. The original's medians are 100, 1000, 10,000 and 100,000
//! bytes with 50 MiB per tree for the smallest and 100 MiB for the others. Here one run is one
//! median, and a plan's factor gives the four.
//!
//! | phase | operations |
//! |---|---|
//! | create | create files until the tree has its bytes |
//! | copy | `cp -r` of the tree |
//! | symlinks | a symbolic link `X.lnk` beside every file `X` of the first tree |
//! | read | read every regular file of both trees |
//! | stat | stat every name of both trees |
//! | rename | rename every file `X` of the first tree to `X.r` |
//! | delete | remove both trees |
//!
//! `fragmentation` and `copy_fragmentation` are extents per file, over regular files above 16 KiB,
//! from the file system's own block maps after the phases create and copy; 1 is contiguous.
//! `bytes_allocated` is the space of both.
//!
//! # Choices, and differences from the original
//!
//! - Sizes are `median * x / (1 - x)` for a uniform `x`, drawn again if above
//!   [`Parameters::file_max`]: half of them are below the median and the tail is heavy. The number
//!   of files in a directory has the same distribution, with median 100 and maximum 10,000. The
//!   original's branching has the median 0, so all directories are directly below the tree's root.
//! - Processes are tasks of one process. `mkfs` and `mount` before a set are up to the plan: every
//!   trial has a new file system.
//! - A failed phase of the original counted as no time at all; here it fails the run.
//! - A target without block maps (a directory of the host) reports no fragmentation.

mod gang;

use std::sync::Arc;

use rt::Nanos;

use crate::definition::{Definition, Frame, Workload};
use crate::error::ErrorKind;
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run::Run;
use crate::run_error::RunError;
use crate::stage::Stage;

use gang::{Process, Tree};

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "Mongo: trees created, copied, linked, read, statted, renamed and removed",
    parameters: &[
        Parameter::bytes("mongo.median", 1000, "median file size in bytes"),
        Parameter::bytes("mongo.bytes", 100 << 20, "tree size in bytes"),
        Parameter::bytes("mongo.file_max", 1_000_000, "maximum file size in bytes"),
        Parameter::number(
            "mongo.processes",
            (1, 1000),
            1,
            "concurrent trees, one task each",
        ),
        Parameter::number(
            "mongo.repetitions",
            (1, 100),
            3,
            "repetitions of each phase",
        ),
        Parameter::number(
            "mongo.directory_median",
            (1, 1_000_000),
            100,
            "median number of files per directory",
        ),
        Parameter::number(
            "mongo.directory_max",
            (1, 1_000_000),
            10_000,
            "maximum number of files per directory",
        ),
        Parameter::bytes("mongo.buffer", 4096, "bytes per read and write"),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &[
            "create_time",
            "copy_time",
            "read_time",
            "delete_time",
            "fragmentation",
            "elapsed",
        ],
    },
    frame: Frame::Common,
    footprint: |_| None,
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "mongo";
const BUFFER_MAX: u64 = 1 << 20;
/// Files up to this size do not count for the fragmentation.
const FRAGMENTED_FROM: u64 = 16 << 10;

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Median of file sizes in bytes.
    pub median: u64,
    /// Size of a tree in bytes.
    pub bytes: u64,
    /// Maximum size of a file in bytes.
    pub file_max: u64,
    /// Number of concurrent trees, one task each.
    pub processes: u32,
    /// Number of repetitions of each phase.
    pub repetitions: u32,
    /// Median of the number of files in a directory.
    pub directory_median: u32,
    /// Maximum number of files in a directory.
    pub directory_max: u32,
    /// Bytes per read and write.
    pub buffer: usize,
}

/// A phase: its name, its figure, and its function.
struct Step {
    name: &'static str,
    figure: &'static str,
    work: fn(&mut Process, &mut Tree) -> Result<(), RunError>,
}

const STEPS: [Step; 7] = [
    Step {
        name: "create",
        figure: "create_time",
        work: Process::create,
    },
    Step {
        name: "copy",
        figure: "copy_time",
        work: Process::copy,
    },
    Step {
        name: "symlinks",
        figure: "symlink_time",
        work: Process::link,
    },
    Step {
        name: "read",
        figure: "read_time",
        work: Process::read,
    },
    Step {
        name: "stat",
        figure: "stat_time",
        work: Process::stat,
    },
    Step {
        name: "rename",
        figure: "rename_time",
        work: Process::rename,
    },
    Step {
        name: "delete",
        figure: "delete_time",
        work: Process::delete,
    },
];

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let read = Self {
            median: values.bytes("mongo.median"),
            bytes: values.bytes("mongo.bytes"),
            file_max: values.bytes("mongo.file_max"),
            processes: values.number("mongo.processes"),
            repetitions: values.number("mongo.repetitions"),
            directory_median: values.number("mongo.directory_median"),
            directory_max: values.number("mongo.directory_max"),
            buffer: values.buffer("mongo.buffer", BUFFER_MAX)?,
        };
        if read.median == 0 || read.median > read.file_max {
            return Err(ParameterError::new(
                "mongo.median",
                "must lie between 1 and the largest size",
            ));
        }
        if read.directory_median > read.directory_max {
            return Err(ParameterError::new(
                "mongo.directory_median",
                "must not be above the largest number",
            ));
        }
        Ok(read)
    }

    /// Runs all repetitions of one phase, and the sync after it.
    fn step(
        &self,
        run: &mut Run,
        step: &Step,
        processes: Vec<Process>,
    ) -> Result<Vec<Process>, RunError> {
        let mut processes = processes;
        for repetition in 0..self.repetitions as usize {
            let work = step.work;
            processes = run.crew(step.name, processes, move |process| {
                process.in_tree(repetition, work)
            })?;
        }
        run.sync("sync")?;
        Ok(processes)
    }
}

/// Extents and number of the files that count for the fragmentation.
#[derive(Default)]
struct Fragmentation {
    files: u64,
    extents: u64,
}

impl Fragmentation {
    /// Returns the extents per file of these files, or none if the target cannot report extents.
    fn of(stage: &Stage, paths: impl Iterator<Item = String>) -> Result<Option<f64>, RunError> {
        let mut all = Self::default();
        for path in paths {
            match stage.target().extents(&path) {
                Ok(extents) => {
                    all.files += 1;
                    all.extents += extents.len() as u64;
                }
                Err(error) if error.kind == ErrorKind::Unsupported => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((all.files > 0).then(|| all.extents as f64 / all.files as f64))
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let trees = u64::from(self.processes) * u64::from(self.repetitions);
        let mut run = stage.run(self.buffer, trees * STEPS.len() as u64);
        let mut processes: Vec<_> = (0..self.processes)
            .map(|index| Process::new(self, index, run.client(u64::from(index))))
            .collect();
        let (mut made, mut copied) = (None, None);
        let (mut files, mut bytes, mut allocated) = (0, 0, 0);
        for step in &STEPS {
            processes = self.step(&mut run, step, processes)?;
            let large = |suffix: &'static str| {
                let trees = processes.iter().flat_map(|process| &process.trees);
                trees.flat_map(move |tree| tree.larger_than(FRAGMENTED_FROM, suffix))
            };
            match step.name {
                "create" => made = Fragmentation::of(stage, large(gang::FIRST))?,
                "copy" => {
                    copied = Fragmentation::of(stage, large(gang::SECOND))?;
                    for process in &mut processes {
                        let counted = process.count()?;
                        files += counted.files;
                        bytes += counted.bytes;
                        allocated += counted.allocated;
                    }
                }
                _ => {}
            }
        }
        for process in processes {
            run.absorb(process.into_client());
        }
        let sync: Nanos = run.took("sync");
        let took = STEPS.map(|step| (step.figure, run.took(step.name)));
        let mut outcome = run.finish();
        outcome.totals();
        for (figure, span) in took {
            outcome.seconds(figure, span);
        }
        outcome.seconds("sync_time", sync);
        for (figure, value) in [("fragmentation", made), ("copy_fragmentation", copied)] {
            if let Some(value) = value {
                outcome.figure(figure, value);
            }
        }
        outcome.count("created", files);
        outcome.count("bytes_written", 2 * bytes);
        outcome.count("bytes_allocated", allocated);
        Ok(outcome)
    }
}
