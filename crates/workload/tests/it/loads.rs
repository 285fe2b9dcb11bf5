//! Every workload of the catalogue: counts its calls, runs it on a directory, and checks that it
//! leaves no files behind.

use std::sync::Arc;

use workload::counting::CountingTarget;
use workload::directory::DirectoryTarget;
use workload::{
    Control, Definition, ErrorKind, Load, Operation, Outcome, RunError, Setting, Target, WORKLOADS,
};

/// Returns parameters with which a workload runs only briefly.
fn small(name: &str) -> Vec<(&'static str, Setting)> {
    use Setting::{Bytes, Number, Text, Time};
    use std::borrow::Cow::Borrowed;
    match name {
        "postmark" => vec![
            ("postmark.number", Number(20)),
            ("postmark.transactions", Number(50)),
            ("postmark.latencies", Setting::Switch(true)),
        ],
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
        "mongo" => vec![
            ("mongo.bytes", Bytes(200_000)),
            ("mongo.repetitions", Number(2)),
            ("mongo.processes", Number(2)),
        ],
        "iozone" => vec![("iozone.size", Bytes(128 << 10))],
        "bonnie" => vec![
            ("bonnie.size", Bytes(256 << 10)),
            ("bonnie.seeks", Number(40)),
            ("bonnie.files", Number(1)),
            ("bonnie.file_min", Bytes(1)),
            ("bonnie.file_max", Bytes(100)),
            ("bonnie.directories", Number(3)),
        ],
        "filebench" => vec![
            ("filebench.time", Time(rt::Nanos::from_millis(100))),
            ("filebench.files", Number(60)),
            ("filebench.mean_size", Bytes(4 << 10)),
            ("filebench.threads", Number(3)),
        ],
        "fsx" => vec![("fsx.operations", Number(500)), ("fsx.tasks", Number(2))],
        "fsstress" => vec![("fsstress.operations", Number(1000))],
        "dbench" => vec![
            ("dbench.clients", Number(2)),
            ("dbench.time", Time(rt::Nanos::from_millis(200))),
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

/// Checks the exact numbers of calls of a workload.
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
    // 4 tasks of 10 files; 3 of each task remain until the end.
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
        &[
            (Fsync, 0),
            (FsyncDirectory, 160),
            (Unlink, 40),
            (SetFlags, 1),
        ],
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
        &[
            (Open, 36),
            (Write, 36),
            (Unlink, 36),
            (Mkdir, 13),
            (Rmdir, 13),
            (Sync, 2),
        ],
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
    // The source is created; then both sides of the copy are opened. The last listing is that of
    // the removal.
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
    // The folder, a directory for each thread, and one call for each file, as in the original.
    check("fs_mark", &[], &[(Operation::Mkdir, 1 + 2 + 40)]);
    check(
        "fs_mark",
        &[
            ("fs_mark.subdirectories", Setting::Number(3)),
            ("fs_mark.files_per_subdirectory", Setting::Number(2)),
            ("fs_mark.keep", Setting::Switch(true)),
            ("fs_mark.sync", Setting::Number(2)),
        ],
        &[(Operation::Mkdir, 1 + 2 + 40), (Fsync, 2 * 2)],
    );
    // Both threads use one directory.
    check(
        "fs_mark",
        &[("fs_mark.directories", Setting::Number(1))],
        &[(Operation::Mkdir, 1 + 1 + 40), (Unlink, 40)],
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
    let levels: Vec<_> = outcome
        .phases
        .iter()
        .filter(|p| p.name == "level")
        .collect();
    assert_eq!(levels.len(), 2);
    let (outcome, _) = counted(
        "oblload",
        &[("oblload.limit", Setting::Time(rt::Nanos::ZERO))],
    );
    assert_eq!(outcome.value("supported_users"), Some(0.0));
}

#[test]
fn mongo_counts() {
    use Operation::{Rename, Symlink, Unlink};
    let (outcome, target) = counted("mongo", &[]);
    let files = outcome.value("created").expect("it is a figure") as u64;
    assert!(files > 100, "{files} files");
    // The files of the created trees get links, lose their names and are removed with their copies.
    for (operation, count) in [(Symlink, files), (Rename, files), (Unlink, 3 * files)] {
        assert_eq!(target.calls(operation), count, "{operation}");
    }
    assert_eq!(
        outcome.value("fragmentation"),
        None,
        "no blocks, no extents"
    );
    for name in [
        "create", "copy", "symlinks", "read", "stat", "rename", "delete",
    ] {
        let phases = outcome.phases.iter().filter(|phase| phase.name == name);
        assert_eq!(phases.count(), 2, "{name}");
    }
}

#[test]
fn iozone_counts() {
    use Operation::{Open, Pread, Pwrite, Read, Write};
    // 32 records of 4 KiB; 5 tests that write and 7 that read at the position, 2 of each that do
    // not, and 2 of each by 16 records.
    let outcome = check(
        "iozone",
        &[],
        &[
            (Open, 21),
            (Write, 6 * 32),
            (Read, 7 * 32),
            (Pwrite, 2 * 32 + 2 * 2),
            (Pread, 2 * 32 + 2 * 2),
        ],
    );
    for name in ["write_rate", "stride_read_rate", "repreadv_rate"] {
        assert!(outcome.value(name).is_some(), "{name}");
    }
    let several = [
        ("iozone.threads", Setting::Number(3)),
        ("iozone.tests", Setting::Text("0 1 8".into())),
        ("iozone.with_fsync", Setting::Switch(true)),
        ("iozone.stonewall", Setting::Switch(false)),
    ];
    let outcome = check(
        "iozone",
        &several,
        &[(Open, 3 * 5), (Operation::Fsync, 3 * 2 + 1)],
    );
    assert!(outcome.value("mix_rate").is_some());
}

#[test]
fn iozone_walks_its_matrix() {
    let (outcome, _) = counted(
        "iozone",
        &[
            ("iozone.mode", Setting::Text("auto".into())),
            ("iozone.size_max", Setting::Bytes(256 << 10)),
            ("iozone.tests", Setting::Text("0 1".into())),
        ],
    );
    // Records of 4 KiB up to the file: 5, 6 and 7 cells of 4 tests.
    let document = |name| outcome.documents.iter().find(|d| d.name == name);
    let csv = &document("csv").expect("there is one").text;
    assert_eq!(csv.lines().count(), 1 + 4 * (5 + 6 + 7));
    let excel = &document("excel").expect("there is one").text;
    assert_eq!(excel.matches(" report\"").count(), 4);
    assert_eq!(outcome.value("write_rate"), None, "no figure of many cells");
}

#[test]
fn bonnie_counts_by_version() {
    use Operation::{Fsync, Open, Readdir, Stat, Sync, Unlink};
    // Files are created and read once with each kind of name; five phases and the seekers open the
    // large file.
    let files = 2 * 1024;
    for (version, seekers, fsyncs, chunk_phases) in [("2.00", 5, 5, 256 << 10), ("1.03", 3, 0, 64)]
    {
        let outcome = check(
            "bonnie",
            &[("bonnie.version", Setting::Text(version.into()))],
            &[
                (Open, 5 + seekers + 2 * files),
                (Fsync, fsyncs),
                (Stat, files),
                (Unlink, 1 + files),
                (Sync, 4),
                // Each directory is listed to stat its files and to delete them; the folder when it
                // is removed.
                (Readdir, 3 + 3 + 1),
            ],
        );
        let latencies = outcome.latencies.expect("they were asked for");
        let reads = latencies.summary("read").map(|summary| summary.count);
        // By bytes or buffers; rewrite, block read and seeks by chunks; the files.
        assert_eq!(
            reads,
            Some(chunk_phases + 32 + 32 + 40 + files),
            "{version}"
        );
    }
}

#[test]
fn bonnie_prints_both_rows() {
    let (outcome, _) = counted("bonnie", &[]);
    for (name, fields, begins) in [
        ("csv-2.00", 50, "1.98,2.00a,jext,1,42,256k,8k,40,5,"),
        ("csv-1.03", 27, "jext,256k,"),
    ] {
        let document = outcome.documents.iter().find(|d| d.name == name);
        let text = &document.expect("there is one").text;
        assert_eq!(text.trim_end().split(',').count(), fields, "{text}");
        assert!(text.starts_with(begins), "{text}");
    }
    assert_eq!(outcome.value("short_phases"), Some(12.0));
    let (outcome, target) = counted(
        "bonnie",
        &[
            ("bonnie.size", Setting::Bytes(0)),
            ("bonnie.file_kind", Setting::Text("hard-links".into())),
            ("bonnie.sync_each", Setting::Switch(true)),
        ],
    );
    assert_eq!(target.calls(Operation::Link), 2 * 1023);
    assert_eq!(target.calls(Operation::FsyncDirectory), 2);
    assert_eq!(outcome.value("write_rate"), None);
}

#[test]
fn filebench_serves_in_every_personality_and_ends_on_time() {
    for personality in ["varmail", "fileserver", "webserver", "oltp"] {
        let (outcome, target) = counted(
            "filebench",
            &[
                ("filebench.personality", Setting::Text(personality.into())),
                ("filebench.mean_size", Setting::Bytes(256 << 10)),
                ("filebench.threads", Setting::Number(20)),
            ],
        );
        assert!(
            outcome.value("operations_rate") > Some(100.0),
            "{personality}"
        );
        assert!(outcome.value("read_rate") > Some(0.0), "{personality}");
        assert!(outcome.value("write_rate") > Some(0.0), "{personality}");
        let serve = outcome.phases.iter().find(|phase| phase.name == "serve");
        let took = serve.expect("it has served").took;
        assert!(took >= rt::Nanos::from_millis(100), "{personality}: {took}");
        assert!(took < rt::Nanos::from_secs(5), "{personality}: {took}");
        assert_eq!(
            target.calls(Operation::Open),
            target.calls(Operation::Close),
            "{personality}"
        );
    }
}

#[test]
fn fsx_finds_a_byte_that_somebody_else_changed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let host = DirectoryTarget::new(directory.path()).expect("it exists");
    let target: Arc<dyn Target> = Arc::new(host);
    let file = directory.path().join("fsx/0");
    let control = Control::with_progress(move |fraction| {
        if fraction > 0.5 {
            std::fs::write(&file, vec![7; 100_000]).expect("it can be written");
        }
    });
    let definition = Definition::named("fsx").expect("it is in the catalogue");
    let result =
        load(definition, &[("fsx.tasks", Setting::Number(1))]).run(&target, &Arc::new(control));
    let error = result.map(|_| "no error").expect_err("it is another file");
    let RunError::WrongTree { path, fact } = error else {
        panic!("{error}");
    };
    assert_eq!(path, "fsx/0");
    assert!(fact.contains("after "), "{fact}");
}

#[test]
fn dbench_replays_a_recorded_load() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let load = directory.path().join("client.txt");
    let text = "Mkdir \"/clients\" SUCCESS\nMkdir \"\\clients\\client1\" SUCCESS\n\
        0.001 NTCreateX \"/clients/client1/A\" 0x0 0x5 7 SUCCESS\nWriteX 7 0 100 100 SUCCESS\n\
        WriteX 7 100 50 50 SUCCESS\nReadX 7 10 120 120 SUCCESS\nReadX 7 100 100 50 SUCCESS\n\
        Flush 7 SUCCESS\nUnlink \"/clients/client1/none\" 0x6 NT_STATUS_NO_SUCH_FILE\n\
        NTCreateX \"/clients/client1/none\" 0x0 0x1 8 NT_STATUS_OBJECT_NAME_NOT_FOUND\n\
        SET_FILE_INFORMATION 7 1004 SUCCESS\nClose 7 SUCCESS\nQUERY_PATH_INFORMATION \"/clients/client1/a\" 1 SUCCESS\n\
        QUERY_FS_INFORMATION 1 SUCCESS\n\
        Rename \"/clients/client1/A\" \"/clients/client1/B\" SUCCESS\n\
        FIND_FIRST \"/clients/client1/*\" 260 10 2 SUCCESS\nUnlink \"/clients/client1/B\" 0x6 SUCCESS\n";
    std::fs::write(&load, text).expect("there is space");
    let path = load.to_str().expect("temporary names are ASCII").to_owned();
    let given = ("dbench.load", Setting::Text(path.into()));
    let (outcome, target) = counted("dbench", std::slice::from_ref(&given));
    let passes = target.calls(Operation::Fsync);
    assert!(passes > 10, "{passes} passes");
    // The time may end within a pass of each of the two clients.
    let near = |calls: u64, each: u64| calls.abs_diff(passes * each) <= 2 * each;
    for (operation, each) in [
        // One file that exists, and one that does not.
        (Operation::Open, 2),
        (Operation::StatOpen, 2),
        (Operation::SetTimes, 1),
        (Operation::Space, 1),
        (Operation::Pwrite, 2),
        (Operation::Pread, 2),
        (Operation::Rename, 1),
    ] {
        let calls = target.calls(operation);
        assert!(near(calls, each), "{operation}: {calls} in {passes} passes");
    }
    assert!(outcome.value("throughput") > Some(0.0));
    std::fs::write(&load, "Dance SUCCESS").expect("there is space");
    let definition = Definition::named("dbench").expect("it is in the catalogue");
    let values = definition.defaults().with(given.0, given.1);
    let error = Load::new(definition, values).expect_err("it is no load");
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn dbench_says_where_a_load_and_the_tree_differ() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let load_file = directory.path().join("client.txt");
    let path = load_file
        .to_str()
        .expect("temporary names are ASCII")
        .to_owned();
    let definition = Definition::named("dbench").expect("it is in the catalogue");
    let make = "Mkdir \"/a\" SUCCESS\n";
    for (line, expected) in [
        (
            "NTCreateX \"/A\" 0x0 0x1 7 NT_STATUS_OBJECT_NAME_NOT_FOUND",
            "exists, but did not",
        ),
        (
            "QUERY_PATH_INFORMATION \"/a\" 1 NT_STATUS_OBJECT_NAME_NOT_FOUND",
            "exists, but did not",
        ),
        ("QUERY_PATH_INFORMATION \"/b\" 1 SUCCESS", "not found"),
        ("ReadX 7 0 1 1 SUCCESS", "handle 7"),
    ] {
        std::fs::write(&load_file, format!("{make}{line}\n")).expect("there is space");
        let given = ("dbench.load", Setting::Text(path.clone().into()));
        let target: Arc<dyn Target> = Arc::new(CountingTarget::new());
        let result = load(definition, &[given]).run(&target, &Arc::new(Control::new()));
        let error = result.map(drop).expect_err(line).to_string();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

/// Checks that every line of the load is a request, and that every request is executed.
#[test]
fn the_load_of_debians_dbench_is_read() {
    let path = "/usr/share/dbench/client.txt";
    let text = std::fs::read_to_string(path).expect("run scripts/install-test-tools");
    let load = workload::dbench::load::Load::parse(&text).expect("it is a load");
    assert_eq!(load.steps().len(), text.lines().count());
    assert_eq!(load.transfer_max(), 65_536);
}

/// Checks that the counting target enforces the alignment of a disk.
#[test]
fn transfers_past_the_cache_are_aligned() {
    for name in ["obldisk", "oblload", "iozone", "bonnie"] {
        let definition = Definition::named(name).expect("it is in the catalogue");
        let mut direct = definition.parameters.iter().map(|parameter| parameter.name);
        let direct = direct.find(|key| key.ends_with(".direct")).expect("it can");
        counted(name, &[(direct, Setting::Switch(true))]);
    }
}
