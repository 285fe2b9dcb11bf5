//! Guests: real kernels in cages. By default Debian's kernel runs in real time on files. The kernel
//! of `jext lab kernel build` runs in virtual time: see `in_virtual_time.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use lab::guest::job::{Job, Report};
use uml::guest::Disks;
use uml::serve::{self, Watcher};
use uml::{Guest, GuestError, GuestSetup, Kernel};

use crate::support::Folder;

/// Size of the image of a file system: XFS accepts no smaller one.
pub(crate) const IMAGE_BYTES: u64 = 320 << 20;
pub(crate) const KINDS: [&str; 7] = ["ext2", "ext3", "ext4", "reiserfs", "jfs", "xfs", "btrfs"];
pub(crate) const SMALL: [&str; 5] = [
    "--no-latencies",
    "--set",
    "number 50",
    "--set",
    "transactions 50",
];
/// Everything that root of a guest may try against its host, and what it must not achieve.
const ATTACK: &str = "
    mount -o remount,rw /
    mount -t hostfs none /tmp -o / && mount -o remount,rw /tmp
    for root in / /tmp; do
        mknod $root/disk b 8 0; mknod $root/usr/disk b 254 0
        echo broken > $root/program; echo broken > $root/kernel; echo broken > $root/usr/bin/env
        chmod 777 $root/usr; mv $root/usr $root/other; ln -sf /etc/shadow $root/job
        timeout 10 rm -rf --no-preserve-root $root/usr; rm -rf --no-preserve-root $root/etc $root/job $root/program $root/kernel $root/bin $root/lib
    done
    timeout 10 rm -rf --no-preserve-root /
    true";

/// Returns a folder with an empty image.
pub(crate) fn with_image() -> Folder {
    let folder = Folder::new();
    let image = File::create(folder.path().join("disk.img")).unwrap();
    image.set_len(IMAGE_BYTES).unwrap();
    folder
}

pub(crate) fn bench(folder: &Folder, kind: &str, more: &[&str]) -> serde_json::Value {
    let line = format!("bench postmark uml:{kind} --json");
    let output = folder
        .command(&line)
        .args(SMALL)
        .args(more)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{kind}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_file_system_runs_in_real_time() {
    for kind in KINDS {
        let folder = with_image();
        let result = bench(&folder, kind, &["--device", "disk.img"]);
        let metrics = &result["measured"]["metrics"];
        assert_eq!(metrics["transactions"], 50.0, "{kind}");
        assert!(metrics["elapsed"].as_f64().unwrap() > 0.0, "{kind}");
        if kind.starts_with("ext") {
            folder.check("disk.img");
        }
    }
}

#[test]
fn a_volume_and_a_log_that_xfs_does_not_support_are_made_and_noted() {
    let folder = Folder::new();
    for (name, bytes) in [("disk.img", 100 << 20), ("log.img", 32 << 20)] {
        let image = File::create(folder.path().join(name)).unwrap();
        image.set_len(bytes).unwrap();
    }
    let more = ["--device", "disk.img", "--key", "journal=log.img"];
    let result = bench(&folder, "xfs", &more);
    assert_eq!(result["measured"]["metrics"]["transactions"], 50.0);
    let notes = result["measured"]["notes"].to_string();
    assert!(
        notes.contains("made with --unsupported: mkfs.xfs refuses it otherwise ("),
        "{notes}"
    );
}

#[test]
fn a_parameter_that_looks_like_a_number_reaches_a_guest() {
    // The version of Bonnie++ is a word.
    let folder = with_image();
    let line = "bench bonnie uml:ext2 --device disk.img --set size=1MiB --set version=1.03 --json";
    let output = folder
        .command(line)
        .args(["--set", "files=1"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
}

/// A watcher that keeps the reports, and cancels the guest at a time.
#[derive(Default)]
pub(crate) struct Reports(pub(crate) Vec<Report>, pub(crate) Option<Instant>);

impl Watcher for Reports {
    fn report(&mut self, text: &str) {
        self.0.extend(Report::parse(text));
    }

    fn is_cancelled(&self) -> bool {
        self.1.is_some_and(|end| Instant::now() >= end)
    }
}

pub(crate) fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("jext").to_path_buf()
}

/// Returns a guest on an image in which these commands run before the file system is mounted.
pub(crate) fn guest_of(image: &Path, commands: &[&str]) -> GuestSetup {
    let shell = |script: &&str| ["sh", "-c", script].map(str::to_owned).to_vec();
    let job = Job {
        modules: Vec::new(),
        commands: commands.iter().map(shell).collect(),
        kind: "ext2".to_owned(),
        device: "/dev/ubda".to_owned(),
        options: "defaults".to_owned(),
        values: Vec::new(),
        mounted_values: Vec::new(),
        pause_ns: 0,
        host: None,
        workload: "postmark".to_owned(),
        parameters: Vec::new(),
    };
    GuestSetup {
        kernel: Kernel::in_real_time().expect("scripts/install-test-tools installs it"),
        program: program(),
        memory_bytes: 128 << 20,
        queue_depth: None,
        disks: Disks::Images(vec![image.to_owned()]),
        job: serde_json::to_string(&job).unwrap(),
        seed: 1,
    }
}

/// Size, mode, owner and time of change of files.
pub(crate) type Tree = BTreeMap<PathBuf, (u64, u32, u32, i64, i64)>;

/// Returns the facts of every file below some folders, down to a depth.
pub(crate) fn tree(folders: &[&Path], depth: usize) -> Tree {
    let mut all = BTreeMap::new();
    let mut open: Vec<(PathBuf, usize)> =
        folders.iter().map(|f| (f.to_path_buf(), depth)).collect();
    while let Some((path, depth)) = open.pop() {
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        if found.is_dir() && depth > 0 {
            for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
                open.push((entry.path(), depth - 1));
            }
        }
        let facts = (
            found.size(),
            found.mode(),
            found.uid(),
            found.ctime(),
            found.ctime_nsec(),
        );
        all.insert(path, facts);
    }
    all
}

/// Returns the files that two calls of `tree` found different.
pub(crate) fn changed(before: &Tree, after: &Tree) -> Vec<PathBuf> {
    let all = before.keys().chain(after.keys());
    let different = all.filter(|path| before.get(*path) != after.get(*path));
    different
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

#[test]
fn a_guest_that_deletes_everything_leaves_the_host_as_it_is() {
    let folder = with_image();
    folder.write("canary", b"alive");
    let image = folder.path().join("disk.img");
    let binary = program();
    let watched = [
        "/usr", "/etc", "/mnt", "/media", "/srv", "/boot", "/bin", "/lib",
    ];
    let mut watched: Vec<&Path> = watched.iter().map(Path::new).collect();
    let canary = folder.path().join("canary");
    watched.push(canary.as_path());
    let before = tree(&watched, 3);
    // Its bytes: other tests link the program elsewhere, which changes its inode.
    let program_before = fs::read(&binary).unwrap();
    assert!(before.len() > 1000, "{}", before.len());
    let script = format!("({ATTACK}) 2>/dev/null; ls / /usr/bin | wc -l >&2; false");
    let guest = Guest::start(&guest_of(&image, &[&script])).unwrap();
    let mut reports = Reports::default();
    serve::in_real_time(&guest, &mut reports).unwrap();
    drop(guest);
    assert_eq!(changed(&before, &tree(&watched, 3)), Vec::<PathBuf>::new());
    assert!(fs::read(&binary).unwrap() == program_before);
    // The attack ran to its end. The guest then may lack the programs that it needs to say so.
    assert_eq!(folder.read("canary"), b"alive");
    let [Report::Failed(cause)] = reports.0.as_slice() else {
        panic!("{:?}", reports.0);
    };
    assert!(cause.contains("exit status: 1"), "{cause}");
}

#[test]
fn a_guest_that_panics_shows_its_console() {
    let folder = with_image();
    let image = folder.path().join("disk.img");
    let crash = "echo c > /proc/sysrq-trigger";
    let guest = Guest::start(&guest_of(&image, &[crash])).unwrap();
    let mut reports = Reports::default();
    serve::in_real_time(&guest, &mut reports).unwrap();
    assert!(reports.0.is_empty(), "{:?}", reports.0);
    let console = guest.console_tail();
    assert!(
        console.contains("sysrq") || console.contains("panic"),
        "{console}"
    );
}

#[test]
fn a_cage_that_cannot_be_made_says_why() {
    let folder = with_image();
    let mut setup = guest_of(&folder.path().join("none.img"), &[]);
    setup.program = program();
    match Guest::start(&setup) {
        Err(GuestError::Ended(console)) => assert!(console.contains("none.img"), "{console}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_plan_without_its_kernel_is_refused_in_one_line() {
    let folder = Folder::new();
    let mut command = folder.command("lab run external-journal-kernel-6.1 --results records");
    let output = command
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains("target: no kernel with virtual time"),
        "{error}"
    );
    assert!(error.contains("jext lab kernel build"), "{error}");
}

#[test]
fn guests_refuse_what_they_cannot_do() {
    let folder = with_image();
    for (arguments, expected) in [
        ("uml:ext3", "device: a file system needs one"),
        ("uml:ext5 --device disk.img", "target: expected"),
        (
            "uml:btrfs --device disk.img --key journal=mem:64MiB",
            "journal: btrfs has none",
        ),
        (
            "uml:xfs --device disk.img --key fs.data=journal",
            "fs.data: has no effect for uml:xfs",
        ),
        ("uml:ext3 --device disk.img --key host=zero", "in real time"),
        (
            "uml:ext3 --device disk.img --key journal=mem:64MiB",
            "not both simulated",
        ),
        (
            "mem:64MiB --device disk.img",
            "--device, --key, --record and -F are for uml:TYPE",
        ),
    ] {
        let error = folder.bad(&format!("bench postmark {arguments}"));
        assert!(error.contains(expected), "{arguments}: {error}");
    }
    folder.good("mkfs -q -L data disk.img");
    let before = folder.read("disk.img");
    let error = folder.bad("bench postmark uml:xfs --device disk.img");
    let expected = "disk.img: holds an ext file system labelled \"data\"";
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("-F replaces it"), "{error}");
    assert!(folder.read("disk.img") == before);
    for command in ["guest-cage", "guest-init"] {
        let error = folder.bad(command);
        assert!(error.contains("only"), "{command}: {error}");
    }
}
