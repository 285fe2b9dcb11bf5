//! The share of an inode in the counts of its owners, after each kind of operation: e2fsck counts
//! the same after a recovery of what was synced.

use std::sync::Arc;

use ext::options::DataMode;
use ext::volume::{
    InodeFlags, NewInode, OpenFlags, QuotaKind, RangeChange, RenameMode, SetAttributes, SetMode,
    WhiteoutOwner,
};
use ext::{Error, Volume};
use layout::InodeNr;

use super::{assert_counted, e2fscks, make, open, run_on_copy, usage};
use crate::damage::assert_notices;
use crate::rig::{device, quiet};

/// The user, group and project of the files of an operation.
const OWNER: u32 = 1000;

fn new() -> NewInode {
    NewInode {
        uid: OWNER,
        gid: OWNER,
        ..NewInode::default()
    }
}

fn create(volume: &Volume, path: &str, bytes: usize) -> InodeNr {
    let mut file = volume.create_file(path, &new()).expect("create");
    file.write_all(&vec![7; bytes]).expect("write");
    file.close().expect("close");
    volume.resolve(path, false).expect("it is there")
}

fn set(volume: &Volume, nr: InodeNr, change: &SetAttributes) {
    volume.set_attributes(nr, change).expect("setattr");
}

/// An operation on the file `/f` of some blocks and others beside it.
type Operation = fn(&Volume, InodeNr);

const OPERATIONS: &[(&str, Operation)] = &[
    ("create", |volume, _| {
        create(volume, "/g", 0);
    }),
    ("a short file", |volume, _| {
        create(volume, "/g", 40);
    }),
    ("growth out of an inode", |volume, _| {
        let nr = create(volume, "/g", 40);
        let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
        volume.write_all(file, 0, &[8; 9000]).expect("write");
        volume.release(file).expect("release");
    }),
    ("mkdir", |volume, _| {
        let nr = volume.make_directory(InodeNr::ROOT, b"d", &new());
        let nr = nr.expect("mkdir");
        for number in 0..200 {
            let name = format!("a-name-that-is-rather-long-{number:04}");
            volume.create(nr, name.as_bytes(), &new()).expect("create");
        }
    }),
    ("long symbolic link", |volume, _| {
        let target = "x".repeat(300);
        let made = volume.symlink(InodeNr::ROOT, b"l", target.as_bytes(), &new());
        made.expect("symlink");
    }),
    ("truncate", |volume, nr| {
        let change = |size| SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        set(volume, nr, &change(100));
        set(volume, nr, &change(100_000));
        set(volume, nr, &change(3000));
    }),
    ("chown", |volume, nr| {
        let change = SetAttributes {
            uid: Some(70_000),
            ..SetAttributes::default()
        };
        set(volume, nr, &change);
    }),
    ("chgrp", |volume, nr| {
        let change = SetAttributes {
            gid: Some(70_000),
            ..SetAttributes::default()
        };
        set(volume, nr, &change);
    }),
    ("another project", |volume, nr| {
        let change = SetAttributes {
            project: Some(70_000),
            ..SetAttributes::default()
        };
        set(volume, nr, &change);
    }),
    ("attributes in a block", |volume, nr| {
        for name in [&b"user.one"[..], b"user.two"] {
            let value = [9; 400];
            let done = volume.set_attribute(nr, name, &value, SetMode::Any);
            done.expect("setxattr");
        }
        volume
            .remove_attribute(nr, b"user.one")
            .expect("removexattr");
    }),
    ("unlink", |volume, _| {
        volume.remove_file("/f").expect("unlink")
    }),
    ("link and unlink", |volume, nr| {
        volume.link(nr, InodeNr::ROOT, b"second").expect("link");
        volume.remove_file("/f").expect("unlink");
    }),
    ("rename over", |volume, _| {
        create(volume, "/g", 5000);
        volume.rename_path("/f", "/g").expect("rename");
    }),
    ("whiteout", |volume, _| {
        let owner = WhiteoutOwner { uid: 7, gid: 8 };
        let (root, mode) = (InodeNr::ROOT, RenameMode::Whiteout(owner));
        volume.rename(root, b"f", root, b"g", mode).expect("rename");
    }),
    ("preallocation behind the end", |volume, nr| {
        let done = volume.change_range(nr, 0, 60_000, RangeChange::Allocate, true);
        // Block maps do not have it.
        assert!(
            matches!(done, Ok(()) | Err(Error::Unsupported(_))),
            "{done:?}"
        );
    }),
    ("punch", |volume, nr| {
        let done = volume.change_range(nr, 2048, 8192, RangeChange::PunchHole, true);
        done.expect("punch");
    }),
];

#[test]
fn each_operation_moves_the_share() {
    for features in [
        "quota,project",
        "quota,project,inline_data",
        "quota,project,^extent,^64bit,^metadata_csum,uninit_bg",
        "quota,project,^has_journal",
    ] {
        for (name, operation) in OPERATIONS {
            let when = format!("{features}, {name}");
            let memory = make(1024, features);
            let volume = open(&memory);
            let nr = create(&volume, "/f", 20_000);
            operation(&volume, nr);
            volume.sync().expect("sync");
            if !features.contains("^has_journal") {
                let cut = Arc::new(memory.snapshot());
                open(&cut).close().expect("close");
                assert_counted(&cut, &format!("{when}, recovered"));
            }
            volume.close().expect("close");
            assert_counted(&memory, &when);
        }
    }
}

/// As in Linux a file without a name counts until it is gone; e2fsck, which deletes such a file,
/// takes it out of the counts then.
fn a_file_counts_until_it_is_deleted() {
    for features in ["quota", "quota,orphan_file"] {
        let memory = make(1024, features);
        let volume = open(&memory);
        let mut file = volume.create_file("/f", &new()).expect("create");
        file.write_all(&[7; 5000]).expect("write");
        file.sync_all().expect("sync");
        let share = usage(&volume, QuotaKind::User, OWNER);
        assert_eq!(share, Some((1, 5 * 1024)));
        volume.remove_file("/f").expect("unlink");
        volume.sync().expect("sync");
        assert_eq!(usage(&volume, QuotaKind::User, OWNER), share, "unlinked");
        for e2fsck in e2fscks() {
            let (_, said) = run_on_copy(&memory.snapshot(), &e2fsck, "-fy");
            assert!(!said.contains("QUOTA"), "{features}: {e2fsck}: {said}");
        }
        let cut = Arc::new(memory.snapshot());
        let recovered = open(&cut);
        assert_eq!(usage(&recovered, QuotaKind::User, OWNER), Some((0, 0)));
        recovered.close().expect("close");
        assert_counted(&cut, "recovered");
        file.close().expect("close");
        assert_eq!(usage(&volume, QuotaKind::User, OWNER), Some((0, 0)));
        volume.close().expect("close");
        assert_counted(&memory, "closed");
    }
}

#[test]
fn a_file_without_a_name_counts() {
    assert_notices(
        "quota/orphan-not-counted",
        a_file_counts_until_it_is_deleted,
    );
}

/// On a full volume a new inode gets no contents, or no entry: nothing of it stays in the counts.
#[test]
fn what_is_undone_is_not_counted() {
    let memory = make(1024, "quota,project");
    let volume = open(&memory);
    create(&volume, "/known", 0);
    let filler = volume.create(InodeNr::ROOT, b"filler", &NewInode::default());
    let file = volume.open_inode(filler.expect("create"), OpenFlags::READ_WRITE);
    let file = file.expect("open");
    let mut at = 0;
    while volume.write_all(file, at, &[1; 1024]).is_ok() {
        at += 1024;
    }
    volume.sync().expect("sync");
    let before = usage(&volume, QuotaKind::User, OWNER);
    let failed = volume.make_directory(InodeNr::ROOT, b"d", &new());
    assert!(matches!(failed, Err(Error::NoSpace)), "{failed:?}");
    let mut number = 0;
    let failed = loop {
        let name = format!("a-name-that-is-rather-long-{number:04}");
        number += 1;
        if let Err(error) = volume.create(InodeNr::ROOT, name.as_bytes(), &new()) {
            break error;
        }
    };
    assert!(matches!(failed, Error::NoSpace), "{failed:?}");
    let (inodes, space) = before.expect("it has an entry");
    let after = usage(&volume, QuotaKind::User, OWNER);
    assert_eq!(after, Some((inodes + number - 1, space)));
    volume.release(file).expect("release");
    volume.close().expect("close");
    assert_counted(&memory, "full");
}

/// `FS_IOC_FSSETXATTR` gives flags and project at once: an inode whose flags stay keeps its
/// project.
#[test]
fn an_immutable_inode_keeps_its_project() {
    let memory = make(1024, "quota,project");
    let volume = open(&memory);
    for (number, flag) in [InodeFlags::IMMUTABLE, InodeFlags::APPEND]
        .into_iter()
        .enumerate()
    {
        let nr = create(&volume, &format!("/{number}"), 100);
        let change = |flags, project| SetAttributes {
            flags: Some(flags),
            project,
            ..SetAttributes::default()
        };
        let old = volume.attributes(nr).expect("it is there").flags;
        set(&volume, nr, &change(old | flag, None));
        let refused = volume.set_attributes(nr, &change(old | flag, Some(9)));
        assert!(matches!(refused, Err(Error::NotPermitted)), "{refused:?}");
        assert_eq!(volume.attributes(nr).expect("it is there").project, 0);
        set(&volume, nr, &change(old | flag, Some(0)));
        set(&volume, nr, &change(old, Some(9)));
        assert_eq!(volume.attributes(nr).expect("it is there").project, 9);
    }
    volume.close().expect("close");
    assert_counted(&memory, "projects");
}

/// The blocks of a quota file belong to the handle that has changed them: at every commit the
/// counts are those of the inodes, whatever other tasks do.
fn counts_of_tasks() {
    let memory = make(1024, "quota");
    let volume = Arc::new(open(&memory));
    let tasks: Vec<_> = (0..3_u32)
        .map(|number| {
            let volume = Arc::clone(&volume);
            rt::spawn("client", move || {
                for round in 0..6 {
                    let path = format!("/f{number}");
                    let new = NewInode {
                        uid: 1 + (number + round) % 3,
                        ..NewInode::default()
                    };
                    let mut file = volume.create_file(&path, &new).expect("create");
                    file.write_all(&[7; 3000]).expect("write");
                    file.close().expect("close");
                    volume.remove_file(&path).expect("unlink");
                }
            })
        })
        .collect();
    for _ in 0..6 {
        volume.sync().expect("sync");
        let cut = Arc::new(memory.snapshot());
        let recovered = Volume::open(device(&cut), None, quiet(DataMode::Ordered));
        recovered.expect("it opens").close().expect("close");
        let report = fsck::check_bytes(&cut.to_bytes(), None, &fsck::Options::default());
        let report = report.expect("it can be checked");
        assert!(report.is_clean(), "{:?}", report.problems);
    }
    for task in tasks {
        task.join().expect("no panic");
    }
    let volume = Arc::into_inner(volume).expect("the tasks have ended");
    volume.close().expect("close");
}

#[test]
fn a_handle_stores_what_it_has_counted() {
    for seed in 0..60 {
        let ended = sim::run(sim::Config::random(seed), counts_of_tasks);
        ended.unwrap_or_else(|error| panic!("{seed}: {error}"));
    }
}
