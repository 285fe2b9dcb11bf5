//! Copies whose target exists: what an error leaves of it, links and devices in its place, and
//! targets that the same command has made.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{Loop, privilege, tool};

use crate::support::Folder;

/// The user and group that owns nothing.
const NOBODY: u32 = 65534;
/// The time after which a copy of a few megabytes has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Returns bytes of which a part in the middle is a hole, and writes them to a file.
fn with_hole(folder: &Folder, name: &str) -> Vec<u8> {
    let file = fs::File::create(folder.path().join(name)).unwrap();
    let bytes = [vec![1; 8192], vec![0; 65_536], vec![2; 8192]].concat();
    for at in [0, bytes.len() - 8192] {
        let part = &bytes[at..at + 8192];
        std::os::unix::fs::FileExt::write_all_at(&file, part, at as u64).unwrap();
    }
    bytes
}

#[test]
fn a_source_that_cannot_be_opened_leaves_the_target_as_it_is() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::with_image();
    set_mode(folder.path(), 0o755);
    let program = assert_cmd::cargo::cargo_bin("jext");
    let ours = folder.path().join("jext");
    if fs::hard_link(&program, &ours).is_err() {
        fs::copy(&program, &ours).unwrap();
    }
    folder.write("secret", b"secret");
    set_mode(&folder.path().join("secret"), 0o600);
    folder.write("kept", b"kept");
    folder.good("cp kept disk.img:/kept");
    for name in ["disk.img", "kept"] {
        chown(folder.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    for options in ["", "-a "] {
        for target in ["kept", "disk.img:/kept"] {
            let mut command = Command::new("setpriv");
            command.current_dir(folder.path());
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            let line = format!("./jext cp {options}secret {target}");
            let output = command.args(["sh", "-c", &line]).output().unwrap();
            let said = tool::said(&output);
            assert_eq!(output.status.code(), Some(1), "{line}: {said}");
            assert!(said.contains("secret: Permission denied"), "{line}: {said}");
        }
        assert_eq!(folder.read("kept"), b"kept");
        assert_eq!(folder.good("cat disk.img:/kept"), "kept");
    }
    folder.check("disk.img");
    // Nodes reach the target in batches, and the file may be the last of one.
    for count in [62, 63, 64] {
        let tree = folder.path().join(format!("tree{count}"));
        let copy = folder.path().join(format!("to/tree{count}"));
        for directory in [&tree, &copy] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("x"), b"kept").unwrap();
        }
        set_mode(&tree.join("x"), 0o600);
        for number in 0..count {
            fs::write(tree.join(format!("{number}")), b"").unwrap();
        }
        for path in [copy.parent().unwrap(), &copy, &copy.join("x")] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mut command = Command::new("setpriv");
        command.current_dir(folder.path());
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        let line = format!("./jext cp -r tree{count} to");
        let output = command.args(["sh", "-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", tool::said(&output));
        assert_eq!(fs::read(copy.join("x")).unwrap(), b"kept", "{count}");
    }
}

#[test]
fn pipes_and_devices_get_the_bytes_of_holes() {
    let folder = Folder::with_image();
    let bytes = with_hole(&folder, "sparse");
    folder.good("cp sparse disk.img:/sparse");
    for options in ["", "--sparse"] {
        let line = format!("cp {options} disk.img:/sparse /dev/stdout");
        let output = folder.command(&line).output().unwrap();
        assert!(output.status.success(), "{line}: {}", tool::said(&output));
        assert!(output.stdout == bytes, "{line}: {}", output.stdout.len());
    }
    if !privilege::is_granted() {
        return;
    }
    folder.write("device.img", &vec![0xFF; 1 << 20]);
    let device = Loop::attach(&folder.path().join("device.img"));
    let before = mode(Path::new(device.path()));
    for source in ["disk.img:/sparse", "sparse"] {
        folder.good(&format!("cp {source} {}", device.path()));
        let found = fs::read(device.path()).unwrap();
        assert!(found[..bytes.len()] == bytes[..], "{source}");
        assert!(found[bytes.len()..].iter().all(|byte| *byte == 0xFF));
        fs::write(device.path(), vec![0xFF; 1 << 20]).unwrap();
    }
    assert_eq!(mode(Path::new(device.path())), before);
}

/// GNU cp leaves the mode of a device too, which all programs share.
#[test]
fn a_device_that_is_written_keeps_its_mode() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::with_image();
    folder.write("file", b"contents");
    folder.good("cp file disk.img:/file");
    let null = folder.path().join("null");
    tool::run_well(
        "mknod",
        &["-m666", null.to_str().unwrap(), "c", "1", "3"].map(OsString::from),
    );
    for line in ["cp disk.img:/file null", "cp file null"] {
        folder.good(line);
        assert_eq!(mode(&null), 0o666, "{line}");
        assert!(null.metadata().unwrap().file_type().is_char_device());
    }
}

/// Like GNU cp, which changes the file that it has written.
#[test]
fn a_link_in_the_place_of_the_copy_does_not_separate_mode_and_owner() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::with_image();
    let at = |name: &str| folder.path().join(name);
    folder.write("run", b"#!/bin/sh");
    chown(at("run"), Some(NOBODY), Some(NOBODY)).unwrap();
    set_mode(&at("run"), 0o6755);
    folder.good("cp -p run disk.img:/run");
    for source in ["disk.img:/run", "run"] {
        folder.write("there", b"");
        symlink("there", at("link")).unwrap();
        folder.good(&format!("cp -p {source} link"));
        let (link, there) = (at("link").symlink_metadata().unwrap(), at("there"));
        let found = there.metadata().unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777), (NOBODY, 0o6755));
        assert_eq!(link.uid(), 0, "the link is as it was");
        fs::remove_file(at("link")).unwrap();
        fs::remove_file(there).unwrap();
    }
    folder.write("there", b"");
    folder.good("cp there disk.img:/there");
    folder.good("ln -s there disk.img:/link");
    folder.good("cp -p run disk.img:/link");
    let stat = folder.json("stat --json disk.img:/there disk.img:/link");
    let facts = |index: usize| (stat[index]["uid"].clone(), stat[index]["mode"].clone());
    assert_eq!(facts(0), (NOBODY.into(), "6755".into()));
    assert_eq!(facts(1), (0.into(), "0777".into()));
    folder.check("disk.img");
}

/// An image whose directory `d` has the same name twice: a symbolic link, and a file or directory.
fn twice(folder: &Folder, link: &Path, makes_directory: bool) {
    folder.good("mkfs -q -t ext2 -F twice.img 4M");
    folder.good("mkdir twice.img:/d");
    let target = link.display();
    folder.good(&format!("ln -s {target} twice.img:/d/firstname"));
    folder.write("harm", b"harm");
    if makes_directory {
        folder.good("mkdir twice.img:/d/secondone");
        folder.good("cp harm twice.img:/d/secondone/harm");
    } else {
        folder.good("cp harm twice.img:/d/secondone");
    }
    let mut bytes = folder.read("twice.img");
    let name = b"secondone";
    let mut windows = bytes.windows(name.len());
    let at = windows.position(|window| window == name).unwrap();
    bytes[at..at + name.len()].copy_from_slice(b"firstname");
    folder.write("twice.img", &bytes);
}

/// Otherwise a hostile image would write anywhere.
#[test]
fn a_copy_does_not_go_through_a_link_that_it_has_made() {
    let folder = Folder::new();
    let outside = folder.path().join("outside");
    for makes_directory in [false, true] {
        if makes_directory {
            fs::create_dir(&outside).unwrap();
        }
        twice(&folder, &outside, makes_directory);
        let error = folder.bad("cp -r twice.img:/d copied");
        assert!(error.contains("firstname"), "{error}");
        match makes_directory {
            true => assert_eq!(fs::read_dir(&outside).unwrap().count(), 0),
            false => assert!(!outside.exists()),
        }
        fs::remove_dir_all(folder.path().join("copied")).unwrap();
    }
}

/// The first name of a file with several is the wrong file after another has replaced it.
#[test]
fn a_copy_that_was_replaced_gets_no_further_name() {
    let folder = Folder::with_image();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    for directory in ["a", "b", "out"] {
        fs::create_dir(at(directory)).unwrap();
    }
    folder.write("a/x", b"own");
    fs::hard_link(at("a/x"), at("a/y")).unwrap();
    folder.write("b/x", b"other");
    folder.good("cp -r a b disk.img:/");
    folder.good("ln -f disk.img:/a/x disk.img:/a/y");
    for sources in ["a/x b/x a/y", "disk.img:/a/x disk.img:/b/x disk.img:/a/y"] {
        let error = folder.bad(&format!("cp -a {sources} out"));
        assert!(error.contains("x: was copied by this command"), "{error}");
        assert_eq!(folder.read("out/x"), b"own");
        fs::remove_file(at("out/x")).unwrap();
    }
}

/// The target of a copy may be the source of a later one.
#[test]
fn a_source_that_the_copy_itself_shortens_ends() {
    let folder = Folder::with_image();
    folder.write("a", b"x");
    folder.write("b", &vec![7; 12 << 20]);
    folder.good("mkdir disk.img:/from disk.img:/to");
    folder.good("cp a b disk.img:/from");
    folder.good("ln disk.img:/from/b disk.img:/to/a");
    let mut command = folder.command("cp -r disk.img:/from/. disk.img:/to");
    let output = command.timeout(PATIENCE).output().unwrap();
    let said = tool::said(&output);
    // Whether it was read before is a matter of luck.
    let is_read = output.status.success();
    assert!(is_read || said.contains("it is shorter now"), "{said}");
    folder.check("disk.img");
}
