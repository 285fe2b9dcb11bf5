//! A log that holds transactions although the superblock does not say needs_recovery: what every
//! command does with it, beside what the kernel and e2fsck do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jext::{BlockDevice, FileDevice, MountOptions, OpenOptions, Volume};
use testkit::{Mount, privilege, tool};

use crate::support::Folder;

/// A name that only the log has.
const NAME: &str = "/only-in-the-log";

fn device(folder: &Folder, name: &str) -> Arc<dyn BlockDevice> {
    let path = folder.path().join(name);
    Arc::new(FileDevice::open(&path, &OpenOptions::default()).unwrap())
}

/// An image whose power was cut, and whose mark was taken away then. `journal` is the external
/// journal's name.
fn folder(journal: Option<&str>) -> Folder {
    let folder = Folder::new();
    match journal {
        None => folder.good("mkfs -q disk.img 16M"),
        Some(journal) => {
            folder.good(&format!("journal create -q -b 1024 {journal} 4M"));
            folder.good(&format!("mkfs -q -b 1024 -J device={journal} disk.img 16M"))
        }
    };
    let log = journal.map(|name| device(&folder, name));
    let volume = Volume::open(device(&folder, "disk.img"), log, MountOptions::default()).unwrap();
    volume.write_file(NAME, b"acknowledged").unwrap();
    volume.sync().unwrap();
    drop(volume);
    for name in ["disk.img"].into_iter().chain(journal) {
        folder.renew(name);
    }
    take_mark(&folder, "disk.img");
    folder
}

fn take_mark(folder: &Folder, name: &str) {
    let image = folder.path().join(name).display().to_string();
    let request = "feature ^needs_recovery";
    let said = tool::run_well("debugfs", &["-w", "-R", request, &image]);
    assert!(!said.contains("needs_recovery"), "{said}");
}

fn copy(folder: &Folder, name: &str) -> PathBuf {
    let to = folder.path().join(name);
    std::fs::copy(folder.path().join("disk.img"), &to).unwrap();
    to
}

/// Returns the output of e2fsck, and its status.
fn e2fsck(image: &Path, how: &str) -> (String, Option<i32>) {
    let output = tool::run("e2fsck", &[how.as_ref(), image.as_os_str()]);
    (tool::said(&output), output.status.code())
}

#[test]
fn nothing_is_opened_for_writing_before_somebody_has_decided() {
    let folder = folder(None);
    folder.write("file", b"");
    let before = folder.read("disk.img");
    for line in [
        "cp file disk.img:/file",
        "rm -f disk.img:/lost+found",
        "mkdir disk.img:/new",
        "tune -L label disk.img",
        "tune -O ^has_journal disk.img",
        "mount disk.img .",
    ] {
        let error = folder.bad(line);
        for words in [
            "needs_recovery",
            "jext journal replay",
            "jext journal discard",
        ] {
            assert!(error.contains(words), "{line}: {error}");
        }
    }
    // Read-only it is seen as it lies.
    assert_eq!(folder.good("ls disk.img"), "lost+found\n");
    let shown = folder.json("journal show --json disk.img");
    assert_eq!(shown["is_called_for"], false);
    let text = folder.good("journal show disk.img");
    assert!(
        text.contains("the superblock does not call for it"),
        "{text}"
    );
    let checked = folder.json("fsck --json disk.img");
    assert_eq!(checked["unmarked_transactions"], 1);
    assert_eq!(checked["problems"][0]["name"], "LogWithoutRecovery");
    assert!(folder.read("disk.img") == before, "somebody has written");
    let (said, _) = e2fsck(&folder.path().join("disk.img"), "-fn");
    assert!(
        said.contains("needs_recovery flag is clear, but journal has data"),
        "{said}"
    );
}

#[test]
fn replay_is_what_e2fsck_does() {
    let folder = folder(None);
    let theirs = copy(&folder, "theirs.img");
    let (said, status) = e2fsck(&theirs, "-fy");
    assert!(matches!(status, Some(0 | 1)), "{said}");
    let text = folder.good("journal replay disk.img");
    assert!(
        text.starts_with("disk.img: 1 transaction replayed"),
        "{text}"
    );
    for image in ["disk.img", "theirs.img"] {
        assert_eq!(folder.good(&format!("cat {image}:{NAME}")), "acknowledged");
        folder.check(image);
    }
}

#[test]
fn discard_is_what_the_kernel_does() {
    if !privilege::is_granted() {
        return;
    }
    let folder = folder(None);
    let theirs = copy(&folder, "theirs.img");
    let mount = Mount::new(&theirs, None, "ext4", "rw").unwrap();
    assert!(!mount.at(NAME).exists());
    drop(mount);
    let text = folder.good("journal discard disk.img");
    assert!(
        text.starts_with("disk.img: 1 transaction dropped"),
        "{text}"
    );
    for image in ["disk.img", "theirs.img"] {
        assert_eq!(folder.good(&format!("ls {image}")), "lost+found\n");
        folder.check(image);
    }
    // What is written afterwards is never taken for what was dropped.
    let volume = Volume::open(device(&folder, "disk.img"), None, MountOptions::default()).unwrap();
    volume.write_file("/new", b"new").unwrap();
    volume.sync().unwrap();
    drop(volume);
    folder.renew("disk.img");
    let text = folder.good("journal replay disk.img");
    assert!(
        text.starts_with("disk.img: 1 transaction replayed"),
        "{text}"
    );
    assert_eq!(folder.good("ls disk.img"), "lost+found\nnew\n");
    folder.check("disk.img");
}

#[test]
fn a_log_that_is_called_for_is_not_discarded() {
    let folder = folder(None);
    let image = folder.path().join("disk.img").display().to_string();
    tool::run_well("debugfs", &["-w", "-R", "feature needs_recovery", &image]);
    let error = folder.bad("journal discard disk.img");
    assert!(error.contains("jext journal replay"), "{error}");
    folder.good("journal replay disk.img");
    assert_eq!(folder.good(&format!("cat disk.img:{NAME}")), "acknowledged");
}

#[test]
fn it_is_the_same_with_an_external_journal() {
    let folder = folder(Some("log.img"));
    folder.write("file", b"");
    let error = folder.bad("cp --journal log.img file disk.img:/file");
    assert!(error.contains("jext journal discard"), "{error}");
    let error = folder.bad("tune -L name --journal log.img disk.img");
    assert!(error.contains("jext journal discard"), "{error}");
    // Without its device the contents of the log are unknown.
    let before = folder.read("disk.img");
    for change in ["-O ^dir_index", "-O ^metadata_csum", "-O mmp", "-O quota"] {
        let error = folder.bad(&format!("tune {change} disk.img"));
        assert!(error.contains("name the journal's device"), "{error}");
        assert!(folder.read("disk.img") == before, "{change}");
    }
    assert_eq!(folder.good("ls --journal log.img disk.img"), "lost+found\n");
    folder.good("journal replay --journal log.img disk.img");
    assert_eq!(
        folder.good(&format!("cat --journal log.img disk.img:{NAME}")),
        "acknowledged"
    );
}
