//! Power cuts under load: what each data mode keeps, and how long it takes to come back.

use std::sync::Arc;

use lab::runner::{self, NoProgress, RunOptions, RunOutcome};
use lab::{Plan, Progress, Record};

/// Tasks that write small files at a slow pace.
const BASE: &str = r#"
[plan]
name = "cut"
question = "What is left?"
[fixed]
workload = "synctest"
synctest.tasks = 2
synctest.files = 100000
synctest.size_max = "20KiB"
synctest.size_mean = "10KiB"
device = "slice(sim(atlas-v-18,wcache=off),1GiB..1088MiB)"
host = "p4-2.66-2003"
memory.host = "64MiB"
cut.measures = "loss"
cut.after = "12s"
cut.within = "4s"
cut.write_rate = "100KiB"
"#;

/// Runs a plan of one trial.
fn outcome(text: &str) -> RunOutcome {
    let plan = Plan::parse("cut.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions {
        folder: folder.path().to_owned(),
        jobs: 1,
        ..RunOptions::default()
    };
    let progress: Arc<dyn Progress> = Arc::new(NoProgress);
    runner::run(&plan, &options, &progress).unwrap()
}

fn record(text: &str) -> Record {
    let outcome = outcome(text);
    assert_eq!(outcome.failures, []);
    outcome.records[0].clone()
}

/// Runs one trial of the plan with more settings.
fn run(settings: &str) -> Record {
    record(&format!("{BASE}{settings}"))
}

fn metric(record: &Record, name: &str) -> f64 {
    let value = record.metric(name);
    value.unwrap_or_else(|| panic!("no {name}: {:?}", record.measured.metrics))
}

#[test]
fn ordered_data_without_syncs_lose_what_was_not_committed() {
    let record = run("synctest.fsync = false\nfs.data = \"ordered\"\nfs.commit = \"2s\"");
    assert!(
        metric(&record, "lost_bytes") > 0.0,
        "the last second is in memory only"
    );
    assert!(metric(&record, "lost_files") < metric(&record, "files_judged"));
    // A commit interval, and the time of a commit.
    assert!(
        metric(&record, "lost_age") < 3.0,
        "{:?}",
        record.measured.metrics
    );
    assert_eq!(
        metric(&record, "foreign_bytes"),
        0.0,
        "ordered data exposes nothing"
    );
    assert_eq!(metric(&record, "synced_lost_bytes"), 0.0);
    assert!(metric(&record, "replay") > 0.0);
}

#[test]
fn synced_files_survive() {
    for mode in ["ordered", "writeback", "journal"] {
        let record = run(&format!("fs.data = \"{mode}\"\nsynctest.fsync = true"));
        assert_eq!(metric(&record, "synced_lost_bytes"), 0.0, "{mode}");
        // At most the files of the two tasks that are not synced yet.
        let lost = metric(&record, "lost_files");
        assert!(lost <= 2.0, "{mode}: {lost}");
        let judged = metric(&record, "files_judged");
        assert!(judged > 20.0, "{mode}: {judged}");
    }
}

#[test]
fn data_that_are_written_back_later_than_their_names_are_wrong() {
    let writeback = run("synctest.fsync = false\nfs.data = \"writeback\"\nfs.commit = \"2s\"");
    assert!(
        metric(&writeback, "wrong_bytes") > 0.0,
        "{:?}",
        writeback.measured.metrics
    );
    assert!(metric(&writeback, "torn_files") > 0.0);
    let journal = run("synctest.fsync = false\nfs.data = \"journal\"\nfs.commit = \"2s\"");
    assert_eq!(
        metric(&journal, "wrong_bytes"),
        0.0,
        "{:?}",
        journal.measured.metrics
    );
}

#[test]
fn a_drive_may_lose_from_its_cache_what_was_synced_without_barriers() {
    // At some instants the cache holds nothing that was synced.
    let base = BASE
        .replace("wcache=off", "wcache=on")
        .replace("100KiB", "2MiB")
        .replace("[fixed]", "repetitions = 6\n[fixed]");
    let lost = |barrier: bool| -> Vec<f64> {
        let outcome = outcome(&format!(
            "{base}synctest.fsync = true\nfs.barrier = {barrier}"
        ));
        assert_eq!(outcome.failures, []);
        let records = outcome.records.iter();
        records
            .map(|record| metric(record, "synced_lost_bytes"))
            .collect()
    };
    assert_eq!(lost(true), [0.0; 6]);
    let without = lost(false);
    assert!(without.iter().any(|bytes| *bytes > 0.0), "{without:?}");
}

fn recovery(settings: &str) -> Record {
    let base = BASE.replace("\"loss\"", "\"recovery\"");
    record(&format!(
        "{base}cut.files = 700\nsynctest.fsync = true\n{settings}"
    ))
}

#[test]
fn a_replay_and_a_check_take_virtual_time_and_the_same_each_time() {
    let journaled = recovery("");
    assert!(metric(&journaled, "replayed") > 0.0);
    assert_eq!(metric(&journaled, "usable"), metric(&journaled, "replay"));
    assert!(metric(&journaled, "check") > 0.0);
    assert!(metric(&journaled, "files_found") >= 700.0);
    assert_eq!(metric(&journaled, "problems"), 0.0);
    assert_eq!(recovery("").measured, journaled.measured);
    let elsewhere = recovery("journal = \"nvram:4MiB\"");
    assert!(metric(&elsewhere, "replayed") > 0.0);
    let plain = recovery("fs.type = \"ext2\"");
    assert_eq!(metric(&plain, "usable"), metric(&plain, "check"));
    assert!(
        metric(&plain, "problems") > 0.0,
        "without a journal nothing puts it in order"
    );
    let cut = |record| metric(record, "cut_time");
    assert_eq!(
        cut(&plain),
        cut(&journaled),
        "cells are cut at the same instant"
    );
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let device = "slice(sim(atlas-v-18,wcache=off),1GiB..1088MiB)";
    for (from, to, message) in [
        (
            device,
            "mem:64MiB",
            "device: memory of the host cannot have its power cut",
        ),
        (
            device,
            "bbu(sim:atlas-v-18)",
            "device: a controller cannot have its power cut",
        ),
        (
            "cut.measures = \"loss\"\n",
            "",
            "cut.after: there is no power cut; set cut.measures",
        ),
        (
            "cut.after = \"12s\"",
            "cut.after = 0\ncut.within = 0",
            "cut.after: ",
        ),
    ] {
        let text = BASE.replace("cut.within = \"4s\"\n", "").replace(from, to);
        let error = Plan::parse("cut.toml", &text).expect_err(to).to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_workload_that_ends_before_the_cut_is_an_error() {
    let outcome = outcome(&BASE.replace("100000", "3"));
    let failure = format!("{:?}", outcome.failures);
    assert!(failure.contains("before the power cut at"), "{failure}");
}
