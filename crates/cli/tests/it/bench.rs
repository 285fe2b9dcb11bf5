//! bench postmark, on memory, an image and a directory, and in the original's form.

use crate::support::Folder;

const SMALL: [&str; 4] = ["--set", "number 100", "--set", "transactions 200"];

#[test]
fn postmark_runs_everywhere_and_does_the_same() {
    let folder = Folder::with_image();
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let mut seen = Vec::new();
    for target in ["mem:64MiB", "disk.img", "files"] {
        let line = format!("bench postmark --json --final-sync end {target}");
        let output = folder.command(&line).args(SMALL).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{target}: {error}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(json[0]["latencies"]["write"]["count"].as_u64().unwrap() > 0);
        let metric = |name: &str| json[0]["metrics"][name]["value"].clone();
        seen.push(["created", "read", "deleted", "bytes_written"].map(metric));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    assert_eq!(
        std::fs::read_dir(folder.path().join("files"))
            .unwrap()
            .count(),
        0
    );
    folder.check("disk.img");
}

#[test]
fn mkfs_and_mount_options_reach_the_file_system_in_memory() {
    let folder = Folder::new();
    let run = |extra: &[&str]| {
        let mut command =
            folder.command("bench postmark --no-latencies mem:64MiB --threads 4 --fsync close");
        command.args(SMALL).args(extra).output().unwrap()
    };
    let good = run(&[
        "--mkfs",
        "-t ext3 -b 4096 -J size=8",
        "-o",
        "data=journal,commit=1",
        "--memory",
        "32MiB",
    ]);
    assert!(
        good.status.success(),
        "{}",
        String::from_utf8_lossy(&good.stderr)
    );
    assert!(String::from_utf8_lossy(&good.stdout).contains("Phases:"));
    let external = run(&["--journal", "mem:8MiB", "--mkfs", "-b 4096"]);
    assert!(
        external.status.success(),
        "{}",
        String::from_utf8_lossy(&external.stderr)
    );
    let bad = run(&["--mkfs", "-t ext9"]);
    assert!(String::from_utf8_lossy(&bad.stderr).starts_with("jext: mkfs: --mkfs \"-t ext9\": "));
}

const LOADS: [(&str, &str); 11] = [
    ("synctest", "--set tasks=3 --set files=5"),
    (
        "make-many-files",
        "--set preset=custom --set levels=2 --set files=2",
    ),
    (
        "tree-copy",
        "--set files=30 --set directories=5 --set bytes=300KiB",
    ),
    ("fs_mark", "--set files=10 --set size=10KiB"),
    ("obldisk", "--set size=2MiB"),
    (
        "oblload",
        "--set size=2MiB --set level=100ms --set users_max=10",
    ),
    ("mongo", "--set bytes=100KiB --set repetitions=1"),
    ("iozone", "--set size=64KiB"),
    ("bonnie", "--set size=64KiB --set files=1 --set seeks=10"),
    ("dbench", "--set time=100ms --set clients=2"),
    (
        "filebench",
        "--set time=100ms --set files=50 --set threads=2",
    ),
];

#[test]
fn every_load_runs_on_a_file_system_in_memory_and_gives_json() {
    let folder = Folder::new();
    for (name, set) in LOADS {
        let text = folder.good(&format!("bench {name} mem:64MiB --json {set}"));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["workload"], name);
        let elapsed = &json["metrics"]["elapsed"];
        assert!(elapsed["value"].as_f64().unwrap() > 0.0, "{name}");
        assert_eq!(elapsed["unit"], "s", "{name}");
        assert!(!json["phases"].as_array().unwrap().is_empty(), "{name}");
    }
    for name in ["fsx", "fsstress"] {
        let text = folder.good(&format!("bench {name} mem:64MiB --set operations=200"));
        assert!(text.contains("operations_rate"), "{text}");
        assert!(text.contains("Latencies in ms:"), "{text}");
    }
}

#[test]
fn loads_print_their_originals_rows_and_say_what_they_take() {
    let folder = Folder::new();
    let row =
        folder.good("bench bonnie mem:64MiB --document csv-1.03 --set size=64KiB --set files=0");
    assert_eq!(row.trim_end().split(',').count(), 27, "{row}");
    let listed = folder.good("bench synctest --parameters --set tasks=7 .");
    assert!(
        listed.contains("synctest.tasks") && listed.contains("bench.seed"),
        "{listed}"
    );
    let mut command = folder.command("bench postmark --parameters --fsync close . --set");
    let listed = command.arg("number 70").assert().success();
    let listed = String::from_utf8(listed.get_output().stdout.clone()).unwrap();
    for (name, value) in [
        ("postmark.number", "70"),
        ("postmark.size", "500"),
        ("postmark.bias_create", "5"),
        ("postmark.fsync", "close"),
    ] {
        let mut rows = listed.lines().map(|line| line.split_whitespace());
        let mut row = rows.find(|row| row.clone().next() == Some(name)).unwrap();
        assert_eq!(row.nth(1), Some(value), "{listed}");
    }
    for name in ["fs_mark", "postmark"] {
        let listed = folder.good(&format!("bench {name} --parameters"));
        assert!(listed.contains(&format!("\n{name}.")), "{listed}");
        let missing = folder.command(&format!("bench {name}")).output().unwrap();
        assert_eq!(missing.status.code(), Some(2), "a run needs a target");
    }
    for (line, expected) in [
        ("bench synctest . --set tasks", "expected NAME=VALUE"),
        ("bench synctest . --set taks=7", "no such parameter"),
        ("bench synctest . --set tasks=0", "from 1 to 10000"),
        ("bench obldisk . --set size=1000", "no multiple of 1 MiB"),
        (
            "bench fsx mem:64MiB --document csv --set operations=10",
            "there is no such",
        ),
    ] {
        let error = folder.bad(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn the_original_form_takes_commands_from_its_input() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let mut command = folder.command("bench postmark --compat files");
    let output = command
        .write_stdin("set number 20\nset transactions 50\nnonsense\nrun\nquit\n")
        .output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("PostMark"), "{text}");
    assert!(
        text.contains("pm>Eh?") && text.contains("Performing transactions..........Done"),
        "{text}"
    );
    assert!(
        text.contains("Time:") && text.contains("megabytes") || text.contains("kilobytes"),
        "{text}"
    );
    folder.write(
        "script",
        b"set number 20\nset transactions 50\nrun result\n",
    );
    folder.good("bench postmark --compat --script script files");
    assert!(!folder.read("result").is_empty());
}

#[test]
fn more_files_are_open_than_a_login_shell_allows() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let program = folder.command("").get_program().to_owned();
    let line = "ulimit -S -n 256 && exec \"$0\" bench filebench files --set personality=oltp --set time=10ms --set mean_size=1MiB";
    let mut command = std::process::Command::new("sh");
    command.current_dir(folder.path()).args(["-c", line]);
    let output = command.arg(program).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

#[test]
fn what_cannot_be_benched_is_said() {
    let folder = Folder::with_image();
    assert!(
        folder
            .bad("bench postmark sim:atlas-v-18")
            .contains("use `jext lab run`")
    );
    assert!(
        folder
            .bad("bench postmark disk.img --mkfs -q")
            .contains("--mkfs is for mem:SIZE")
    );
    for (line, said) in [
        ("bench postmark", "<DIR|IMAGE|mem:SIZE|uml:TYPE>"),
        (
            "bench postmark mem:8MiB --on mem:8MiB",
            "cannot be used with",
        ),
    ] {
        let output = folder.command(line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(said),
            "{line}"
        );
    }
    let output = folder
        .command("bench postmark --on mem:8MiB --json")
        .args(["--set", "number 0"])
        .output();
    let output = output.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("invalid number of files"));
}
