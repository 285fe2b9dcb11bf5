//! [`Store`]: the records of a plan, in a file of JSON lines named after the plan's hash.
//!
//! A line is written with a single call when its trial has ended, so that an interrupted run loses
//! only the trials in progress. Such a run may leave a last line without a newline: readers skip
//! it, and the next record starts on a new line. The shared context of a combination is a separate
//! line before the first of its trials.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::plan::{Plan, Shard};
use crate::program::Program;
use crate::record::{Context, Measured, Record};

mod brief;
mod line;
mod lines;
mod merge;

pub use brief::{Brief, Figures, MeasuredBrief};
use line::Entry;
pub use line::Lines;
pub use merge::{Build, MergeError, merge};

/// The default folder of records.
pub const FOLDER: &str = "lab-results";

/// The records of a plan.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    // The contexts that this process has written.
    lines: Mutex<Lines>,
}

/// An error in reading or writing records.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The file system reported an error.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// A line is not a record.
    #[error("{}:{line}: not a record: {}", path.display(), said(cause))]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault.
        cause: serde_json::Error,
    },
    /// A line refers to a context that the file does not have.
    #[error("{}: no line defines the context {name:?}, which records refer to", path.display())]
    NoContext {
        /// The file.
        path: PathBuf,
        /// The context's name.
        name: String,
    },
}

impl Store {
    /// Returns the store of a plan below a folder; creates nothing yet.
    #[must_use]
    pub fn new(folder: &Path, plan: &Plan) -> Self {
        let path = folder
            .join(&plan.name)
            .join(format!("{:016x}.jsonl", plan.hash()));
        Self::at(&path)
    }

    /// Returns the store of a shard of a plan, which is a file of its own.
    #[must_use]
    pub fn of_shard(folder: &Path, plan: &Plan, shard: Shard) -> Self {
        let shard = shard.to_string().replace('/', "-of-");
        let name = format!("{:016x}-{shard}.jsonl", plan.hash());
        Self::at(&folder.join(&plan.name).join(name))
    }

    /// Returns the store in a file, of any plan.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            lines: Mutex::default(),
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folder, and checks that records can be added.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be created or written.
    pub fn prepare(&self) -> Result<(), StoreError> {
        self.append("").map_err(|cause| self.failed(cause))
    }

    /// Returns the number of the last line, if it is incomplete because a run was interrupted.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read.
    pub fn torn_line(&self) -> Result<Option<usize>, StoreError> {
        let look = || -> io::Result<Option<usize>> {
            let mut file = File::open(&self.path)?;
            if !is_torn(&mut file)? {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0))?;
            file.read_to_end(&mut bytes)?;
            let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
            Ok(Some(ends + 1))
        };
        match look() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            result => result.map_err(|cause| self.failed(cause)),
        }
    }

    /// Reads all records, in the order in which they were made; none if there is no file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or a line before the last is not a record.
    pub fn read(&self) -> Result<Vec<Record>, StoreError> {
        lines::read(&self.path)
    }

    /// Reads the parts of all records that a report needs, in the order in which they were made;
    /// none if there is no file.
    ///
    /// # Errors
    /// Fails as [`Store::read`].
    pub fn read_briefs(&self) -> Result<Vec<Brief>, StoreError> {
        lines::read(&self.path)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn add(&self, record: &Record) -> Result<(), StoreError> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let text = lines
            .of(record)
            .map_err(|error| self.failed(error.into()))?;
        self.append(&text).map_err(|cause| self.failed(cause))
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
        // Two processes may run one shard: a line that the other one is writing is not torn.
        file.lock()?;
        if !line.is_empty() && is_torn(&mut file)? {
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

impl lines::Row for Record {
    type Measured = Measured;
}

impl From<(Arc<Context>, Entry<Measured>)> for Record {
    fn from((context, entry): (Arc<Context>, Entry<Measured>)) -> Self {
        Self {
            context,
            repetition: entry.repetition,
            is_warmup: entry.is_warmup,
            seed: entry.seed,
            workload_seed: entry.workload_seed,
            load: entry.load,
            started: entry.started,
            real_seconds: entry.real_seconds,
            measured: entry.measured,
        }
    }
}

/// Returns the fault of a line, without the line number of `serde_json`, whose input is that line
/// only.
fn said(cause: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", cause.line(), cause.column());
    let text = cause.to_string();
    match text.strip_suffix(&place) {
        Some(what) => format!("column {}: {what}", cause.column()),
        None => text,
    }
}

/// Returns true if the last line has no newline.
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

/// Returns the last record of each trial, by the trial's id.
#[must_use]
pub fn latest(records: Vec<Record>) -> BTreeMap<String, Record> {
    records
        .into_iter()
        .map(|record| (record.trial(), record))
        .collect()
}

/// Returns the records that this build of the program makes again, which a run does not repeat.
#[must_use]
pub fn of_this_program(records: Vec<Record>) -> Vec<Record> {
    let program = Program::current();
    records
        .into_iter()
        .filter(|record| record.context.is_of(&program))
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

    /// A line that another process is writing has no newline yet, and is not torn.
    #[test]
    fn a_store_that_another_process_writes_waits() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = plan();
        let store = Store::new(folder.path(), &plan);
        // Made once: the load of the machine is in them.
        let records = [record(&plan, 0), record(&plan, 1)];
        store.add(&records[0]).expect("it is written");
        let whole = fs::read(store.path()).expect("there are records");
        let start = whole.len() - 20;
        let mut other = OpenOptions::new()
            .append(true)
            .open(store.path())
            .expect("it is there");
        other.lock().expect("nobody has it");
        other.set_len(start as u64).expect("half of a line");
        std::thread::scope(|scope| {
            let adding = scope.spawn(|| store.add(&records[1]));
            std::thread::sleep(std::time::Duration::from_millis(100));
            other.write_all(&whole[start..]).expect("the rest");
            other.unlock().expect("it has it");
            adding.join().expect("no panic").expect("it is written");
        });
        assert_eq!(store.read().expect("they are read"), records);
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
        Arc::make_mut(&mut foreign.context).program.fingerprint = "another".to_owned();
        assert_eq!(of_this_program(vec![foreign.clone()]).len(), 1);
        // A result in real time depends on the executable.
        let context = Arc::make_mut(&mut foreign.context);
        let target = "process".to_owned();
        context.settings.insert("target".to_owned(), target);
        assert!(of_this_program(vec![foreign]).is_empty());
        let mut changed = record(&plan, 0);
        Arc::make_mut(&mut changed.context).program.source = "another".to_owned();
        assert!(of_this_program(vec![changed]).is_empty());
    }

    #[test]
    fn figures_come_back_to_the_bit() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = plan();
        let store = Store::new(folder.path(), &plan);
        let mut random = rt::split_mix::SplitMix::new(1);
        let mut figures = record(&plan, 0);
        for number in 0..2000 {
            let value = random.next_u64() as f64 / random.next_u64() as f64;
            let name = format!("figure_{number}");
            figures.measured.metrics.insert(name, value);
        }
        store.add(&figures).expect("it is written");
        assert_eq!(store.read().expect("it is read"), [figures]);
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

    #[test]
    fn what_trials_share_is_written_once_and_must_be_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = plan();
        let store = Store::new(folder.path(), &plan);
        let records = [record(&plan, 0), record(&plan, 1), record(&plan, 0)];
        records
            .iter()
            .for_each(|record| store.add(record).expect("it is written"));
        let text = fs::read_to_string(store.path()).expect("it is there");
        assert_eq!(text.matches("\"settings\"").count(), 2, "{text}");
        let briefs = store.read_briefs().expect("they are read");
        assert_eq!(briefs, records.each_ref().map(Brief::from));
        let rest: Vec<&str> = text.lines().skip(1).collect();
        fs::write(store.path(), rest.join("\n") + "\n").expect("it is written");
        let error = store.read().expect_err("a context is missing").to_string();
        assert!(error.contains("no line defines the context \""), "{error}");
    }

    #[test]
    fn lines_of_old_have_everything_and_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("old.jsonl");
        let line = |repetition: u32| {
            format!(
                "{{\"plan\":\"p\",\"plan_hash\":\"74b5\",\"trial\":\"block=\\\"\\\" fs.commit=\\\"1s\\\" repetition={repetition}\",\
                 \"block\":\"\",\"levels\":{{\"fs.commit\":\"1s\"}},\"repetition\":{repetition},\"is_warmup\":false,\
                 \"seed\":\"88e837ddeb8edfaf\",\"settings\":{{\"workload\":\"postmark\"}},\
                 \"program\":{{\"version\":\"0.1.0\",\"commit\":\"c\",\"fingerprint\":\"f\"}},\
                 \"machine\":{{\"system\":\"linux\",\"architecture\":\"x86_64\",\"processor\":\"x\",\"processors\":2,\
                 \"memory\":1024,\"facts\":{{}},\"load\":4.07}},\"started\":7,\"real_seconds\":0.5,\
                 \"measured\":{{\"metrics\":{{\"elapsed\":1.5}},\"counters\":{{}},\"latencies\":{{}},\
                 \"trace_hash\":null,\"replay\":null}}}}\n"
            )
        };
        fs::write(&path, line(0) + &line(1)).expect("it is written");
        let records = Store::at(&path).read().expect("they are read");
        assert_eq!(records.len(), 2);
        assert_eq!(
            records[1].trial(),
            "block=\"\" fs.commit=\"1s\" repetition=1"
        );
        assert_eq!(
            (records[0].load, records[0].seed),
            (Some(4.07), 0x88e8_37dd_eb8e_dfaf)
        );
        assert!(Arc::ptr_eq(&records[0].context, &records[1].context));
        let briefs = Store::at(&path).read_briefs().expect("they are read");
        assert_eq!(briefs, records.iter().map(Brief::from).collect::<Vec<_>>());
    }
}
