//! Every workload of the catalogue: what it does, counted; on a directory; and that it leaves nothing behind.

use std::sync::Arc;

use workload::counting::CountingTarget;
use workload::directory::DirectoryTarget;
use workload::{
    Control, Definition, ErrorKind, Load, Operation, Outcome, RunError, Setting, Target, WORKLOADS,
};

/// Parameters with which a workload is done in a moment.
fn small(name: &str) -> Vec<(&'static str, Setting)> {
    use Setting::{Bytes, Number, Text, Time};
    use std::borrow::Cow::Borrowed;
    match name {
        "synctest" => vec![
            ("synctest.tasks", Number(4)),
            ("synctest.tasks_per_directory", Number(2)),
            ("synctest.files", Number(10)),
            ("synctest.live", Number(3)),
        ],
        "make-many-files" => vec![
            ("make-many-files.preset", Text(Borrowed("custom"))),
            ("make-many-files.fan_out", Number(3)),
            ("make-many-files.levels", Number(2)),
            ("make-many-files.files", Number(4)),
            ("make-many-files.tasks", Number(2)),
        ],
        "tree-copy" => vec![
            ("tree-copy.files", Number(50)),
            ("tree-copy.directories", Number(7)),
            ("tree-copy.bytes", Bytes(1_000_000)),
        ],
        "fs_mark" => vec![
            ("fs_mark.threads", Number(2)),
            ("fs_mark.files", Number(10)),
            ("fs_mark.loops", Number(2)),
        ],
        "obldisk" => vec![
            ("obldisk.size", Bytes(2 << 20)),
            ("obldisk.threads", Number(2)),
        ],
        "oblload" => vec![
            ("oblload.size", Bytes(2 << 20)),
            ("oblload.users_max", Number(20)),
            ("oblload.level", Time(rt::Nanos::from_millis(200))),
        ],
        other => panic!("{other} has no small parameters"),
    }
}

fn load(definition: &'static Definition, more: &[(&'static str, Setting)]) -> Load {
    let mut settings = small(definition.name);
    settings.extend(more.iter().cloned());
    let values = settings
        .into_iter()
        .fold(definition.defaults(), |values, (name, setting)| {
            values.with(name, setting)
        });
    Load::new(definition, values).expect("the parameters are good")
}

fn counted(name: &str, more: &[(&'static str, Setting)]) -> (Outcome, Arc<CountingTarget>) {
    let counting = Arc::new(CountingTarget::new());
    let target: Arc<dyn Target> = Arc::<CountingTarget>::clone(&counting);
    let definition = Definition::named(name).expect("it is in the catalogue");
    let outcome = load(definition, more).run(&target, &Arc::new(Control::new()));
    let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(counting.names(), 0, "{name} leaves nothing");
    (outcome, counting)
}

/// What a workload does, by exact numbers of calls.
fn check(name: &str, more: &[(&'static str, Setting)], expected: &[(Operation, u64)]) -> Outcome {
    let (outcome, target) = counted(name, more);
    for (operation, count) in expected {
        assert_eq!(target.calls(*operation), *count, "{name}: {operation}");
    }
    outcome
}

#[test]
fn every_workload_runs_on_a_directory_verified_and_leaves_nothing() {
    for definition in WORKLOADS {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let host = DirectoryTarget::new(directory.path()).expect("it exists");
        let target: Arc<dyn Target> = Arc::new(host);
        let outcome = load(definition, &[]).run(&target, &Arc::new(Control::new()));
        let outcome = outcome.unwrap_or_else(|error| panic!("{}: {error}", definition.name));
        assert!(outcome.value("elapsed").is_some(), "{}", definition.name);
        assert!(outcome.latencies.is_some(), "{}", definition.name);
        let left = std::fs::read_dir(directory.path()).expect("it is there");
        assert_eq!(left.count(), 0, "{}", definition.name);
    }
}

#[test]
fn a_cancelled_run_leaves_nothing() {
    for definition in WORKLOADS {
        let counting = Arc::new(CountingTarget::new());
        let target: Arc<dyn Target> = Arc::<CountingTarget>::clone(&counting);
        let control = Arc::new(Control::new());
        control.cancel();
        let result = load(definition, &[]).run(&target, &control);
        let name = definition.name;
        assert_eq!(result.err(), Some(RunError::Cancelled), "{name}");
        assert_eq!(counting.names(), 0, "{name}");
    }
}

#[test]
fn a_full_target_is_an_error_and_leaves_nothing() {
    for definition in WORKLOADS {
        let counting = Arc::new(CountingTarget::with_capacity(10_000));
        let target: Arc<dyn Target> = Arc::<CountingTarget>::clone(&counting);
        let result = load(definition, &[]).run(&target, &Arc::new(Control::new()));
        let name = definition.name;
        match result {
            Err(RunError::Target(error)) => assert_eq!(error.kind, ErrorKind::NoSpace, "{name}"),
            other => panic!("{name}: {:?}", other.map(|_| "no error")),
        }
        assert_eq!(counting.names(), 0, "{name}");
    }
}

#[test]
fn a_folder_of_the_same_name_is_left_alone() {
    let counting = CountingTarget::new();
    counting.mkdir("synctest").expect("it is empty");
    let target: Arc<dyn Target> = Arc::new(counting);
    let definition = Definition::named("synctest").expect("it is in the catalogue");
    let result = load(definition, &[]).run(&target, &Arc::new(Control::new()));
    assert!(result.is_err());
    assert!(target.stat("synctest").is_ok());
}

#[test]
fn synctest_counts() {
    use Operation::{Fsync, FsyncDirectory, Open, Rename, SetFlags, Unlink};
    // 4 tasks of 10 files; 3 of each task stay until the end.
    check(
        "synctest",
        &[],
        &[(Open, 40), (Fsync, 40), (Rename, 120), (FsyncDirectory, 0)],
    );
    let outcome = check(
        "synctest",
        &[
            ("synctest.directory_fsync", Setting::Switch(true)),
            ("synctest.fsync", Setting::Switch(false)),
            ("synctest.synchronous", Setting::Text("inodes".into())),
        ],
        &[(Fsync, 0), (FsyncDirectory, 160), (Unlink, 40), (SetFlags, 1)],
    );
    let latencies = outcome.latencies.expect("they were asked for");
    assert_eq!(latencies.summary("delete").map(|s| s.count), Some(28));
    assert_eq!(latencies.summary("rename").map(|s| s.count), Some(120));
}

#[test]
fn make_many_files_counts() {
    use Operation::{Mkdir, Open, Rmdir, Sync, Unlink, Write};
    // 9 leaves of 4 files, 3 directories above; the folder itself.
    check(
        "make-many-files",
        &[],
        &[(Open, 36), (Write, 36), (Unlink, 36), (Mkdir, 13), (Rmdir, 13), (Sync, 2)],
    );
    let (outcome, target) = counted(
        "make-many-files",
        &[("make-many-files.preset", Setting::Text("akpm-100k".into()))],
    );
    assert_eq!(outcome.value("created"), Some(100_000.0));
    assert_eq!(target.calls(Mkdir), 11_110 + 1);
    assert_eq!(target.bytes_written(), 409_600_000);
}

#[test]
fn tree_copy_counts() {
    use Operation::{Mkdir, Open, Readdir, Stat};
    let (outcome, target) = counted("tree-copy", &[]);
    assert_eq!(target.calls(Mkdir), 7 + 7 + 1);
    // The source is made; then both sides of the copy are opened. The last listing is of what is removed.
    assert_eq!(target.calls(Open), 50 + 2 * 50);
    assert_eq!(target.calls(Stat), 50 + 6);
    assert_eq!(target.calls(Readdir), 7 + 15);
    assert_eq!(target.bytes_written(), 2_000_000);
    assert_eq!(outcome.value("bytes_written"), Some(1_000_000.0));
}

#[test]
fn fs_mark_counts_by_sync_method() {
    use Operation::{Fsync, Open, Sync, Unlink};
    for (method, opens, fsyncs, syncs) in [
        (0, 40, 0, 0),
        (1, 40, 40, 0),
        (2, 40 + 4, 4, 4),
        (3, 80, 40, 0),
        (4, 80, 40, 4),
        (5, 80, 40, 0),
        (6, 80, 40, 4),
    ] {
        check(
            "fs_mark",
            &[("fs_mark.sync", Setting::Number(method))],
            &[(Open, opens), (Fsync, fsyncs), (Sync, syncs), (Unlink, 40)],
        );
    }
    check(
        "fs_mark",
        &[
            ("fs_mark.subdirectories", Setting::Number(3)),
            ("fs_mark.files_per_subdirectory", Setting::Number(2)),
            ("fs_mark.keep", Setting::Switch(true)),
            ("fs_mark.sync", Setting::Number(2)),
        ],
        &[(Operation::Mkdir, 1 + 2 * 4), (Fsync, 2 * 2 * 3)],
    );
}

#[test]
fn obldisk_counts() {
    use Operation::{Fsync, Pread, Pwrite};
    // 2 MiB by requests of 2 KiB, 4 KiB ... 1 MiB.
    let requests = (0..10).map(|step| 1024_u64 >> step).sum();
    let outcome = check(
        "obldisk",
        &[],
        &[(Pread, requests), (Pwrite, requests), (Fsync, 20)],
    );
    for name in ["read_2k_rate", "write_1m_rate", "bundling"] {
        assert!(outcome.value(name).is_some(), "{name}");
    }
}

#[test]
fn oblload_grows_until_the_limit_and_ends_on_time() {
    let (outcome, _) = counted("oblload", &[]);
    assert_eq!(outcome.value("supported_users"), Some(20.0));
    let levels: Vec<_> = outcome.phases.iter().filter(|p| p.name == "level").collect();
    assert_eq!(levels.len(), 2);
    let (outcome, _) = counted(
        "oblload",
        &[("oblload.limit", Setting::Time(rt::Nanos::ZERO))],
    );
    assert_eq!(outcome.value("supported_users"), Some(0.0));
}
