//! [`Store`]: the records of a plan, in a file of JSON lines named after the plan's hash.
//!
//! A line is written in one call when its trial has ended, so that a run that is cut off loses the trials that it was in,
//! and no more. A last line without its end is what such a run leaves behind: it is passed over, and the next record begins
//! a line of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::plan::Plan;
use crate::program::Program;
use crate::record::Record;

mod brief;
mod lines;

pub use brief::{Brief, Figures, MachineBrief, MeasuredBrief, ProgramBrief};

/// Where records are kept unless told otherwise.
pub const FOLDER: &str = "lab-results";

/// The records of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    path: PathBuf,
}

/// Why records could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file system said no.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        cause: io::Error,
    },
    /// A line is not a record.
    #[error("{}:{line}: not a record: {cause}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
}

impl Store {
    /// The store of a plan below a folder; nothing is made yet.
    #[must_use]
    pub fn new(folder: &Path, plan: &Plan) -> Self {
        let path = folder
            .join(&plan.name)
            .join(format!("{:016x}.jsonl", plan.hash()));
        Self { path }
    }

    /// The store in a file, whichever plan it is of.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All records, in the order in which they were made; none if there is no file.
    ///
    /// # Errors
    /// If the file cannot be read, or a line before the last is not a record.
    pub fn read(&self) -> Result<Vec<Record>, StoreError> {
        lines::read(&self.path)
    }

    /// What a report needs of all records, in the order in which they were made; none if there is no file.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    pub fn read_briefs(&self) -> Result<Vec<Brief>, StoreError> {
        lines::read(&self.path)
    }

    /// The names of the workloads of all records; none if there is no file.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    pub fn read_workloads(&self) -> Result<BTreeSet<String>, StoreError> {
        let lines: Vec<brief::WorkloadBrief> = lines::read(&self.path)?;
        Ok(lines
            .into_iter()
            .map(|line| line.settings.workload)
            .collect())
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&self, record: &Record) -> Result<(), StoreError> {
        let mut line = serde_json::to_string(record).map_err(|error| self.failed(error.into()))?;
        line.push('\n');
        self.append(&line).map_err(|cause| self.failed(cause))
    }

    fn append(&self, line: &str) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&self.path)?;
        let torn = is_torn(&mut file)?;
        if torn {
            drop_torn_line(&mut file)?;
        }
        file.write_all(line.as_bytes())
    }

    fn failed(&self, cause: io::Error) -> StoreError {
        StoreError::Io {
            path: self.path.clone(),
            cause,
        }
    }
}

/// Whether the last line has no end.
fn is_torn(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != [b'\n'])
}

fn drop_torn_line(file: &mut File) -> io::Result<()> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let kept = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    file.set_len(kept as u64)
}

/// The last record of each trial, by the trial's id.
#[must_use]
pub fn latest(records: Vec<Record>) -> BTreeMap<String, Record> {
    records
        .into_iter()
        .map(|record| (record.trial.clone(), record))
        .collect()
}

/// The records that this very program made, which a run need not repeat.
#[must_use]
pub fn of_this_program(records: Vec<Record>) -> Vec<Record> {
    let program = Program::current();
    records
        .into_iter()
        .filter(|record| record.program == program)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Measured;

    fn plan() -> Plan {
        let text = "[plan]\nname = \"p\"\nquestion = \"?\"\n[fixed]\ndevice = \"sim:atlas-v-18\"\n\
                    [factors]\nfs.commit = [1, 5]\n";
        Plan::parse("p.toml", text).expect("the plan is right")
    }

    fn record(plan: &Plan, index: usize) -> Record {
        let metrics = BTreeMap::from([("elapsed".to_owned(), 0.1 + index as f64)]);
        let measured = Measured {
            metrics,
            ..Measured::default()
        };
        Record::new(plan, &plan.trials()[index], 7, 0.25, measured)
    }

    #[test]
    fn records_come_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = plan();
        let store = Store::new(folder.path(), &plan);
        assert!(store.read().expect("nothing is there yet").is_empty());
        let records = [record(&plan, 0), record(&plan, 1), record(&plan, 0)];
        records
            .iter()
            .for_each(|record| store.add(record).expect("it is written"));
        assert_eq!(store.read().expect("they are read"), records);
        assert_eq!(latest(store.read().expect("they are read")).len(), 2);
        assert_eq!(of_this_program(records.to_vec()).len(), 3);
        let mut foreign = record(&plan, 0);
        foreign.program.fingerprint = "another".to_owned();
        assert!(of_this_program(vec![foreign]).is_empty());
    }

    #[test]
    fn a_torn_last_line_is_passed_over_and_a_wrong_line_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = plan();
        let store = Store::new(folder.path(), &plan);
        store.add(&record(&plan, 0)).expect("it is written");
        let mut text = fs::read_to_string(store.path()).expect("it is there");
        text.push_str("{\"plan\": \"p");
        fs::write(store.path(), &text).expect("it is written");
        assert_eq!(store.read().expect("the first is whole").len(), 1);
        store.add(&record(&plan, 1)).expect("it is written");
        assert_eq!(store.read().expect("both are whole").len(), 2);
        fs::write(store.path(), "{}\n{}\n").expect("it is written");
        let error = store.read().expect_err("these are no records").to_string();
        assert!(error.contains(".jsonl:1: not a record"), "{error}");
    }
}
