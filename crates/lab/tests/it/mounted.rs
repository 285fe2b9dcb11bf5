//! Trials on file systems that the kernel or a program mounts.

use std::fs;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use lab::Plan;
use lab::runner::{self, NoProgress, RunOptions, RunOutcome};
use testkit::{privilege, tool};

fn plan(fixed: &str, factors: &str) -> Plan {
    let text = format!(
        "[plan]\nname = \"mounted\"\nquestion = \"Does it run?\"\nrepetitions = 2\n[fixed]\n{fixed}\n\
         postmark.number = 50\npostmark.transactions = 200\npostmark.final_sync = \"end\"\n[factors]\n{factors}\n"
    );
    Plan::parse("mounted.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn run(plan: &Plan) -> RunOutcome {
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions {
        folder: folder.path().to_owned(),
        ..RunOptions::default()
    };
    let progress: Arc<dyn lab::Progress> = Arc::new(NoProgress);
    let outcome = runner::run(plan, &options, &progress).unwrap();
    assert_eq!(outcome.failures, []);
    outcome
}

/// Serialises the tests of this file, which check the mounts of the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// Asserts that all mounts and attachments of this process are gone.
fn assert_nothing_is_left() {
    let own = format!("jext-lab-{}-", std::process::id());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&own), "{mounts}");
    let loops = Command::new("losetup").arg("--list").output().unwrap();
    let loops = tool::said(&loops);
    assert!(!loops.contains(&own), "{loops}");
    let left: Vec<_> = fs::read_dir(std::env::temp_dir())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter(|name| name.starts_with(&own))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn file_systems_are_made_mounted_and_measured() {
    if !privilege::is_granted() {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let file = format!("device = \"{}\"", image.display());
    let memory = "device = \"mem:400MiB\"";
    let journals = "journal = [\"internal\", \"mem:16MiB\"]";
    let cases = [
        ("kernel:ext3", memory, journals, 4),
        (
            "kernel:ext3",
            &file,
            "fs.data = [\"ordered\", \"journal\"]",
            4,
        ),
        ("kernel:ext4", &file, "fs.block_size = [1024, 4096]", 4),
        ("kernel:ext2", &file, "fs.sync = [true]", 2),
        (
            "kernel:xfs",
            memory,
            "journal = [\"internal\", \"mem:128MiB\"]",
            4,
        ),
        ("kernel:tmpfs", memory, "", 2),
        ("kernel:ramfs", memory, "fs.sync = [true]", 2),
        ("fuse:fuse2fs", &file, "fs.block_size = [1024]", 2),
        ("fuse:fuse2fs", memory, "fs.block_size = [4096]", 2),
    ];
    for (target, device, factors, trials) in cases {
        let plan = plan(&format!("target = \"{target}\"\n{device}"), factors);
        assert!(plan.mounts());
        let outcome = run(&plan);
        assert_eq!(outcome.records.len(), trials, "{target}");
        for record in &outcome.records {
            let metrics = &record.measured.metrics;
            assert!(metrics["elapsed"] > 0.0, "{target}");
            // Requests of a FUSE program to a file are not counted, and memory has none.
            let is_memory = ["kernel:tmpfs", "kernel:ramfs"].contains(&target);
            let has_device = target.starts_with("kernel:") && !is_memory;
            assert_eq!(metrics.contains_key("home_writes"), has_device, "{target}");
            if !has_device {
                continue;
            }
            assert!(metrics["home_writes"] > 0.0, "{target}");
            let has_log = record.context.settings["journal"].starts_with("mem:");
            assert_eq!(metrics["log_writes"] > 0.0, has_log, "{target}");
        }
        assert_nothing_is_left();
    }
}

#[test]
fn what_the_system_lacks_is_said_before_anything_is_touched() {
    if !privilege::is_granted() {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cases = [
        ("kernel:nofs", "mem:64MiB", "mkfs.nofs is missing"),
        ("kernel:minix", "mem:64MiB", "this kernel has no minix"),
        ("kernel:ext3", "/nowhere/image", "/nowhere/image: a file"),
    ];
    for (target, device, expected) in cases {
        let plan = plan(&format!("target = \"{target}\"\ndevice = \"{device}\""), "");
        let folder = tempfile::tempdir().unwrap();
        let options = RunOptions {
            folder: folder.path().to_owned(),
            ..RunOptions::default()
        };
        let progress: Arc<dyn lab::Progress> = Arc::new(NoProgress);
        let error = runner::run(&plan, &options, &progress).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains(expected), "{said}");
        assert_nothing_is_left();
    }
}
