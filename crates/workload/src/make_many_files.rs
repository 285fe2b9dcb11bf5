//! make-many-files: creates a regular tree of equal small files, and removes it.
//!
//! # Origin
//!
//! Two programs of this name. A. Morton's (2001) fills a decimal tree of five levels, the last of
//! files: 10 x 10 x 10 x 10 directories with 10 files of 4096 bytes each, 100,000 files and 11,110
//! directories, run as `(prog; sync)`. Linuxinsight's (2006) creates 405,000 small files in a tree
//! and then removes them; its sizes and fan-out are lost with its graphs.
//!
//! # Choices, and differences from the original
//!
//! - The preset `linuxinsight-405k` is 30 x 30 directories of 450 files of 1 KiB.
//! - Files are written directory by directory, depth first, one write per file, and removed in the
//!   same order, each directory after its files.
//! - Syncs are phases of the run; the original's sync was outside its program's time.
//! - Between the phases one file of each directory is compared with the written data, outside the
//!   measured time.
//! - Several tasks share the directories of the first level.

use std::sync::Arc;

use crate::client::Client;
use crate::contents::{self, PIECE_BYTES_MAX};
use crate::definition::{Definition, Frame, Workload};
use crate::figure::Headline;
use crate::outcome::Outcome;
use crate::parameter::{Parameter, ParameterError, Values};
use crate::run_error::RunError;
use crate::stage::Stage;

/// Definition of the workload.
pub const DEFINITION: Definition = Definition {
    name: FOLDER,
    title: "make-many-files: creates and removes a regular tree of small files",
    parameters: &[
        Parameter::word(
            "make-many-files.preset",
            &["custom", "akpm-100k", "linuxinsight-405k"],
            "tree given by the keys below, or a published one",
        ),
        Parameter::number(
            "make-many-files.fan_out",
            (1, 10_000),
            10,
            "subdirectories per directory",
        ),
        Parameter::number("make-many-files.levels", (1, 16), 4, "directory levels"),
        Parameter::number(
            "make-many-files.files",
            (1, 1_000_000),
            10,
            "files per directory of the last level",
        ),
        Parameter::bytes("make-many-files.size", 4096, "file size in bytes"),
        Parameter::number("make-many-files.tasks", (1, 1024), 1, "number of tasks"),
    ],
    headline: Headline {
        primary: "elapsed",
        shown: &[
            "create_time",
            "create_sync_time",
            "delete_time",
            "delete_sync_time",
            "elapsed",
        ],
    },
    frame: Frame::Common,
    footprint: |_| None,
    read: |values| Ok(Arc::new(Parameters::read(values)?)),
};

const FOLDER: &str = "make-many-files";
/// Maximum number of files of a tree; a larger one is a typing error.
const FILES_MAX: u64 = 100_000_000;

/// Parameters of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Number of subdirectories per directory.
    pub fan_out: u32,
    /// Number of directory levels.
    pub levels: u32,
    /// Number of files in each directory of the last level.
    pub files: u32,
    /// Size of a file in bytes.
    pub size: usize,
    /// Number of tasks that share the directories of the first level.
    pub tasks: u32,
}

impl Parameters {
    fn read(values: &Values) -> Result<Self, ParameterError> {
        let tasks = values.number("make-many-files.tasks");
        let preset = |fan_out, levels, files, size| Self {
            fan_out,
            levels,
            files,
            size,
            tasks,
        };
        let read = match values.text("make-many-files.preset") {
            "akpm-100k" => preset(10, 4, 10, 4096),
            "linuxinsight-405k" => preset(30, 2, 450, 1024),
            _ => preset(
                values.number("make-many-files.fan_out"),
                values.number("make-many-files.levels"),
                values.number("make-many-files.files"),
                values.buffer("make-many-files.size", PIECE_BYTES_MAX as u64)?,
            ),
        };
        match read.file_count() {
            Some(count) if count <= FILES_MAX => Ok(read),
            _ => Err(ParameterError::new(
                "make-many-files.levels",
                format!("the tree would have more than {FILES_MAX} files"),
            )),
        }
    }

    fn file_count(&self) -> Option<u64> {
        let leaves = u64::from(self.fan_out).checked_pow(self.levels)?;
        leaves.checked_mul(u64::from(self.files))
    }
}

impl Workload for Parameters {
    fn run(&self, stage: &Stage) -> Result<Outcome, RunError> {
        let files = self.file_count().unwrap_or(FILES_MAX);
        let mut run = stage.run(self.size, 2 * files);
        let gardeners = (0..self.tasks)
            .map(|task| Gardener {
                client: run.client(u64::from(task)),
                parameters: self.clone(),
                task,
            })
            .collect();
        let gardeners = run.crew("create", gardeners, |g| g.each_branch(Gardener::plant))?;
        run.sync("create sync")?;
        if stage.verifies() {
            let mut verifier = Gardener {
                client: run.quiet_client(u64::MAX),
                parameters: Self {
                    tasks: 1,
                    ..self.clone()
                },
                task: 0,
            };
            verifier.each_branch(Gardener::inspect)?;
        }
        let gardeners = run.crew("delete", gardeners, |g| g.each_branch(Gardener::fell))?;
        run.sync("delete sync")?;
        for gardener in gardeners {
            run.absorb(gardener.client);
        }
        let took = ["create", "create sync", "delete", "delete sync"].map(|name| run.took(name));
        let mut outcome = run.finish();
        outcome.totals();
        let names = [
            "create_time",
            "create_sync_time",
            "delete_time",
            "delete_sync_time",
        ];
        for (name, span) in names.iter().zip(took) {
            outcome.seconds(name, span);
        }
        outcome.rate("create_rate", files, took[0] + took[1]);
        outcome.rate("delete_rate", files, took[2] + took[3]);
        outcome.count("created", files);
        outcome.count("bytes_written", files * self.size as u64);
        Ok(outcome)
    }
}

/// A task that creates, checks or removes its branches of the tree.
struct Gardener {
    client: Client,
    parameters: Parameters,
    task: u32,
}

type Deed = fn(&mut Gardener, directory: &str, level: u32, key: u64) -> Result<(), RunError>;

impl Gardener {
    /// Applies `deed` to this task's directories of the first level.
    fn each_branch(&mut self, deed: Deed) -> Result<(), RunError> {
        for branch in (self.task..self.parameters.fan_out).step_by(self.parameters.tasks as usize) {
            let directory = format!("{FOLDER}/{branch}");
            deed(self, &directory, 1, u64::from(branch))?;
        }
        Ok(())
    }

    /// Applies `deed` to the subdirectories of a directory.
    fn each_below(
        &mut self,
        directory: &str,
        level: u32,
        key: u64,
        deed: Deed,
    ) -> Result<(), RunError> {
        let fan_out = u64::from(self.parameters.fan_out);
        for branch in 0..fan_out {
            let below = format!("{directory}/{branch}");
            deed(self, &below, level + 1, key * fan_out + branch)?;
        }
        Ok(())
    }

    fn is_leaf(&self, level: u32) -> bool {
        level == self.parameters.levels
    }

    fn key(&self, leaf: u64, file: u32) -> u64 {
        contents::key(leaf * u64::from(self.parameters.files) + u64::from(file))
    }

    fn plant(&mut self, directory: &str, level: u32, key: u64) -> Result<(), RunError> {
        self.client.make_directory(directory)?;
        if !self.is_leaf(level) {
            return self.each_below(directory, level, key, Self::plant);
        }
        let size = self.parameters.size;
        for file in 0..self.parameters.files {
            if !self.client.goes_on()? {
                break;
            }
            let (path, key) = (format!("{directory}/{file}"), self.key(key, file));
            self.client.make_file(path, key, size as u64, size)?;
            self.client.advance(1);
        }
        Ok(())
    }

    fn inspect(&mut self, directory: &str, level: u32, key: u64) -> Result<(), RunError> {
        if !self.is_leaf(level) {
            return self.each_below(directory, level, key, Self::inspect);
        }
        let (file, size) = (self.parameters.files - 1, self.parameters.size);
        let (path, key) = (format!("{directory}/{file}"), self.key(key, file));
        self.client.read_file(&path, key, size as u64, size)
    }

    fn fell(&mut self, directory: &str, level: u32, key: u64) -> Result<(), RunError> {
        if self.is_leaf(level) {
            for file in 0..self.parameters.files {
                if !self.client.goes_on()? {
                    break;
                }
                self.client.delete(&format!("{directory}/{file}"))?;
                self.client.advance(1);
            }
        } else {
            self.each_below(directory, level, key, Self::fell)?;
        }
        self.client.remove_directory(directory)
    }
}
