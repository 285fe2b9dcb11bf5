//! Operations without the key: each has the outcome that it has in the kernel.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use ext::volume::{Durability, FileKind, NewInode, OpenFlags, RangeChange, RenameMode, Writer};

use super::*;

/// Numbers of errors, and success.
type Outcome = i32;
const NO_KEY: Outcome = 126;

/// The operations of both sides, with the names of a file, a directory with an entry, an empty
/// directory and a symbolic link below `secret`, as they are shown.
struct Names {
    file: String,
    link: String,
    full: String,
    empty: String,
}

fn outcome<T>(result: io::Result<T>) -> Outcome {
    match result {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().expect("an error of the system"),
    }
}

/// Truncates a file by its path: truncate(2), for which the standard library opens it.
fn truncate(path: &Path) -> Outcome {
    let script = "truncate($ARGV[0], 1) or exit(0 + $!)";
    let output = tool::run("perl", &["-e", script, path.to_str().unwrap()]);
    output.status.code().expect("it was not killed")
}

fn by_kernel(root: &Path, names: &Names) -> Vec<(&'static str, Outcome)> {
    let at = |name: &str| root.join("secret").join(name);
    let (file, link) = (at(&names.file), at(&names.link));
    let (full, empty) = (at(&names.full), at(&names.empty));
    let append = |path: &Path| fs::File::options().append(true).open(path);
    let make = |path: &Path| fs::DirBuilder::new().mode(0o755).create(path);
    let create = |path: &Path| {
        let mut options = fs::File::options();
        options.write(true).create_new(true).mode(0o644).open(path)
    };
    vec![
        ("open for reading", outcome(fs::File::open(&file))),
        ("open to append", outcome(append(&file))),
        (
            "open a file that left",
            outcome(fs::File::open(root.join("plain/left"))),
        ),
        ("truncate", truncate(&file)),
        ("create", outcome(create(&at("new")))),
        ("create what is there", outcome(create(&file))),
        ("mkdir", outcome(make(&at("new")))),
        ("mkdir what is there", outcome(make(&empty))),
        ("symlink", outcome(symlink("target", at("new")))),
        (
            "link into",
            outcome(fs::hard_link(root.join("plain/file"), at("new"))),
        ),
        (
            "link what is there",
            outcome(fs::hard_link(root.join("plain/file"), &file)),
        ),
        (
            "link out",
            outcome(fs::hard_link(&file, root.join("plain/linked"))),
        ),
        ("rename within", outcome(fs::rename(&file, at("new")))),
        ("rename onto", outcome(fs::rename(&file, &link))),
        (
            "rename into",
            outcome(fs::rename(root.join("plain/file"), at("new"))),
        ),
        (
            "rename out",
            outcome(fs::rename(&file, root.join("plain/new"))),
        ),
        (
            "rename of what is absent",
            outcome(fs::rename(at("absent"), at("new"))),
        ),
        (
            "unlink of what is absent",
            outcome(fs::remove_file(at("absent"))),
        ),
        ("unlink of a directory", outcome(fs::remove_file(&empty))),
        ("rmdir of a file", outcome(fs::remove_dir(&file))),
        ("rmdir of a full directory", outcome(fs::remove_dir(&full))),
        ("rmdir", outcome(fs::remove_dir(&empty))),
        ("unlink of a link", outcome(fs::remove_file(&link))),
        ("unlink", outcome(fs::remove_file(&file))),
        (
            "stat of what was removed",
            outcome(fs::symlink_metadata(&file)),
        ),
    ]
}

fn told<T>(result: Result<T>) -> Outcome {
    result.map_or_else(|error| error.raw_os_error(), |_| 0)
}

fn by_engine(volume: &Volume, names: &Names) -> Vec<(&'static str, Outcome)> {
    let at = |path: &str| volume.resolve(path, false).expect(path);
    let (secret, plain) = (at("/secret"), at("/plain"));
    let (file, left) = (at(&format!("/secret/{}", names.file)), at("/plain/left"));
    let other = at("/plain/file");
    let append = OpenFlags {
        append: true,
        ..OpenFlags::READ_WRITE
    };
    let new = NewInode::default();
    let cut = SetAttributes {
        size: Some(1),
        ..SetAttributes::default()
    };
    let replace = RenameMode::Replace;
    let rename = |from, name: &str, to, new: &str| {
        told(volume.rename(from, name.as_bytes(), to, new.as_bytes(), replace))
    };
    let (own, link) = (names.file.as_str(), names.link.as_str());
    let (full, empty) = (names.full.as_bytes(), names.empty.as_bytes());
    let create = |name: &str| told(volume.create(secret, name.as_bytes(), &new));
    let make = |name: &[u8]| told(volume.make_directory(secret, name, &new));
    vec![
        (
            "open for reading",
            told(volume.open_inode(file, OpenFlags::READ)),
        ),
        ("open to append", told(volume.open_inode(file, append))),
        (
            "open a file that left",
            told(volume.open_inode(left, OpenFlags::READ)),
        ),
        ("truncate", told(volume.set_attributes(file, &cut))),
        ("create", create("new")),
        ("create what is there", create(own)),
        ("mkdir", make(b"new")),
        ("mkdir what is there", make(empty)),
        (
            "symlink",
            told(volume.symlink(secret, b"new", b"target", &new)),
        ),
        ("link into", told(volume.link(other, secret, b"new"))),
        (
            "link what is there",
            told(volume.link(other, secret, own.as_bytes())),
        ),
        ("link out", told(volume.link(file, plain, b"linked"))),
        ("rename within", rename(secret, own, secret, "new")),
        ("rename onto", rename(secret, own, secret, link)),
        ("rename into", rename(plain, "file", secret, "new")),
        ("rename out", rename(secret, own, plain, "new")),
        (
            "rename of what is absent",
            rename(secret, "absent", secret, "new"),
        ),
        (
            "unlink of what is absent",
            told(volume.unlink(secret, b"absent")),
        ),
        ("unlink of a directory", told(volume.unlink(secret, empty))),
        (
            "rmdir of a file",
            told(volume.remove_directory(secret, own.as_bytes())),
        ),
        (
            "rmdir of a full directory",
            told(volume.remove_directory(secret, full)),
        ),
        ("rmdir", told(volume.remove_directory(secret, empty))),
        (
            "unlink of a link",
            told(volume.unlink(secret, link.as_bytes())),
        ),
        ("unlink", told(volume.unlink(secret, own.as_bytes()))),
        (
            "stat of what was removed",
            told(volume.lookup(secret, own.as_bytes())),
        ),
    ]
}

/// Returns the names that are shown of one file of each kind.
fn names(volume: &Volume) -> Names {
    let entries = volume.list("/secret").unwrap();
    let find = |kind: FileKind, is_full: Option<bool>| {
        let found = entries.iter().find(|entry| {
            let attributes = volume.attributes(entry.inode).unwrap();
            let has_one = || {
                let path = format!("/secret/{}", String::from_utf8_lossy(&entry.name));
                !volume.list(&path).unwrap().is_empty()
            };
            let is_right = |is_full| has_one() == is_full && attributes.links == 2;
            attributes.kind == kind && is_full.map_or(attributes.links == 1, is_right)
        });
        String::from_utf8(found.expect("there is one").name.clone()).unwrap()
    };
    Names {
        file: find(FileKind::Regular, None),
        link: find(FileKind::Symlink, None),
        full: find(FileKind::Directory, Some(true)),
        empty: find(FileKind::Directory, Some(false)),
    }
}

#[test]
fn outcomes_are_those_of_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    let image = filled(1024, 32 * MIB, "-O encrypt", fill);
    let copy = image.copy();
    let volume = open_on(&image);
    let names = names(&volume);
    let ours = by_engine(&volume, &names);
    volume.close().unwrap();
    let mounted = mount(&copy);
    let theirs = by_kernel(mounted.path(), &names);
    drop(mounted);
    assert_eq!(ours, theirs);
    let refused = ours.iter().filter(|(_, outcome)| *outcome == NO_KEY);
    assert!(refused.count() >= 10, "{ours:?}");
    oracle::assert_fsck_clean(&image, "after the engine");
    oracle::assert_fsck_clean(&copy, "after the kernel");
    assert_eq!(kernel_sees(&image).len(), kernel_sees(&copy).len());
}

/// Nothing of the contents is read or written by any call that takes a number.
#[test]
fn contents_are_out_of_reach_by_number() {
    if !privilege::is_granted() {
        return;
    }
    let image = filled(1024, 32 * MIB, "-O encrypt", fill);
    let before = with_key(&image);
    let volume = open_on(&image);
    let file = volume.resolve("/plain/left", false).unwrap();
    let refusals = [
        told(volume.read_node(file, 0, &mut [0; 10], false)),
        told(volume.read_node(file, 0, &mut [0; 1024], true)),
        told(volume.write_node(file, 0, b"x", false, Durability::Later, Writer::Unknown)),
        told(volume.seek_data(file, 0)),
        told(volume.change_range(file, 0, 10, RangeChange::Zero, false)),
        told(volume.change_range(file, 0, 10, RangeChange::PunchHole, true)),
    ];
    assert_eq!(refusals, [NO_KEY; 6]);
    let journaled = SetAttributes {
        flags: Some(volume.attributes(file).unwrap().flags | InodeFlags::JOURNAL_DATA),
        ..SetAttributes::default()
    };
    assert_eq!(told(volume.set_attributes(file, &journaled)), NO_KEY);
    volume.close().unwrap();
    assert_eq!(with_key(&image), before);
}
