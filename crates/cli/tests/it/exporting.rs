//! The view that other users of a shared machine have of an export and of a copy while it is made,
//! and their possible actions.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::{privilege, tool};
use transfer::host::{AttributeReader, Target, set_attribute};

use crate::support::Folder;

/// Permissions of a path itself.
fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn program() -> String {
    assert_cmd::cargo::cargo_bin("jext").display().to_string()
}

/// Runs the program in a shell, which can make what only a process of its number would look for.
fn in_shell(folder: &Folder, before: &str, line: &str) {
    let script = format!("{before} exec {} {line}", program());
    let mut command = Command::new("sh");
    let output = command
        .args(["-c", &script])
        .current_dir(folder.path())
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{script}: {}", tool::said(&output));
}

/// All users may make names in a directory like /tmp.
#[test]
fn an_export_goes_into_no_directory_that_others_have_laid_out() {
    let folder = Folder::with_image();
    folder.write("file", b"x");
    folder.good("cp file disk.img:/file");
    fs::create_dir(folder.path().join("elsewhere")).unwrap();
    in_shell(
        &folder,
        "ln -s elsewhere .out.unfinished-$$ &&",
        "export disk.img out",
    );
    assert_eq!(
        fs::read_dir(folder.path().join("elsewhere"))
            .unwrap()
            .count(),
        0
    );
    let made = fs::symlink_metadata(folder.path().join("out")).unwrap();
    assert!(made.is_dir(), "it is the directory that was made for it");
    assert_eq!(folder.read("out/file"), b"x");
    // A link that is named is one that is meant.
    symlink("elsewhere", folder.path().join("link")).unwrap();
    folder.good("export disk.img link");
    assert_eq!(folder.read("elsewhere/file"), b"x");
}

/// Permissions of everything that appears below a folder while some work is done, by its last name.
fn seen_during(folder: &Folder, work: impl FnOnce()) -> Vec<(String, u32)> {
    let is_done = AtomicBool::new(false);
    let look = || {
        let mut seen = Vec::new();
        while !is_done.load(Ordering::Acquire) {
            let mut waiting = vec![folder.path().to_owned()];
            while let Some(path) = waiting.pop() {
                for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                    let Ok(found) = fs::symlink_metadata(entry.path()) else {
                        continue;
                    };
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let known = (name, found.mode() & 0o7777);
                    if !seen.contains(&known) {
                        seen.push(known);
                    }
                    if found.is_dir() {
                        waiting.push(entry.path());
                    }
                }
            }
        }
        seen
    };
    std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        work();
        is_done.store(true, Ordering::Release);
        looking.join().unwrap()
    })
}

#[test]
fn what_is_private_is_so_from_its_beginning() {
    let folder = Folder::new();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("secrets")).unwrap();
    folder.write("tree/secrets/private", &vec![7; 48 << 20]);
    let set = |path: &str, mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(tree.join(path), permissions).unwrap();
    };
    set("secrets/private", 0o600);
    set("secrets", 0o700);
    folder.good("build -q disk.img tree");
    fs::remove_dir_all(&tree).unwrap();
    for line in ["export disk.img out", "cp -a disk.img:/secrets copied"] {
        let seen = seen_during(&folder, || drop(folder.good(line)));
        let private = seen
            .iter()
            .filter(|(name, _)| name == "secrets" || name == "private");
        for (name, mode) in private {
            assert_eq!(mode & 0o077, 0, "{line}: {name} has {mode:o}");
        }
    }
    assert_eq!(mode(&folder.path().join("out/secrets")), 0o700);
    assert_eq!(mode(&folder.path().join("copied")), 0o700);
}

/// Beside GNU cp and tar.
#[test]
fn a_file_of_another_owner_does_not_run_as_its_copier() {
    if !privilege::is_granted() {
        return;
    }
    let folder = Folder::new();
    let at = |name: &str| folder.path().join(name);
    let open_to_all = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    };
    open_to_all(folder.path());
    fs::create_dir(at("tree")).unwrap();
    folder.write("tree/run", b"#!/bin/sh");
    fs::set_permissions(at("tree/run"), fs::Permissions::from_mode(0o6755)).unwrap();
    folder.good("build -q disk.img tree");
    open_to_all(&at("disk.img"));
    if fs::hard_link(program(), at("jext")).is_err() {
        fs::copy(program(), at("jext")).unwrap();
    }
    for line in [
        "./jext export disk.img exported",
        "./jext cp -a disk.img:/ archived",
        "./jext cp -r disk.img:/ plain",
        "mkdir copied && cp -a tree/run copied",
    ] {
        let mut command = Command::new("setpriv");
        let who = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let command = command.args(who).args(["sh", "-c", line]);
        let output = command.current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", tool::said(&output));
    }
    for place in ["exported", "archived", "plain", "copied"] {
        assert_eq!(mode(&at(place).join("run")), 0o755, "{place}");
    }
    // Root can keep the owner, and does where it is asked to keep anything.
    folder.good("export disk.img root");
    folder.good("cp -a disk.img:/run kept");
    assert_eq!((mode(&at("root/run")), mode(&at("kept"))), (0o6755, 0o6755));
    in_shell(&folder, "umask 027;", "cp disk.img:/run bare");
    tool::run_well(
        "sh",
        &[
            "-c",
            &format!("cd {}; umask 027; cp tree/run gnu", folder.path().display()),
        ],
    );
    assert_eq!(mode(&at("bare")), mode(&at("gnu")));
    folder.good("mkfs -q own.img 8M");
    folder.good("cp tree/run own.img:/run");
    assert!(folder.good("ls -l own.img").contains("-rwxr-xr-x"));
}

/// A terminal obeys what it is given.
#[test]
fn a_terminal_is_given_no_control_characters_of_an_image() {
    let folder = Folder::new();
    let evil = |text: &str| format!("\x1B[31m{text}\u{9b}1m");
    fs::create_dir(folder.path().join("tree")).unwrap();
    folder.write(&format!("tree/{}", evil("name")), b"x");
    symlink(evil("target"), folder.path().join("tree/link")).unwrap();
    let socket = folder.path().join("tree").join(evil("s"));
    let _socket = std::os::unix::net::UnixListener::bind(socket).unwrap();
    folder.good("build -q disk.img tree");
    let mut made = folder.command("mkfs -q label.img 8M -L");
    made.arg("\x1B[31mlabel").assert().success();
    for (line, wanted) in [
        ("stat disk.img:/link", "?[31mtarget?1m"),
        ("cp -r -v disk.img:/ copied", "?[31mname?1m"),
        ("export disk.img out.tar", "?[31ms?1m"),
        ("info label.img", "?[31mlabel"),
        ("ls -l disk.img", "?[31mtarget?1m"),
    ] {
        let mut command = Command::new("script");
        let typed = format!("{} {line}", program());
        let command = command.args(["-q", "-e", "-c", &typed, "/dev/null"]);
        let output = command.current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{line}: {said}");
        assert!(said.contains(wanted), "{line}: {said:?}");
        assert!(
            !said.contains("\x1B[31m") && !said.contains('\u{9b}'),
            "{line}: {said:?}"
        );
    }
    // A program that reads them gets the bytes.
    assert!(folder.good("stat disk.img:/link").contains(&evil("target")));
}

/// A list of the directory above would let users in that the image does not.
#[test]
fn an_export_inherits_no_list() {
    let folder = Folder::with_image();
    let at = |name: &str| folder.path().join(name);
    folder.write("file", b"private");
    fs::set_permissions(at("file"), fs::Permissions::from_mode(0o640)).unwrap();
    folder.good("mkdir disk.img:/d");
    folder.good("cp file disk.img:/d/file");
    for name in ["outer", "outer/filled"] {
        fs::create_dir(at(name)).unwrap();
        // Default list: all rights for the owner and user 1, and none for others.
        let entry = |tag: u16, rights: u16, id: u32| {
            let numbers = [tag.to_le_bytes(), rights.to_le_bytes()].concat();
            [numbers, id.to_le_bytes().to_vec()].concat()
        };
        let entries = [(1, 7), (2, 7), (4, 0), (0x10, 7), (0x20, 0)];
        let entries = entries.map(|(tag, rights)| match tag {
            2 => entry(tag, rights, 1),
            _ => entry(tag, rights, u32::MAX),
        });
        let list = [2_u32.to_le_bytes().to_vec(), entries.concat()].concat();
        let target = Target::Path(&at(name));
        set_attribute(target, b"system.posix_acl_default", &list).unwrap();
    }
    for out in ["outer/new", "outer/filled"] {
        folder.good(&format!("export disk.img {out}"));
        for name in ["", "/d", "/d/file"] {
            let path = at(&format!("{out}{name}"));
            let found = AttributeReader::new().read(&path).unwrap();
            assert_eq!(found, [], "{out}{name}");
        }
        assert_eq!(mode(&at(&format!("{out}/d/file"))), 0o640);
    }
}
