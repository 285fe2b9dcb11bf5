//! Images that were not closed cleanly, or that are in use: readers see the result of a recovery,
//! and change nothing.

use std::process::Command;
use std::sync::Arc;

use jext::volume::NewInode;
use jext::{BlockDevice, FileDevice, MountOptions, Volume};
use testkit::tree::{difference, of_folder};
use testkit::{Mount, Shutdown, privilege, tool};

use crate::support::Folder;

fn open(folder: &Folder, name: &str) -> Arc<dyn BlockDevice> {
    let path = folder.path().join(name);
    Arc::new(FileDevice::open(path, &Default::default()).unwrap())
}

/// Makes `dirty.img`, and with `is_external` its journal `dirty.log`: as after a crash, with what
/// was synced only in the log.
fn crash(folder: &Folder, is_external: bool) {
    folder.good("mkfs -q disk.img 16M");
    let log = is_external.then(|| {
        folder.good("journal create -q -b 1024 disk.log 4M");
        folder.good("mkfs -q -F -b 1024 -J device=disk.log disk.img");
        open(folder, "disk.log")
    });
    let volume = Volume::open(open(folder, "disk.img"), log, MountOptions::default()).unwrap();
    volume.create_directory("/there").unwrap();
    volume.write_file("/there/file", &[7; 100_000]).unwrap();
    let mut file = volume
        .create_file("/there/other", &NewInode::default())
        .unwrap();
    file.write_all(b"synced\n").unwrap();
    file.sync_all().unwrap();
    volume.sync().unwrap();
    for name in ["img", "log"] {
        let (from, to) = (format!("disk.{name}"), format!("dirty.{name}"));
        if is_external || name == "img" {
            folder.write(&to, &folder.read(&from));
        }
    }
    file.close().unwrap();
    volume.close().unwrap();
}

/// Returns the output of a command that succeeds with one line on standard error.
fn noted(folder: &Folder, line: &str, words: &[&str]) -> Vec<u8> {
    let output = folder.command(line).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{line}: {said}");
    assert_eq!(said.lines().count(), 1, "{line}: {said}");
    for word in words {
        assert!(said.contains(word), "{line}: {said}");
    }
    output.stdout
}

#[test]
fn what_a_crash_left_is_read_as_if_it_were_replayed() {
    for is_external in [false, true] {
        let folder = Folder::new();
        crash(&folder, is_external);
        let options = if is_external {
            "--journal dirty.log"
        } else {
            ""
        };
        let before = folder.read("dirty.img");
        folder.write("replayed.img", &before);
        let words = ["dirty.img: was not closed cleanly", "replayed in memory"];
        let read = |command: &str| noted(&folder, &format!("{command} {options}"), &words);
        assert_eq!(read("cat dirty.img:/there/other"), b"synced\n");
        assert_eq!(read("ls dirty.img:/there"), b"file\nother\n");
        assert!(!read("stat dirty.img:/there/file").is_empty());
        read("cp dirty.img:/there/file out");
        assert_eq!(folder.read("out"), [7; 100_000]);
        read("export dirty.img dirty.tar");
        assert!(folder.read("dirty.img") == before, "the image has changed");
        if is_external {
            noted(&folder, "info dirty.img --journal dirty.log", &words);
            noted(
                &folder,
                "info dirty.img",
                &["shown as it lies", "--journal"],
            );
            let said = folder.good("fsck dirty.img --journal dirty.log");
            assert!(
                said.contains("replayed in memory") && said.contains("clean"),
                "{said}"
            );
            continue;
        }
        // e2fsck replays a copy: the same tree, and the same facts but for the journal's own.
        let copy = folder.path().join("replayed.img");
        let replayed = tool::run("e2fsck", &["-fy".as_ref(), copy.as_os_str()]);
        assert!(
            replayed.status.code() <= Some(1),
            "{}",
            tool::said(&replayed)
        );
        folder.good("export replayed.img replayed.tar");
        assert!(folder.read("dirty.tar") == folder.read("replayed.tar"));
        let info = noted(&folder, "info --json --groups dirty.img", &words[..1]);
        let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
        let expected = folder.json("info --json --groups replayed.img");
        let features = info["features"].as_array().unwrap();
        assert!(
            features.iter().any(|name| name == "needs_recovery"),
            "{info}"
        );
        // An open for writing corrects the counts of the superblock.
        for key in ["groups", "inodes", "blocks", "uuid"] {
            assert_eq!(info[key], expected[key], "{key}");
        }
        assert!(folder.read("dirty.img") == before, "the image has changed");
    }
}

#[test]
fn fsck_checks_what_a_replay_would_leave() {
    let folder = Folder::new();
    crash(&folder, false);
    let before = folder.read("dirty.img");
    let said = folder.good("fsck dirty.img");
    assert!(said.contains("of its journal replayed in memory"), "{said}");
    assert!(said.contains("dirty.img: clean, 14/"), "{said}");
    let json = folder.json("fsck --json dirty.img");
    assert_eq!(json["needs_recovery"], true, "{json}");
    assert!(
        json["replayed_transactions"].as_u64().unwrap() > 0,
        "{json}"
    );
    assert!(folder.read("dirty.img") == before, "the image has changed");
    // What the log says is what counts: damage that lies in it is found.
    let image = folder.path().join("dirty.img");
    let mut bytes = before;
    let name = b"other";
    let places: Vec<usize> = (0..bytes.len() - name.len())
        .filter(|at| bytes[*at..].starts_with(name))
        .collect();
    for at in places {
        bytes[at..at + 2].copy_from_slice(b"/\0");
    }
    std::fs::write(image, bytes).unwrap();
    let output = folder.command("fsck dirty.img").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", tool::said(&output));
}

#[test]
fn a_damaged_journal_leaves_fsck_with_what_lies_there() {
    let folder = Folder::new();
    crash(&folder, false);
    let image = folder.path().join("dirty.img");
    // The journal's inode is gone.
    tool::run_well(
        "debugfs",
        &[
            "-w".as_ref(),
            "-R".as_ref(),
            "clri <8>".as_ref(),
            image.as_os_str(),
        ],
    );
    let output = folder.command("fsck dirty.img").output().unwrap();
    let said = tool::said(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("the journal cannot be replayed") && said.contains("checked as it lies"),
        "{said}"
    );
    let said =
        String::from_utf8(folder.command("info dirty.img").output().unwrap().stderr).unwrap();
    assert!(said.contains("shown as it lies"), "{said}");
}

#[test]
fn a_log_that_cannot_be_replayed_is_not_clean() {
    const DESCRIPTOR: [u8; 8] = [0xC0, 0x3B, 0x39, 0x98, 0, 0, 0, 1];
    let folder = Folder::new();
    // With checksums: a log without them ends where it is damaged.
    folder.good("mkfs -q -t ext4 -b 1024 dirty.img 16M");
    folder.write("contents", &[1; 1024]);
    let commands = "jo -c\njw -b 9000 contents\njw -b 9001 contents\njc\n";
    folder.write("commands", commands.as_bytes());
    let debugfs = Command::new("debugfs")
        .args(["-w", "-f", "commands", "dirty.img"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(debugfs.status.success(), "{}", tool::said(&debugfs));
    let mut bytes = folder.read("dirty.img");
    let mut blocks = bytes.chunks_exact_mut(1024);
    let first = blocks.find(|block| block.starts_with(&DESCRIPTOR));
    first.expect("the log has transactions")[100] ^= 1;
    folder.write("dirty.img", &bytes);
    for (json, word) in [("", "NOT CLEAN"), ("--json", "\"clean\": false")] {
        let command = format!("fsck {json} dirty.img");
        let output = folder.command(&command).output().unwrap();
        let said = tool::said(&output);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains(word), "{said}");
    }
}

/// An image that another process has open: looked at with a warning, and for the rest refused with
/// its name.
#[test]
fn an_image_in_use_is_looked_at_and_not_more() {
    let folder = Folder::with_image();
    folder.write("file", b"x");
    folder.good("cp file disk.img:/file");
    let volume = Volume::open(open(&folder, "disk.img"), None, MountOptions::default()).unwrap();
    let own = format!("process {} ", std::process::id());
    let words = ["disk.img: ", &own, "has it open"];
    for line in ["ls disk.img", "info disk.img", "stat disk.img:/file"] {
        noted(&folder, line, &words);
    }
    let checked = noted(&folder, "fsck -n disk.img", &words);
    assert!(
        String::from_utf8(checked)
            .unwrap()
            .contains("disk.img: clean")
    );
    for line in [
        "cat disk.img:/file",
        "export disk.img out.tar",
        "rm disk.img:/file",
        "tune -L a disk.img",
    ] {
        let said = folder.bad(line);
        assert!(
            words.iter().all(|word| said.contains(word)),
            "{line}: {said}"
        );
    }
    let output = folder.command("fsck disk.img").output().unwrap();
    assert_eq!(output.status.code(), Some(8), "{}", tool::said(&output));
    volume.close().unwrap();
}

#[test]
fn users_of_an_image_are_named_with_their_mount_points() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::with_image();
    let point = folder.path().join("mnt here");
    std::fs::create_dir(&point).unwrap();
    let mut mount = folder.command("mount disk.img");
    assert!(mount.arg(&point).output().unwrap().status.success());
    std::fs::write(point.join("file"), "x").unwrap();
    let place = format!("jext has it mounted on {} (process ", point.display());
    let outputs: Vec<_> = [
        "ls disk.img",
        "fsck -n disk.img",
        "rm disk.img:/file",
        "fsck disk.img",
    ]
    .map(|line| (line, folder.command(line).output().unwrap()))
    .into();
    let unmounted = folder.command("umount").arg(&point).output().unwrap();
    assert!(unmounted.status.success(), "{}", tool::said(&unmounted));
    for ((line, output), status) in outputs.into_iter().zip([0, 0, 1, 8]) {
        let said = tool::said(&output);
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        assert!(said.contains(&place), "{line}: {said}");
    }
    // By the kernel, through a loop device.
    let mount = Mount::new(&folder.path().join("disk.img"), None, "ext4", "rw").unwrap();
    let place = format!("mounted on {}", mount.path().display());
    for line in ["ls disk.img", "cat disk.img:/file"] {
        let output = folder.command(line).output().unwrap();
        let said = tool::said(&output);
        assert!(output.status.success(), "{line}: {said}");
        assert_eq!(said.matches(&place).count(), 1, "{line}: {said}");
    }
    let said = folder.bad("rm disk.img:/file");
    assert!(said.contains(&place) && said.contains("umount "), "{said}");
}

#[test]
fn an_image_gives_its_free_space_back() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::with_image();
    let path = folder.path().join("disk.img");
    std::fs::write(folder.path().join("large"), vec![1; 4 << 20]).unwrap();
    folder.good("cp large disk.img:/large");
    folder.good("rm disk.img:/large");
    let held = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let before = held();
    let json = folder.json("trim --json disk.img");
    assert!(json["trimmed_bytes"].as_u64().unwrap() >= 4 << 20, "{json}");
    assert!(held() + (3 << 20) < before, "{before} to {}", held());
    assert_eq!(
        folder.json("trim --json -m 1000000000 disk.img")["trimmed_bytes"],
        0
    );
}

/// Every command that reads, on an ext4 that the kernel has filled and left with a dirty log.
#[test]
fn ext4_is_read_by_every_command() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    folder.good("mkfs -q -t ext4 disk.img 64M");
    let image = folder.path().join("disk.img");
    let mount = Mount::new(&image, None, "ext4", "commit=300").unwrap();
    std::fs::create_dir_all(mount.at("/a/b")).unwrap();
    for number in 0..500 {
        std::fs::write(mount.at(&format!("/a/b/{number}")), vec![7; number * 50]).unwrap();
    }
    std::os::unix::fs::symlink("b/499", mount.at("/a/link")).unwrap();
    tool::run_well("chattr", &["+d", &mount.at("/a/b/3").display().to_string()]);
    mount.sync();
    mount.shut_down(Shutdown::FlushesLog);
    drop(mount);
    let before = folder.read("disk.img");
    assert!(folder.good("ls disk.img:/a").contains("link"));
    assert_eq!(
        folder.good("cat disk.img:/a/link"),
        "\u{7}".repeat(499 * 50)
    );
    let stat = folder.json("stat --json disk.img:/a/b/400");
    assert!(stat.to_string().contains("20000"), "{stat}");
    folder.good("cp -r disk.img:/a copied");
    folder.good("export disk.img exported");
    assert!(folder.good("info disk.img").contains("extent"));
    assert!(folder.good("journal show disk.img").contains("transaction"));
    assert!(
        folder.read("disk.img") == before,
        "the image is left as it is"
    );
    folder.write("copy.img", &before);
    let said = folder.good("journal replay copy.img");
    assert!(
        said.contains("replayed") && !said.contains(" 0 trans"),
        "{said}"
    );
    folder.check("copy.img");
    let again = folder.good("journal replay copy.img");
    assert!(again.contains(" 0 trans"), "{again}");
    std::fs::create_dir(folder.path().join("mnt")).unwrap();
    folder.good("mount -o ro disk.img mnt");
    let mounted = of_folder(&folder.path().join("mnt"));
    folder.good("umount mnt");
    folder.check("disk.img");
    let mount = Mount::new(&image, None, "ext4", "ro,noatime").unwrap();
    let (expected, below) = (of_folder(mount.path()), of_folder(&mount.at("/a")));
    drop(mount);
    assert_eq!(difference(&expected, &mounted), None);
    // An export has no lost+found.
    let exported = of_folder(&folder.path().join("exported/a"));
    assert_eq!(difference(&below, &exported), None);
    let copied = std::fs::read(folder.path().join("copied/b/499")).unwrap();
    assert_eq!(copied, vec![7; 499 * 50]);
}
