//! [`merge`]: the records of several files of one plan and one build, in one order.
//!
//! The result depends on the set of records only: it is the same for every order and every grouping
//! of the files, and merging a file again changes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Lines, Store, StoreError};
use crate::record::{Context, Record};

/// An error in merging record files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A file could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file has no records.
    #[error("{}: no records", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Two files are of different plans.
    #[error("{}: plan {plan}, but {} is of plan {expected}", path.display(), first.display())]
    Plans {
        /// The file.
        path: PathBuf,
        /// The name and the hash of its plan.
        plan: String,
        /// The first file.
        first: PathBuf,
        /// The name and the hash of its plan.
        expected: String,
    },
    /// Two records are of different builds.
    #[error(
        "{}: made by {own}, but {} by {expected}: figures of different builds are not merged; \
         choose one with `--build`",
        path.display(), first.display()
    )]
    Builds {
        /// The file.
        path: PathBuf,
        /// The build of its records.
        own: Box<Build>,
        /// The first file.
        first: PathBuf,
        /// The build of its records.
        expected: Box<Build>,
    },
    /// Two records of one simulated trial differ, which a build does not do.
    #[error("{}: trial {trial} has other figures than in an earlier file, although the build is the same", path.display())]
    Differs {
        /// The file.
        path: PathBuf,
        /// The id of the trial.
        trial: String,
    },
}

/// A build in an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The hash of its sources or, for results in real time, of its executable.
    pub hash: String,
    /// The commit.
    pub commit: String,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "build {} of commit {}", self.hash, self.commit)
    }
}

/// Returns the records of files, each trial once, in the order of their ids. The order of the files
/// makes no difference: of several records of a trial the one that began last counts. With `build`,
/// the records of other builds are passed over; a build is named by its first digits.
///
/// # Errors
/// - [`MergeError::Plans`] and [`MergeError::Builds`] if the files do not belong together.
/// - [`MergeError::Differs`] if a simulated trial gave two results.
/// - [`MergeError::Store`] if a file cannot be read.
pub fn merge(files: &[PathBuf], build: Option<&str>) -> Result<Vec<Record>, MergeError> {
    let mut merged: BTreeMap<String, Record> = BTreeMap::new();
    let mut firsts = Firsts::default();
    for path in files {
        if !path.exists() {
            let (path, cause) = (path.clone(), io::ErrorKind::NotFound.into());
            return Err(StoreError::Io { path, cause }.into());
        }
        let mut records = Store::at(path).read()?;
        if records.is_empty() {
            return Err(MergeError::Empty { path: path.clone() });
        }
        if let Some(build) = build {
            records.retain(|record| record.context.build().starts_with(build));
        }
        for record in records {
            firsts.check(&record.context, path)?;
            add(&mut merged, record, path)?;
        }
    }
    Ok(merged.into_values().collect())
}

/// The first context of simulated trials, and of those in real time, each with its file.
#[derive(Default)]
struct Firsts(BTreeMap<bool, (PathBuf, Arc<Context>)>);

impl Firsts {
    /// Checks that a context belongs to the records before it.
    fn check(&mut self, context: &Arc<Context>, path: &Path) -> Result<(), MergeError> {
        for (is_simulated, (first, expected)) in &self.0 {
            if Arc::ptr_eq(context, expected) {
                return Ok(());
            }
            let plan = |own: &Context| format!("{} ({})", own.plan, own.plan_hash);
            if plan(context) != plan(expected) {
                return Err(MergeError::Plans {
                    path: path.to_owned(),
                    plan: plan(context),
                    first: first.clone(),
                    expected: plan(expected),
                });
            }
            // What both kinds have in common are the sources.
            let build = |own: &Context| {
                let hash = match *is_simulated == context.is_simulated() {
                    true => own.build(),
                    // The sources are what simulated trials and real ones have in common.
                    false => own.program.build(),
                };
                let (hash, commit) = (hash.to_owned(), own.program.commit.clone());
                Box::new(Build { hash, commit })
            };
            let (own, expected) = (build(context), build(expected));
            if own.hash != expected.hash {
                return Err(MergeError::Builds {
                    path: path.to_owned(),
                    own,
                    first: first.clone(),
                    expected,
                });
            }
        }
        let own = || (path.to_owned(), Arc::clone(context));
        self.0.entry(context.is_simulated()).or_insert_with(own);
        Ok(())
    }
}

fn add(
    merged: &mut BTreeMap<String, Record>,
    record: Record,
    path: &Path,
) -> Result<(), MergeError> {
    let trial = record.trial();
    if let Some(other) = merged.get(&trial) {
        let is_simulated = record.context.is_simulated();
        if is_simulated && record.measured != other.measured {
            let path = path.to_owned();
            return Err(MergeError::Differs { path, trial });
        }
        if !is_later(&record, other) {
            return Ok(());
        }
    }
    merged.insert(trial, record);
    Ok(())
}

/// Returns true if a record of a trial counts and the other one does not, in whatever order they
/// come: the later one; of two with the same times, the one with the greater text.
fn is_later(record: &Record, other: &Record) -> bool {
    let age = |own: &Record| (own.started, own.real_seconds.to_bits());
    if age(record) != age(other) {
        return age(record) > age(other);
    }
    record != other && text(record) > text(other)
}

/// Returns the lines of a record alone.
fn text(record: &Record) -> String {
    // A record that was read can be written.
    Lines::default().of(record).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::record::Measured;

    const PLAN: &str = "[plan]\nname = \"p\"\nquestion = \"?\"\n[fixed]\ndevice = \"sim:atlas-v-18\"\n\
                        [factors]\nfs.commit = [1, 5, 30]\n";

    fn record(plan: &Plan, index: usize, started: u64, value: f64) -> Record {
        let mut measured = Measured {
            trace_hash: Some("0".to_owned()),
            ..Measured::default()
        };
        measured.metrics.insert("elapsed".to_owned(), value);
        Record::new(plan, &plan.trials()[index], started, 1.0, measured)
    }

    fn file(folder: &Path, name: &str, records: &[Record]) -> PathBuf {
        let path = folder.join(name);
        let store = Store::at(&path);
        records
            .iter()
            .for_each(|record| store.add(record).expect("there is room"));
        path
    }

    /// Merges files to a new one, and returns its path and contents.
    fn merged(folder: &Path, name: &str, files: &[&PathBuf]) -> (PathBuf, String) {
        let files: Vec<PathBuf> = files.iter().map(|path| (*path).clone()).collect();
        let records = merge(&files, None).expect("they belong together");
        let path = file(folder, name, &records);
        let text = std::fs::read_to_string(&path).expect("it is there");
        (path, text)
    }

    /// Three files that share trials: with the same time, with another, and from another machine.
    fn overlapping(folder: &Path) -> [PathBuf; 3] {
        let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
        let elsewhere = |index, started, processors| {
            let mut record = record(&plan, index, started, 1.0 / 3.0);
            Arc::make_mut(&mut record.context).machine.processors = processors;
            record
        };
        [
            file(folder, "a", &[elsewhere(2, 1, 3), elsewhere(0, 2, 3)]),
            file(folder, "b", &[elsewhere(1, 1, 5), elsewhere(0, 9, 5)]),
            file(folder, "c", &[elsewhere(2, 1, 7), elsewhere(0, 9, 7)]),
        ]
    }

    #[test]
    fn order_and_grouping_of_files_make_no_difference() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let [a, b, c] = &overlapping(folder);
        let (all, expected) = merged(folder, "abc", &[a, b, c]);
        let orders = [[a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]];
        for (number, order) in orders.iter().enumerate() {
            let name = format!("order {number}");
            assert_eq!(merged(folder, &name, order).1, expected, "{name}");
        }
        for (number, [one, two, three]) in orders.into_iter().enumerate() {
            let pair = merged(folder, &format!("pair {number}"), &[one, two]).0;
            let name = format!("grouping {number}");
            assert_eq!(merged(folder, &name, &[&pair, three]).1, expected, "{name}");
            let name = format!("grouping from the right {number}");
            assert_eq!(merged(folder, &name, &[three, &pair]).1, expected, "{name}");
        }
        let again = merged(folder, "again", &[&all, &all]);
        assert_eq!(again.1, expected, "nothing changes");
        assert_eq!(merged(folder, "part", &[&again.0, b]).1, expected);
        let records = merge(&[all], None).expect("it is whole");
        let started: Vec<_> = records.iter().map(|own| own.started).collect();
        assert_eq!(started.len(), 3);
        assert!(started.contains(&9) && !started.contains(&2));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
        let other = Plan::parse("p.toml", &PLAN.replace("30", "31")).expect("the plan is right");
        let a = file(folder.path(), "a", &[record(&plan, 0, 1, 1.0)]);
        let b = file(folder.path(), "b", &[record(&other, 0, 1, 1.0)]);
        let c = file(folder.path(), "c", &[record(&plan, 0, 1, 1.5)]);
        let mut changed = record(&plan, 1, 1, 1.0);
        let program = &mut Arc::make_mut(&mut changed.context).program;
        program.source = "another".to_owned();
        program.fingerprint = "executable".to_owned();
        let d = file(folder.path(), "d", std::slice::from_ref(&changed));
        let missing = folder.path().join("missing");
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "").expect("it is written");
        let said = |other: &Path| {
            let merged = merge(&[a.clone(), other.to_owned()], None);
            merged.expect_err("they do not belong together").to_string()
        };
        assert!(said(&b).contains("is of plan p ("), "{}", said(&b));
        assert!(said(&c).contains("has other figures"), "{}", said(&c));
        assert!(said(&d).contains("made by build another"), "{}", said(&d));
        assert!(said(&empty).ends_with("empty: no records"));
        assert!(said(&missing).contains("missing: "), "{}", said(&missing));
        let chosen = merge(&[a, d], Some("ano")).expect("the other one is passed over");
        assert_eq!(chosen, [changed]);
    }

    #[test]
    fn builds_are_told_apart_by_sources_and_in_real_time_by_executables() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
        let of = |index, target: &str, fingerprint: &str| {
            let mut record = record(&plan, index, 1, 1.0);
            let context = Arc::make_mut(&mut record.context);
            context.program.fingerprint = fingerprint.to_owned();
            context.program.commit = format!("commit of {fingerprint}");
            let target = target.to_owned();
            context.settings.insert("target".to_owned(), target);
            record
        };
        let said = |name: &str, records: &[Record]| {
            let path = file(folder.path(), name, records);
            merge(&[path], None).map(|merged| merged.len())
        };
        let simulated = [of(0, "simulated", "glibc"), of(1, "simulated", "static")];
        assert_eq!(said("simulated", &simulated).ok(), Some(2));
        let real = [of(0, "process", "glibc"), of(1, "process", "static")];
        assert!(said("real", &real).is_err());
        let mixed = [of(0, "simulated", "glibc"), of(1, "process", "static")];
        assert_eq!(said("mixed", &mixed).ok(), Some(2));
    }
}
