//! Tests bench peers with a hundredth of the loads.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use testkit::privilege;

use crate::support::Folder;

/// Time limit for the start of a command.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs works with small loads and returns the JSON of each; nothing may stay behind.
fn measure(line: &str) -> Vec<Value> {
    let folder = Folder::new();
    let json = folder.json(&format!("bench peers {line} --small --folder . --json"));
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "nothing stays behind");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("jext-bench"), "{mounts}");
    assert_eq!(loops_of(folder.path()), 0, "loop devices stay behind");
    json["works"].as_array().unwrap().clone()
}

/// Returns the number of loop devices over files in a folder.
fn loops_of(folder: &Path) -> usize {
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    let files = devices
        .filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
    files
        .filter(|file| Path::new(file.trim_end()).starts_with(folder))
        .count()
}

/// Returns the sides of a figure in a case.
fn sides(work: &Value, case: usize, figure: usize) -> &Vec<Value> {
    work["cases"][case]["figures"][figure]["sides"]
        .as_array()
        .unwrap()
}

fn names(sides: &[Value]) -> Vec<&str> {
    sides
        .iter()
        .map(|side| side["side"].as_str().unwrap())
        .collect()
}

#[test]
fn jext_is_compared_in_memory_and_on_disk() {
    if !privilege::is_granted() {
        return;
    }
    let works = measure(
        "postmark create-fsync append-fdatasync --runs 2 --side jext-mem,tmpfs,jext-disk,ext4,raw",
    );
    let of = |work: &Value| work["work"].as_str().unwrap().to_owned();
    let found: Vec<String> = works.iter().map(of).collect();
    assert_eq!(found, ["postmark", "create-fsync", "append-fdatasync"]);
    let postmark = sides(&works[0], 1, 0);
    assert_eq!(names(postmark), ["jext-mem", "tmpfs", "ext4"]);
    for side in postmark {
        assert_eq!(side["values"].as_array().map(Vec::len), Some(2));
        assert!(side["median"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(
        (&postmark[0]["peer"], &postmark[0]["bar"]),
        (&"tmpfs".into(), &1.0.into())
    );
    assert!(postmark[0]["verdict"].is_string());
    assert!(postmark[1]["ratio"].is_null(), "a peer has none");
    let synced = sides(&works[1], 1, 0);
    assert_eq!(names(synced), ["jext-disk", "ext4"]);
    let interval = synced[0]["ratio_interval"].as_array().unwrap();
    let ratio = synced[0]["ratio"].as_f64().unwrap();
    assert!(interval[0].as_f64().unwrap() <= ratio && ratio <= interval[1].as_f64().unwrap());
    assert_eq!(names(sides(&works[2], 0, 0)), ["jext-disk", "raw", "ext4"]);
}

#[test]
fn every_other_work_runs_on_its_sides() {
    if !privilege::is_granted() {
        return;
    }
    let works = measure(
        "postmark-journal postmark-mounted varmail overwrite-fdatasync sequential random metadata directories \
         build check replay --runs 1 --entries-max 10000 --side jext-tmpfs,jext-mount,jext-disk-fc,jext-mem,jext,ext4,memcpy,mke2fs,e2fsck",
    );
    assert_eq!(works.len(), 11);
    for work in &works {
        for case in work["cases"].as_array().unwrap() {
            for figure in case["figures"].as_array().unwrap() {
                let sides = figure["sides"].as_array().unwrap();
                assert!(!sides.is_empty(), "{work}");
                for side in sides {
                    assert!(side["median"].as_f64().unwrap() > 0.0, "{work}");
                }
            }
        }
    }
    let metadata = works
        .iter()
        .find(|work| work["work"] == "metadata")
        .unwrap();
    assert_eq!(
        sides(metadata, 1, 0)[0]["peer"],
        "1 thread",
        "a case is the peer"
    );
}

#[test]
fn a_peer_can_be_measured_alone() {
    if !privilege::is_granted() {
        return;
    }
    let works = measure("build check --runs 1 --side mke2fs,e2fsck");
    assert_eq!(names(sides(&works[0], 0, 0)), ["mke2fs"]);
    assert_eq!(names(sides(&works[1], 0, 0)), ["e2fsck"]);
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    if !privilege::is_granted() {
        return;
    }
    // FUSE in memory, and an image on disk with a loop device.
    interrupt("postmark-mounted append-fdatasync --side jext-mount,jext-disk");
    interrupt("create-fsync --side jext-disk,ext4");
}

/// Interrupts works of a thousand rounds.
fn interrupt(works: &str) {
    let folder = Folder::new();
    let line = format!("bench peers {works} --small --runs 1000 --folder .");
    let mut command = folder.process(&line);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let image = || fs::read_dir(folder.path()).unwrap().count() > 0;
    let began = Instant::now();
    while !image() {
        assert!(began.elapsed() < PATIENCE, "it does not start");
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(700));
    let pid = Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let mut said = String::new();
    let mut errors = child.stderr.take().unwrap();
    errors.read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert_eq!(said, "xtask: interrupted\n");
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "files stay behind");
    assert_eq!(loops_of(folder.path()), 0, "loop devices stay behind");
    let lab = format!("jext-lab-{}-", pid.as_raw_nonzero());
    let temporary = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let mut names = temporary.filter_map(|entry| entry.file_name().into_string().ok());
    assert!(
        !names.any(|name| name.starts_with(&lab)),
        "mount points stay behind"
    );
}

#[test]
fn the_list_names_works_sides_and_bars() {
    let folder = Folder::new();
    let output = folder.command("bench peers --list").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("postmark-journal\n"), "{said}");
    assert!(
        said.contains("test 1 (bar 2.50 for jext-mem, jext-tmpfs)"),
        "{said}"
    );
    assert!(said.contains("1000000 entries"), "{said}");
}

#[test]
fn a_wrong_selection_or_a_missing_tool_is_one_error() {
    let folder = Folder::new();
    let fails = |line: &str, expected: &str| {
        let mut command = folder.command(&format!("bench peers {line}"));
        let output = command.env("PATH", folder.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said, format!("xtask: {expected}\n"));
    };
    fails(
        "postmarks",
        "postmarks: no such work; --list shows the works",
    );
    fails(
        "build --side xfs",
        "--side: none of these works has such a side; --list shows the sides",
    );
    if privilege::is_granted() {
        for tool in ["mount", "umount", "unshare"] {
            symlink(Path::new("/usr/bin").join(tool), folder.path().join(tool)).unwrap();
        }
        fails(
            "postmark-mounted --side jext-mount",
            "postmark-mounted on jext-mount (--side leaves it out): postmark is missing; apt-get install postmark",
        );
        fails(
            "overwrite-fdatasync --side raw --folder /mnt",
            "/mnt: the tmpfs of this command on /mnt hides it; choose another --folder",
        );
    }
}
