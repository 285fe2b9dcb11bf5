//! [`merge`]: the records of several files of one plan and one build, in one order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Store, StoreError};
use crate::program::Program;
use crate::record::Record;

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
    /// Two files are of different builds.
    #[error(
        "{}: made by build {} of commit {}, but {} by build {} of commit {}: figures of different builds are not merged",
        path.display(), program.fingerprint, program.commit, first.display(), expected.fingerprint, expected.commit
    )]
    Programs {
        /// The file.
        path: PathBuf,
        /// The program of its records.
        program: Box<Program>,
        /// The first file.
        first: PathBuf,
        /// The program of its records.
        expected: Box<Program>,
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

/// Returns the records of files, each trial once, in the order of their ids. The order of the files
/// makes no difference: of several records of a real trial the one that began last counts.
///
/// # Errors
/// - [`MergeError::Plans`] and [`MergeError::Programs`] if the files do not belong together.
/// - [`MergeError::Differs`] if a simulated trial gave two results.
/// - [`MergeError::Store`] if a file cannot be read.
pub fn merge(files: &[PathBuf]) -> Result<Vec<Record>, MergeError> {
    let mut merged: BTreeMap<String, Record> = BTreeMap::new();
    let mut first: Option<(&Path, String, Program)> = None;
    for path in files {
        let records = Store::at(path).read()?;
        if records.is_empty() {
            return Err(MergeError::Empty { path: path.clone() });
        }
        for record in records {
            let context = &record.context;
            let plan = format!("{} ({})", context.plan, context.plan_hash);
            let (first, expected_plan, expected) =
                first.get_or_insert_with(|| (path, plan.clone(), context.program.clone()));
            let first = first.to_owned();
            if plan != *expected_plan {
                return Err(MergeError::Plans {
                    path: path.clone(),
                    plan,
                    first,
                    expected: expected_plan.clone(),
                });
            }
            if context.program != *expected {
                return Err(MergeError::Programs {
                    path: path.clone(),
                    program: Box::new(context.program.clone()),
                    first,
                    expected: Box::new(expected.clone()),
                });
            }
            add(&mut merged, record, path)?;
        }
    }
    Ok(merged.into_values().collect())
}

fn add(
    merged: &mut BTreeMap<String, Record>,
    record: Record,
    path: &Path,
) -> Result<(), MergeError> {
    let trial = record.trial();
    if let Some(other) = merged.get(&trial) {
        let is_simulated = record.measured.trace_hash.is_some();
        if is_simulated && record.measured != other.measured {
            let path = path.to_owned();
            return Err(MergeError::Differs { path, trial });
        }
        if age(&record) <= age(other) {
            return Ok(());
        }
    }
    merged.insert(trial, record);
    Ok(())
}

/// Returns what orders the records of one trial, whichever file they come from.
fn age(record: &Record) -> (u64, u64) {
    (record.started, record.real_seconds.to_bits())
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

    #[test]
    fn the_order_of_files_makes_no_difference() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
        let a = file(
            folder.path(),
            "a",
            &[record(&plan, 2, 1, 3.0), record(&plan, 0, 2, 1.0)],
        );
        let b = file(
            folder.path(),
            "b",
            &[record(&plan, 1, 1, 2.0), record(&plan, 0, 9, 1.0)],
        );
        let merged = merge(&[a.clone(), b.clone()]).expect("they belong together");
        assert_eq!(merged, merge(&[b, a]).expect("they belong together"));
        let values: Vec<_> = merged.iter().map(|own| own.metric("elapsed")).collect();
        assert_eq!(values.len(), 3);
        assert!(merged.iter().any(|own| own.started == 9));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let plan = Plan::parse("p.toml", PLAN).expect("the plan is right");
        let other = Plan::parse("p.toml", &PLAN.replace("30", "31")).expect("the plan is right");
        let a = file(folder.path(), "a", &[record(&plan, 0, 1, 1.0)]);
        let b = file(folder.path(), "b", &[record(&other, 0, 1, 1.0)]);
        let c = file(folder.path(), "c", &[record(&plan, 0, 1, 1.5)]);
        let mut elsewhere = record(&plan, 1, 1, 1.0);
        let mut context = (*elsewhere.context).clone();
        context.program.fingerprint = "another".to_owned();
        elsewhere.context = context.into();
        let d = file(folder.path(), "d", &[elsewhere]);
        let missing = folder.path().join("missing");
        let said = |other: &Path| {
            let merged = merge(&[a.clone(), other.to_owned()]);
            merged.expect_err("they do not belong together").to_string()
        };
        assert!(said(&b).contains("is of plan p ("), "{}", said(&b));
        assert!(said(&c).contains("has other figures"), "{}", said(&c));
        assert!(said(&d).contains("made by build another"), "{}", said(&d));
        assert!(
            said(&missing).ends_with("missing: no records"),
            "{}",
            said(&missing)
        );
    }
}
