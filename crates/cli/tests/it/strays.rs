//! lab run after a run that was killed: what that one left is given back, and nothing else.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{privilege, tool};

use crate::support::Folder;

/// With few files PostMark soon has none left, and ends.
const PLAN: &str = "[plan]\nname = \"mounted\"\nquestion = \"Does it run?\"\n[fixed]\ntarget = \"kernel:ext3\"\n\
                    device = \"mem:64MiB\"\npostmark.number = 2000\npostmark.transactions = TRANSACTIONS\n";
const PATIENCE: Duration = Duration::from_secs(60);

/// A run of a plan, with its own folder for temporary files.
fn run(folder: &Folder, plan: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("jext"));
    command
        .args(["lab", "run", plan])
        .current_dir(folder.path())
        .env("TMPDIR", folder.path());
    command
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The files behind all loop devices whose names tell this process.
fn loops_of(process: u32) -> Vec<String> {
    let own = format!("jext-lab-{process}-");
    let all = fs::read_dir("/sys/block").unwrap();
    let files = all.filter_map(|entry| {
        fs::read_to_string(entry.unwrap().path().join("loop/backing_file")).ok()
    });
    files.filter(|file| file.contains(&own)).collect()
}

fn has_mounted(child: &Child) -> bool {
    let mounts = fs::read_to_string(format!("/proc/{}/mounts", child.id())).unwrap_or_default();
    mounts
        .lines()
        .any(|line| line.starts_with("/dev/loop") && line.contains("jext-lab-"))
}

#[test]
fn a_run_that_was_killed_leaves_nothing_to_the_next_one() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    folder.write(
        "long.toml",
        PLAN.replace("TRANSACTIONS", "100000000").as_bytes(),
    );
    folder.write("short.toml", PLAN.replace("TRANSACTIONS", "50").as_bytes());
    let mut child = run(&folder, "long.toml")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it mounts", || has_mounted(&child));
    // The device is left to the mount a moment after that.
    std::thread::sleep(Duration::from_millis(500));
    let process = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the device goes with the mount", || {
        loops_of(process).is_empty()
    });
    // One that was killed between attaching and mounting.
    let stray: PathBuf = folder.path().join(format!("jext-lab-{process}-7"));
    fs::write(&stray, vec![0; 1 << 20]).unwrap();
    let device = tool::run_well(
        "losetup",
        &["--find".as_ref(), "--show".as_ref(), stray.as_os_str()],
    );
    // Of a live process, and of none.
    let living: PathBuf = folder
        .path()
        .join(format!("jext-lab-{}-7", std::process::id()));
    fs::write(&living, vec![0; 1 << 20]).unwrap();
    let kept = tool::run_well(
        "losetup",
        &["--find".as_ref(), "--show".as_ref(), living.as_os_str()],
    );
    let output = run(&folder, "short.toml").output().unwrap();
    let said = tool::said(&output);
    let still = loops_of(std::process::id());
    tool::run_well("losetup", &["--detach", kept.trim()]);
    assert!(output.status.success(), "{said}");
    for expected in [
        format!(
            "{} of the killed process {process} is detached",
            device.trim()
        ),
        format!("jext-lab-{process}-0 of the killed process {process} is removed"),
    ] {
        assert!(said.contains(&expected), "{expected}\n{said}");
    }
    assert!(loops_of(process).is_empty());
    assert_eq!(
        still.len(),
        1,
        "a device of a process that lives is left alone: {said}"
    );
    assert!(!folder.path().join(format!("jext-lab-{process}-0")).exists());
}
