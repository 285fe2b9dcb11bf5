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
    let output = folder
        .command("bench postmark mem:8MiB --json")
        .args(["--set", "number 0"])
        .output();
    let output = output.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("invalid number of files"));
}
