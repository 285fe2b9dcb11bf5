//! Commands that are interrupted: by a signal they end with 128 and its number and one line;
//! whatever ends them, nothing is left.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::tool;

use crate::support::Folder;

/// Bytes of the file that takes a while.
const FILE_BYTES: usize = 96 << 20;
/// Attempts to hit a command in the middle.
const ATTEMPTS: u64 = 60;
/// Time between two looks at how far a command is.
const POLL: Duration = Duration::from_micros(100);
/// Parts of a command's work at which signals are sent, one after the other.
const PARTS: u64 = 20;

/// Returns the names in a folder, and the size of each.
fn listing(folder: &Folder) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![folder.path().to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                waiting.push(entry.path());
            }
            let bytes = if metadata.is_dir() { 0 } else { metadata.len() };
            found.insert(entry.path().display().to_string(), bytes);
        }
    }
    found
}

/// Waits until a process has read so many bytes, or has ended. A waiter that sleeps is scheduled
/// as soon as it wakes; one that polls without a pause uses up its share of a busy machine, and
/// then sees the process again when it has ended.
fn wait_for_reads(child: &mut Child, bytes: u64) {
    let path = format!("/proc/{}/io", child.id());
    while child.try_wait().unwrap().is_none() {
        let counters = std::fs::read_to_string(&path).unwrap();
        let line = counters.lines().next().unwrap();
        let read: u64 = line.strip_prefix("rchar: ").unwrap().parse().unwrap();
        if read >= bytes {
            return;
        }
        std::thread::sleep(POLL);
    }
}

/// Sends a signal to a command, each time at another part of its work, until one comes in the
/// middle. Whenever it comes, nothing is left. The command runs with the lowest priority, so that
/// it cannot end before the test sees how far it is.
fn interrupt(folder: &Folder, line: &str, signal: i32, undo: impl Fn()) {
    let before = listing(folder);
    for attempt in 1..=ATTEMPTS {
        // Shells start commands in the background with signals ignored, and jext leaves those so.
        let mut child = Command::new("env")
            .args(["--default-signal=HUP,INT,TERM", "nice", "-n", "19"])
            .arg(assert_cmd::cargo::cargo_bin("jext"))
            .args(line.split_whitespace())
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_reads(
            &mut child,
            (attempt % PARTS + 1) * FILE_BYTES as u64 / PARTS,
        );

        // No program of its own: it would come too late on a busy machine.
        let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
        kill(process, Signal::try_from(signal).unwrap()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = tool::said(&output);
        if output.status.success() {
            undo();
            assert_eq!(listing(folder), before, "the test restores what was there");
            continue;
        }
        assert_eq!(listing(folder), before, "{line}, signal {signal}: {said}");
        if output.status.code() == Some(128 + signal) {
            assert_eq!(said.lines().count(), 1, "{line}: {said}");
            assert!(said.contains("interrupted by SIG"), "{line}: {said}");
            return;
        }
        // Before it watches for signals, and always by 9, it is ended from outside.
        assert_eq!(output.status.signal(), Some(signal), "{line}: {said}");
        if signal == 9 && attempt > 5 {
            return;
        }
    }
    panic!("{line}: {ATTEMPTS} attempts, and none in the middle");
}

/// Removes what a command has made that was not interrupted after all.
fn remove(folder: &Folder, name: &str) {
    let path = folder.path().join(name);
    if path.is_dir() {
        std::fs::remove_dir_all(path).unwrap();
    } else {
        std::fs::remove_file(path).unwrap();
    }
}

fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    let bytes: Vec<u8> = (0..FILE_BYTES / 4)
        .flat_map(|at| (at as u32).to_le_bytes())
        .collect();
    folder.write("tree/large", &bytes);
    folder.good("build -q full.img tree");
    folder
}

#[test]
fn what_was_being_made_is_gone_whatever_ends_the_command() {
    let folder = folder();
    for signal in [2, 15, 1, 9] {
        for (line, made) in [
            ("build -q new.img tree", "new.img"),
            ("export full.img new.tar", "new.tar"),
            ("mkfs -q -d tree filled.img 160M", "filled.img"),
        ] {
            interrupt(&folder, line, signal, || remove(&folder, made));
        }
    }
    for (line, made) in [
        ("export full.img new.tar.zst", "new.tar.zst"),
        ("export full.img directory", "directory"),
        ("cp full.img:/large copy", "copy"),
    ] {
        interrupt(&folder, line, 2, || remove(&folder, made));
    }
}

/// Files are not made in a directory while it is removed.
#[test]
fn a_directory_of_many_files_is_gone() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path().join("tree")).unwrap();
    for number in 0..8000 {
        folder.write(&format!("tree/{number}"), b"");
    }
    folder.good("build -q full.img tree");
    std::fs::create_dir(folder.path().join("filled")).unwrap();
    let before = listing(&folder);
    let mut in_the_middle = 0;
    for attempt in 0..ATTEMPTS {
        let made = ["new", "filled"][attempt as usize % 2];
        let mut child = Command::new("env")
            .args(["--default-signal=INT", "nice", "-n", "19"])
            .arg(assert_cmd::cargo::cargo_bin("jext"))
            .args(["export", "full.img", made])
            .current_dir(folder.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Until the command has made its directory, or something in the one that is there.
        let count = || std::fs::read_dir(folder.path()).unwrap().count();
        let is_filled = || {
            std::fs::read_dir(folder.path().join("filled"))
                .unwrap()
                .count()
                > 0
        };
        while child.try_wait().unwrap().is_none() && count() == 3 && !is_filled() {
            std::thread::sleep(POLL);
        }
        let process = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let _ = kill(process, Signal::SIGINT);
        let status = child.wait().unwrap();
        if status.success() {
            remove(&folder, made);
            let _ = std::fs::create_dir(folder.path().join("filled"));
        } else if status.code() == Some(128 + 2) {
            in_the_middle += 1;
        }
        assert!(listing(&folder) == before, "{made}: {status}");
    }
    assert!(in_the_middle > 0, "{ATTEMPTS} attempts");
}

/// An image that a copy was going into is whole, and does not have half of the copy.
#[test]
fn an_interrupted_copy_leaves_an_image_whole() {
    let folder = folder();
    folder.good("mkfs -q disk.img 160M");
    interrupt(&folder, "cp tree/large disk.img:/large", 15, || {
        folder.good("rm disk.img:/large");
    });
    assert_eq!(folder.good("ls disk.img"), "lost+found\n");
    folder.check("disk.img");
}

/// The one that is replaced stays until the new one is whole.
#[test]
fn an_interrupted_build_leaves_what_it_was_to_replace() {
    let folder = folder();
    folder.good("mkfs -q old.img 4M");
    let old = folder.read("old.img");
    interrupt(&folder, "build -q -F old.img tree", 15, || {
        folder.write("old.img", &old);
    });
    assert!(folder.read("old.img") == old);
}

/// An image and its hash tree are of one build.
#[test]
fn an_interrupted_build_leaves_image_and_hash_tree_as_they_were() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("small")).unwrap();
    folder.write("small/file", b"text");
    folder.good("build -q --verity=hashes old.img small");
    let pair = || ["old.img", "hashes"].map(|name| folder.read(name));
    let old = pair();
    for signal in [2, 15] {
        interrupt(
            &folder,
            "build -q -F --verity=hashes old.img tree",
            signal,
            || {
                folder.good("build -q -F --verity=hashes old.img small");
                folder.write("old.img", &old[0]);
                folder.write("hashes", &old[1]);
            },
        );
        assert!(pair() == old);
    }
}

/// The journal belongs to the old image as long as that exists.
#[test]
fn an_interrupted_build_leaves_the_journal_to_the_old_image() {
    let folder = folder();
    let uuid = "-U 6e0aa8d8-4a3e-4b9c-9a8e-3f5c0ffee000";
    std::fs::create_dir(folder.path().join("small")).unwrap();
    folder.write("small/file", b"text");
    folder.good("journal create -q log.img 8M");
    folder.good(&format!("build -q {uuid} -J device=log.img old.img small"));
    let (old, log) = (folder.read("old.img"), folder.read("log.img"));
    for uuid in [uuid, ""] {
        let line = format!("build -q -F {uuid} -J device=log.img old.img tree");
        interrupt(&folder, &line, 15, || {
            folder.write("old.img", &old);
            folder.write("log.img", &log);
        });
        assert!(folder.read("old.img") == old && folder.read("log.img") == log);
    }
}

/// An ignored signal, as by nohup, stays ignored.
#[test]
fn nohup_is_heeded() {
    let folder = folder();
    let line = "nohup \"$0\" build -q new.img tree 2>/dev/null & kill -HUP $!; sleep 0.05; kill -HUP $! 2>/dev/null; wait $!";
    let status = Command::new("bash")
        .args(["-c", line])
        .arg(assert_cmd::cargo::cargo_bin("jext"))
        .current_dir(folder.path())
        .status()
        .unwrap();
    // The first signal may come before nohup itself has run.
    if status.code() != Some(128 + 1) {
        assert!(status.success(), "{status:?}");
        folder.check("new.img");
    }
}
