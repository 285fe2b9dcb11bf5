//! Runs, resumes and reports plans.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lab::plan::Trial;
use lab::runner::{self, NoProgress, RunOptions, RunOutcome, Stop};
use lab::{Plan, Progress, Record, Report};

const SMALL: &str = r#"
[plan]
name = "small"
question = "Does it run?"
[fixed]
device = "slice(sim:atlas-v-18,1GiB..1100MiB)"
host = "p4-2.66-2003"
memory.host = "64MiB"
postmark.number = 100
postmark.transactions = 400
postmark.final_sync = "end"
postmark.latencies = true
[factors]
journal = ["internal", { label = "NVRAM", value = "nvram:8MiB" }]
fs.data = ["ordered", "journal", "writeback"]
[baseline]
journal = "internal"
"#;

fn plan(text: &str) -> Plan {
    Plan::parse("small.toml", text).unwrap_or_else(|error| panic!("{error}"))
}

fn run_with(plan: &Plan, folder: &Path, progress: Arc<dyn Progress>, fresh: bool) -> RunOutcome {
    let options = RunOptions {
        folder: folder.to_owned(),
        jobs: 2,
        fresh,
        ..RunOptions::default()
    };
    let outcome = runner::run(plan, &options, &progress).unwrap();
    assert_eq!(outcome.failures, []);
    outcome
}

fn run(plan: &Plan, folder: &Path) -> RunOutcome {
    run_with(plan, folder, Arc::new(NoProgress), false)
}

#[derive(Default)]
struct Count {
    started: AtomicUsize,
    ended: AtomicUsize,
}

impl Progress for Count {
    fn started(&self, _number: usize, _trial: &Trial) {
        self.started.fetch_add(1, Ordering::SeqCst);
    }

    fn ended(&self, _number: usize, _trial: &Trial, result: Result<&Record, &str>) {
        assert!(result.is_ok(), "{result:?}");
        self.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn simulated_trials_are_the_same_each_time_and_are_not_repeated() {
    let (plan, one, two) = (
        plan(SMALL),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let first = run(&plan, one.path());
    assert_eq!((first.run, first.recorded, first.records.len()), (6, 0, 6));
    let again = run(&plan, one.path());
    assert_eq!((again.run, again.recorded), (0, 6));
    let fresh = run(&plan, two.path());
    for (a, b) in first.records.iter().zip(&fresh.records) {
        assert_eq!(a.measured, b.measured, "{}", a.trial());
        assert!(a.measured.trace_hash.is_some());
    }
    let text = |records: &[Record]| Report::new(&plan, records).text(true);
    assert_eq!(text(&first.records), text(&fresh.records));
    assert_eq!(text(&first.records), text(&again.records));
    let read = runner::recorded(&plan, one.path());
    assert_eq!(read.unwrap(), first.records);
}

#[test]
fn a_run_that_was_cut_off_goes_on_where_it_was() {
    let (plan, folder) = (plan(SMALL), tempfile::tempdir().unwrap());
    let outcome = run(&plan, folder.path());
    let text = fs::read_to_string(&outcome.path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // Each trial has its own line, and each combination a line with its context.
    let torn = format!(
        "{}\n{}",
        lines[..4].join("\n"),
        &lines[4][..lines[4].len() / 2]
    );
    fs::write(&outcome.path, torn).unwrap();
    let count = Arc::new(Count::default());
    let watcher: Arc<dyn Progress> = Arc::<Count>::clone(&count);
    let resumed = run_with(&plan, folder.path(), watcher, false);
    assert_eq!(
        (resumed.run, resumed.recorded, resumed.records.len()),
        (4, 2, 6)
    );
    assert_eq!(
        (
            count.started.load(Ordering::SeqCst),
            count.ended.load(Ordering::SeqCst)
        ),
        (4, 4)
    );
    let measured = |outcome: &RunOutcome| -> Vec<_> {
        outcome
            .records
            .iter()
            .map(|record| record.measured.clone())
            .collect()
    };
    assert_eq!(measured(&resumed), measured(&outcome));
}

#[test]
fn a_timeline_shows_all_that_was_counted_and_changes_nothing() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let with = run(&plan(SMALL), one.path());
    let silent = SMALL.replace("[factors]", "timeline = \"never\"\n[factors]");
    let without = run(&plan(&silent), two.path());
    assert_eq!(
        run(&plan(&silent), one.path()).run,
        0,
        "it is the same plan"
    );
    for (with, without) in with.records.iter().zip(&without.records) {
        assert_eq!(with.measured.trace_hash, without.measured.trace_hash);
        assert_eq!(with.measured.metrics, without.measured.metrics);
        assert_eq!(without.measured.timeline, None);
        let timeline = with.measured.timeline.as_ref().unwrap();
        let calls: u64 = timeline.calls.iter().sum();
        let latencies = with.measured.latencies.iter();
        let timed = latencies.filter(|(kind, _)| *kind != "transaction");
        let timed: u64 = timed.map(|(_, latency)| latency.count).sum();
        assert!(calls >= timed && timed > 0, "{calls} of {timed} calls");
        assert!(timeline.calls.len() <= 300);
        let counted =
            |name: &str| -> u64 { timeline.counters.get(name).into_iter().flatten().sum() };
        let commits = with.metric("commits").unwrap() as u64;
        assert_eq!(counted("commits"), commits, "{}", with.trial());
        let stalled = with.metric("stalled_dirty_limit").unwrap();
        assert!((counted("stalled_dirty_limit_ns") as f64 / 1e9 - stalled).abs() < 1e-6);
        let names: Vec<&str> = timeline.phases.iter().map(|phase| &*phase.name).collect();
        assert_eq!(names, ["create", "transactions", "delete", "sync"]);
    }
}

#[test]
fn records_of_other_sources_are_not_taken_over() {
    let (plan, folder) = (plan(SMALL), tempfile::tempdir().unwrap());
    let outcome = run(&plan, folder.path());
    let text = fs::read_to_string(&outcome.path).unwrap();
    let program = &outcome.records[0].context.program;
    let (source, other) = (&program.source, "0000000000000000");
    // Another executable of the same sources gives the same records.
    fs::write(&outcome.path, text.replace(&program.fingerprint, other)).unwrap();
    assert_eq!(run(&plan, folder.path()).run, 0);
    fs::write(&outcome.path, text.replace(source, other)).unwrap();
    assert_eq!(run(&plan, folder.path()).run, 6);
}

#[test]
fn records_say_everything() {
    let (plan, folder) = (plan(SMALL), tempfile::tempdir().unwrap());
    let outcome = run(&plan, folder.path());
    let internal = &outcome.records[0];
    let nvram = &outcome.records[3];
    assert_eq!(internal.context.settings["fs.commit"], "5s");
    assert_eq!(nvram.context.levels["journal"], "nvram:8MiB");
    for record in &outcome.records {
        assert_eq!(record.metric("memory_left"), Some(f64::from(64 << 20)));
        assert!(record.metric("elapsed").unwrap() > 0.0);
        assert!(
            record.metric("commits").unwrap() > 0.0,
            "{}",
            record.trial()
        );
        assert!(record.metric("cpu_time").unwrap() > 0.0);
        assert!(record.measured.latencies["write"].count > 0);
        let writes = |device: &str| record.measured.counters[device]["writes"];
        // With data=journal on NVRAM, nothing is written to the disk before the close.
        assert!(writes("home") + writes("log") > 0);
        assert!(record.measured.replay.is_some());
    }
    assert!(internal.metric("disk_time").unwrap() > 0.0);
    assert!(internal.measured.counters["disk"]["accesses"] > 0);
    assert_eq!(
        internal.metric("log_bytes_written"),
        Some(0.0),
        "an internal log is on the home device"
    );
    assert!(nvram.metric("log_bytes_written").unwrap() > 0.0);
    let counts = ["created", "read", "appended", "deleted", "bytes_written"];
    for count in counts {
        assert_eq!(
            internal.metric(count),
            nvram.metric(count),
            "PostMark does the same everywhere"
        );
    }
}

#[test]
fn trials_run_in_this_process_and_in_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let head = "[plan]\nname = \"real\"\nquestion = \"?\"\nrepetitions = 2\nwarmup = 1\n[fixed]\n\
                postmark.number = 50\npostmark.transactions = 100\n";
    let process = plan(&format!(
        "{head}target = \"process\"\ndevice = \"mem:64MiB\"\n"
    ));
    let outcome = run(&process, folder.path());
    assert_eq!(outcome.records.len(), 3);
    assert!(outcome.records[0].is_warmup);
    let report = Report::new(&process, &outcome.records);
    assert_eq!(
        report.blocks[0].groups[0].rows[0].count, 2,
        "the warm-up is not counted"
    );
    let target = folder.path().join("files");
    fs::create_dir(&target).unwrap();
    let directory = plan(&format!(
        "{head}target = \"directory:{}\"\n",
        target.display()
    ));
    let outcome = run(&directory, folder.path());
    assert_eq!(outcome.records.len(), 3);
    assert_eq!(
        fs::read_dir(&target).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn a_trial_that_fails_is_named_and_the_others_run() {
    let folder = tempfile::tempdir().unwrap();
    let text = SMALL
        .replace("postmark.number = 100", "postmark.size = [1000, 2000]")
        .replace(
            "fs.data = [\"ordered\", \"journal\", \"writeback\"]",
            "postmark.number = [100, 60000]",
        );
    let plan = plan(&text);
    let options = RunOptions {
        folder: folder.path().to_owned(),
        jobs: 2,
        ..RunOptions::default()
    };
    let progress: Arc<dyn Progress> = Arc::new(NoProgress);
    let outcome = runner::run(&plan, &options, &progress).unwrap();
    assert_eq!(
        (outcome.run, outcome.failures.len()),
        (2, 2),
        "{:?}",
        outcome.failures
    );
    assert!(
        outcome.failures[0].cause.contains("no inode is left"),
        "{:?}",
        outcome.failures
    );
    let report = Report::new(&plan, &outcome.records);
    assert_eq!(report.missing, 2);
}

/// Stops the run after the second trial.
struct Stopper {
    stop: Stop,
    ended: AtomicUsize,
}

impl Progress for Stopper {
    fn ended(&self, _number: usize, _trial: &Trial, _result: Result<&Record, &str>) {
        if self.ended.fetch_add(1, Ordering::SeqCst) == 1 {
            self.stop.request();
        }
    }
}

#[test]
fn a_run_that_is_stopped_keeps_what_is_done_and_goes_on_there() {
    let (plan, folder) = (plan(SMALL), tempfile::tempdir().unwrap());
    let options = RunOptions {
        folder: folder.path().to_owned(),
        jobs: 1,
        ..RunOptions::default()
    };
    let progress: Arc<dyn Progress> = Arc::new(Stopper {
        stop: options.stop.clone(),
        ended: AtomicUsize::new(0),
    });
    let outcome = runner::run(&plan, &options, &progress).unwrap();
    assert!(outcome.is_stopped);
    assert_eq!((outcome.run, outcome.records.len()), (2, 2));
    assert_eq!(
        outcome.failures,
        [],
        "a trial that was cancelled has not failed"
    );
    let resumed = run(&plan, folder.path());
    assert_eq!((resumed.run, resumed.recorded), (4, 2));
    assert!(!resumed.is_stopped);
}

#[test]
fn trials_are_repeated_until_their_interval_is_narrow() {
    let folder = tempfile::tempdir().unwrap();
    // Durations in real time always differ, so a precision of a billionth is never reached.
    let text = |precision: &str| {
        plan(&format!(
            "[plan]\nname = \"real\"\nquestion = \"?\"\nrepetitions = 2\nprecision = {precision}\n\
             repetitions_max = 4\n[fixed]\ntarget = \"process\"\ndevice = \"mem:64MiB\"\n\
             postmark.number = 50\npostmark.transactions = 100\n[factors]\nfs.commit = [1, 5]\n"
        ))
    };
    let strict = text("1e-9");
    let outcome = run(&strict, folder.path());
    assert_eq!(outcome.run, 8, "two combinations, four times each");
    assert_eq!(run(&strict, folder.path()).run, 0);
    let report = Report::new(&strict, &outcome.records);
    assert_eq!(report.blocks[0].groups[0].rows[0].count, 4);
    assert_eq!(report.missing, 0);
    // The same records suffice for a lower precision.
    assert_eq!(run(&text("0.99"), folder.path()).run, 0);
}
