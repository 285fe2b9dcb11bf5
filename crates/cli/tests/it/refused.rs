//! The net: every command on every kind of bad input. Each says in one line what is wrong with
//! which object, and what to do, has a status that is not 0, and leaves everything as it was.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use jext::{BlockDevice, FileDevice, MountOptions, Volume};
use testkit::{Loop, privilege, tool};

use crate::support::Folder;

const MIB: usize = 1 << 20;

/// Commands that read an image, with `X` in its place.
const READERS: &[&str] = &[
    "ls X",
    "ls -lR X",
    "cat X:/f",
    "stat X:/f",
    "cp X:/f out",
    "cp -a X:/ out",
    "info X",
    "fsck X",
    "journal show X",
    "export X out.tar",
    "export X out.tar.gz",
    "export X out",
];
/// Commands that write to one.
const WRITERS: &[&str] = &[
    "cp file X:/h",
    "cp -a file X:/h",
    "mkdir X:/new",
    "rm X:/f",
    "mv X:/f X:/g",
    "ln X:/f X:/g",
    "tune -L label X",
    "journal replay X",
    "journal discard X",
    "mount X mnt",
];
/// Commands that make something of a file.
const MAKERS: &[&str] = &["build new.img X", "mkfs -d X new.img 8M"];
/// Commands that make a file system on a device.
const FORMATTERS: &[&str] = &["mkfs X", "journal create X"];

/// Names, sizes and contents below a folder.
fn state(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut state = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if path.is_dir() {
            state.extend(self::state(&path));
            state.insert(name, Vec::new());
        } else {
            state.insert(name, std::fs::read(path).unwrap());
        }
    }
    state
}

/// Returns the fault of a run of a command on a bad input, if there is one.
fn fault(folder: &Folder, line: &str, object: &str, words: &[&str]) -> Option<String> {
    let before = state(folder.path());
    let output = folder.command(line).output().unwrap();
    let mounted = folder.path().join("mnt").display().to_string();
    if line.starts_with("mount") && output.status.success() {
        tool::run("umount", &[&mounted]);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut wrong = Vec::new();
    match output.status.code() {
        Some(0) => wrong.push("succeeds".to_owned()),
        Some(1) => {}
        Some(4 | 8) if line.starts_with("fsck") => {}
        code => wrong.push(format!("ends with {code:?}")),
    }
    if said.lines().count() != 1 || !said.starts_with("jext: ") {
        wrong.push("is no one line".to_owned());
    }
    if !said.contains(object) {
        wrong.push(format!("does not name {object}"));
    }
    for word in words {
        if !said.contains(word) {
            wrong.push(format!("does not say {word:?}"));
        }
    }
    if said.contains("os error") || said.contains("panic") {
        wrong.push("speaks of itself".to_owned());
    }
    let after = state(folder.path());
    for name in before.keys().chain(after.keys()) {
        if before.get(name) != after.get(name) {
            wrong.push(format!("has changed {name}"));
        }
    }
    for name in after.keys().filter(|name| !before.contains_key(*name)) {
        let path = Path::new(name);
        let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
    }
    wrong.dedup();
    (!wrong.is_empty()).then(|| format!("{line}: {}: {said:?}", wrong.join(", ")))
}

/// Runs commands on one bad input; the words are what each must say.
fn check(folder: &Folder, object: &str, rows: &[(&[&str], &[&str])]) -> Vec<String> {
    let mut faults = Vec::new();
    for (lines, words) in rows {
        for line in *lines {
            faults.extend(fault(folder, &line.replace('X', object), object, words));
        }
    }
    faults
}

fn assert_none(faults: &[String]) {
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// A folder with an image, `good.img`, and what commands take beside it.
fn folder() -> Folder {
    folder_with("ext4")
}

fn folder_with(file_system: &str) -> Folder {
    let folder = Folder::new();
    folder.good(&format!("mkfs -q -t {file_system} good.img 8M"));
    folder.write("file", b"contents");
    folder.good("cp file good.img:/f");
    folder.good("mkdir good.img:/d");
    folder.good("cp file good.img:/d/bad");
    std::fs::create_dir(folder.path().join("mnt")).unwrap();
    folder
}

fn debugfs(folder: &Folder, image: &str, request: &str) {
    let path = folder.path().join(image);
    tool::run_well(
        "debugfs",
        &[
            "-w".as_ref(),
            "-R".as_ref(),
            request.as_ref(),
            path.as_os_str(),
        ],
    );
}

#[test]
fn what_is_no_image_is_told_by_every_command() {
    let folder = folder();
    let good = folder.read("good.img");
    folder.write("empty", b"");
    folder.write("zeroes", &vec![0; MIB]);
    std::fs::create_dir(folder.path().join("directory")).unwrap();
    let mut xfs = vec![0; MIB];
    xfs[..4].copy_from_slice(b"XFSB");
    folder.write("xfs", &xfs);
    folder.write("text", &b"no image at all\n".repeat(1000));
    let raw: Vec<u8> = [vec![0; MIB], good.clone()].concat();
    folder.write("raw", &raw);
    let mut disk = raw;
    disk[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 64, 0, 0]);
    disk[510..512].copy_from_slice(b"\x55\xAA");
    folder.write("disk", &disk);
    folder.write("cut", &good[..good.len() / 2]);
    let mut faults = Vec::new();
    let no_archive: &[&str] = &["build new.img X", "mkfs -d X new.img 8M"];
    let here: &[&str] = &["slice(", "1MiB..", "losetup"];
    for (object, words, made, on) in [
        (
            "missing",
            &["no such file", "jext mkfs"][..],
            &["No such file"][..],
            Some(&["give a size"][..]),
        ),
        (
            "empty",
            &["is empty", "jext mkfs"],
            &["is empty"],
            Some(&["is empty"]),
        ),
        (
            "zeroes",
            &["only zeroes", "jext mkfs"],
            &["only zeroes", "jext mkfs"],
            None,
        ),
        (
            "directory",
            &["is a directory", "jext build"],
            &[],
            Some(&["is a directory"]),
        ),
        (
            "xfs",
            &["is an XFS file system", "driver"],
            &["is an XFS file system"],
            Some(&["-F replaces it"]),
        ),
        (
            "text",
            &["holds no ext file system"],
            &["neither a directory nor a tar archive"],
            None,
        ),
        ("raw", here, here, Some(&["-F replaces it"])),
        ("disk", here, here, Some(&["-F replaces it"])),
        (
            "cut",
            &["but the device only", "copy it again"],
            &["jext export"],
            Some(&["-F replaces it"]),
        ),
    ] {
        // What is told of the superblock, and that it is cut short, can still be told.
        let readers: Vec<&str> = READERS
            .iter()
            .filter(|line| object != "cut" || !matches!(**line, "info X" | "fsck X"))
            .copied()
            .collect();
        faults.extend(check(
            &folder,
            object,
            &[(&readers, words), (WRITERS, words)],
        ));
        if !made.is_empty() {
            faults.extend(check(&folder, object, &[(no_archive, made)]));
        }
        if let Some(on) = on {
            faults.extend(check(&folder, object, &[(FORMATTERS, on)]));
        }
    }
    assert_eq!(no_archive, MAKERS);
    assert_none(&faults);
}

#[test]
fn one_bad_entry_hides_nothing_and_is_told() {
    let folder = folder();
    folder.write("half.img", &folder.read("good.img"));
    folder.renew("half.img");
    debugfs(&folder, "half.img", "clri /d/bad");
    debugfs(&folder, "half.img", "link <1500> /nowhere");
    let rows: &[(&[&str], &[&str])] = &[
        (&["ls -R half.img"], &[]),
        (
            &["ls -l X", "ls X:/d"],
            &["not in use", "jext fsck half.img"],
        ),
        (
            &["export X out.tar", "export X out"],
            &["not in use", "fsck"],
        ),
    ];
    assert_none(&check(&folder, "half.img", &rows[1..]));
    let output = folder.command("ls -lR half.img").output().unwrap();
    let (shown, said) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        shown.contains(" f\n") && shown.contains(" lost+found\n"),
        "{shown}"
    );
    assert!(
        shown
            .lines()
            .any(|line| line.starts_with("??????????") && line.ends_with(" bad")),
        "{shown}"
    );
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(
        said.contains("half.img:/d/bad: its inode")
            && said.contains("half.img:/nowhere: its inode 1500"),
        "{said}"
    );
    let json = folder
        .command("ls --json half.img")
        .output()
        .unwrap()
        .stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json[0]["entries"].as_array().unwrap().len(), 4, "{json}");
}

#[test]
fn arguments_that_cannot_be_are_named() {
    let folder = folder();
    let mut faults = Vec::new();
    for (line, object, words) in [
        (
            "cp missing good.img:/",
            "missing",
            &["no such file or directory"][..],
        ),
        (
            "cp -a missing good.img:/",
            "missing",
            &["no such file or directory"],
        ),
        (
            "cp file missing good.img:/",
            "missing",
            &["no such file or directory"],
        ),
        (
            "cp good.img:/missing .",
            "good.img:/missing",
            &["no such file or directory"],
        ),
        (
            "cp file good.img:/missing/x",
            "good.img:/missing/x",
            &["no such file or directory"],
        ),
        (
            "export good.img out.zip",
            "out.zip",
            &["OUT.tar.gz", ".zip"],
        ),
        (
            "export good.img out.tar.xz",
            "out.tar.xz",
            &["OUT.tar.zst", ".tar.xz"],
        ),
        (
            "export good.img missing/out.tar",
            "missing/out.tar",
            &["o such file"],
        ),
        (
            "export good.img missing/out",
            "missing/out",
            &["o such file"],
        ),
        ("export good.img file", "file", &[]),
        (
            "build missing/new.img mnt",
            "missing/new.img",
            &["o such file"],
        ),
        ("build good.img mnt", "good.img", &["-F replaces it"]),
        (
            "mkfs missing/new.img 8M",
            "missing/new.img",
            &["o such file"],
        ),
        ("mkfs good.img", "good.img", &["-F replaces it"]),
    ] {
        // Closing an image that was opened for writing sets its times.
        let copy = folder.read("good.img");
        let found = fault(&folder, line, object, words);
        folder.write("good.img", &copy);
        faults.extend(
            found.filter(|text| !text.contains(": has changed ") || !text.contains("good.img:")),
        );
    }
    assert_none(&faults);
}

#[test]
fn a_dirty_or_busy_image_is_not_changed_by_who_may_not() {
    let folder = folder();
    let path = folder.path().join("good.img");
    let device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(&path, &Default::default()).unwrap());
    let volume = Volume::open(device, None, MountOptions::default()).unwrap();
    volume.write_file("/synced", b"x").unwrap();
    volume.sync().unwrap();
    let dirty = folder.read("good.img");
    let own = format!("process {}", std::process::id());
    let words: &[&str] = &["is in use", &own];
    let writers: Vec<&str> = WRITERS.iter().chain(FORMATTERS).copied().collect();
    let readers: &[&str] = &[
        "cat X:/f",
        "cp X:/f out",
        "export X out.tar",
        "export X out",
        "fsck X",
        "journal show X",
    ];
    let faults = check(&folder, "good.img", &[(&writers, words), (readers, words)]);
    volume.close().unwrap();
    assert_none(&faults);
    folder.write("dirty.img", &dirty);
    let rows: &[(&[&str], &[&str])] = &[
        (&["tune -L label X"], &["journal replay"]),
        (&["journal discard X"], &["journal replay"]),
        (FORMATTERS, &["-F replaces it"]),
    ];
    assert_none(&check(&folder, "dirty.img", rows));
}

/// A loop device that takes no writes. The kernel keeps the mark when the device is detached, so
/// that it is taken away here.
struct ReadOnly(String);

impl ReadOnly {
    fn set(device: &str) -> Self {
        tool::run_well("blockdev", &["--setro", device]);
        Self(device.to_owned())
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        tool::run("blockdev", &["--setrw", &self.0]);
    }
}

#[test]
fn a_read_only_device_is_not_written_to() {
    if !privilege::is_granted() {
        return;
    }
    let folder = folder();
    let image = folder.path().join("good.img");
    let device = Loop::attach(&image);
    let guard = ReadOnly::set(device.path());
    let writers: Vec<&str> = WRITERS
        .iter()
        .filter(|line| !line.starts_with("mount"))
        .chain(FORMATTERS)
        .copied()
        .collect();
    let faults = check(&folder, device.path(), &[(&writers, &["read-only"])]);
    let listed = folder.good(&format!("ls {}", device.path()));
    drop(guard);
    assert_none(&faults);
    assert_eq!(listed, "d\nf\nlost+found\n");
}

/// A target without room: of the host, and in an image, of blocks and of inodes.
#[test]
fn a_full_target_is_told_and_left_as_it_was() {
    if !privilege::is_granted() {
        return;
    }
    let folder = folder();
    let bytes: Vec<u8> = (0..3 * MIB)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect();
    folder.write("big", &bytes);
    folder.good("cp big good.img:/big");
    let full = folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    let at = full.display().to_string();
    tool::run_well("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", &at]);
    let mut faults = Vec::new();
    for (line, object) in [
        ("export good.img full/out.tar", "full/out.tar"),
        ("export good.img full/out", "full/out"),
        ("cp good.img:/big full/out", "full/out"),
        ("build full/new.img big.tar", "full/new.img"),
    ] {
        if line.contains("big.tar") {
            folder.good("export good.img big.tar");
        }
        faults.extend(fault(&folder, line, object, &["o space left"]));
    }
    tool::run_well("umount", &[&at]);
    assert_none(&faults);
    // An image's own blocks and inodes are told apart. It is closed and whole afterwards; only its
    // times differ.
    folder.good("mkfs -q small.img 2M");
    let said = folder.bad("cp big small.img:/big");
    assert!(
        said.starts_with("small.img:/big: no space is left"),
        "{said}"
    );
    assert_eq!(folder.good("ls small.img"), "lost+found\n");
    folder.check("small.img");
    folder.good("mkfs -q -N 16 few.img 2M");
    let mut said = String::new();
    for number in 0..20 {
        let output = folder
            .command(&format!("cp file few.img:/{number}"))
            .output()
            .unwrap();
        if !output.status.success() {
            said = tool::said(&output);
            break;
        }
    }
    assert!(
        said.contains("few.img:/") && said.contains("no inode is left") && said.contains("mkfs -N"),
        "{said}"
    );
    folder.check("few.img");
}

/// A name that cannot be, and a block that is damaged behind its first entries: what is sound is
/// listed.
#[test]
fn what_is_sound_in_a_damaged_directory_is_listed() {
    // A block with a wrong checksum is not read at all.
    let folder = folder_with("ext3");
    for number in 0..6 {
        folder.good(&format!("cp file good.img:/d/name-{number}"));
    }
    let good = folder.read("good.img");
    // In the name, and in the length of an entry before it; the log has copies of the block.
    for (before, bytes) in [(0, b"na/e".as_slice()), (4, &[3, 0])] {
        let mut damaged = good.clone();
        for at in 4..good.len() - 6 {
            if good[at..].starts_with(b"name-3") {
                damaged[at - before..at - before + bytes.len()].copy_from_slice(bytes);
            }
        }
        folder.write("half.img", &damaged);
        let output = folder.command("ls half.img:/d").output().unwrap();
        let (shown, said) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert_eq!(output.status.code(), Some(1), "{said}");
        for name in ["bad", "name-0", "name-1", "name-2"] {
            assert!(shown.contains(name), "{name}: {shown}{said}");
        }
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(
            said.starts_with("jext: half.img:/d: ") && said.contains("jext fsck half.img"),
            "{said}"
        );
        let rows: &[(&[&str], &[&str])] = &[(
            &["export X out.tar", "export X out", "cp -r X:/d out"],
            &["e2fsck -f"],
        )];
        let faults = check(&folder, "half.img", rows);
        let faults: Vec<String> = faults
            .into_iter()
            .filter(|text| !text.starts_with("cp -r"))
            .collect();
        assert_none(&faults);
    }
}

/// Images of a file system are refused by commands that take archives, also from a pipe.
#[test]
fn what_comes_through_a_pipe_is_looked_at_too() {
    let folder = folder();
    for (name, bytes) in [
        ("image", folder.read("good.img")),
        ("zeroes", vec![0; MIB]),
        ("nothing", Vec::new()),
    ] {
        let output = folder
            .command("build new.img -")
            .write_stdin(bytes)
            .output()
            .unwrap();
        let said = tool::said(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert_eq!(said.lines().count(), 1, "{name}: {said}");
        assert!(!folder.path().join("new.img").exists(), "{name}");
    }
    // GNU tar's own archive of nothing is zeroes, too.
    let made = Command::new("tar")
        .args(["-cf", "none.tar", "-T", "/dev/null"])
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    assert!(folder.bad("build new.img none.tar").contains("only zeroes"));
    let image = std::fs::File::options()
        .write(true)
        .open(folder.path().join("good.img"))
        .unwrap();
    image.write_all_at(&[0xEB, 0x63, 0x90], 0).unwrap();
    assert!(
        folder
            .bad("build new.img good.img")
            .contains("is an image of an ext file system")
    );
}
