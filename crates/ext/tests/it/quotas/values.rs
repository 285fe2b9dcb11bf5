//! Values of attributes in inodes of their own (`ea_inode`) in the counts of owners: each entry
//! that names one counts an inode, and its space, for the inode that has the entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::options::DataMode;
use ext::tune::{self, Changes, free_feature};
use ext::volume::{InodeFlags, NewInode, OpenFlags, QuotaKind, SetAttributes, SetMode};
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use rustix::fs::{XattrFlags, lsetxattr};
use testkit::{privilege, tool};

use super::{assert_counted, e2fscks, make, open, run_on_copy, usage};
use crate::damage::assert_notices;
use crate::image::Image;
use crate::rig::{device, quiet};

/// The user and group of the files, and another one.
const OWNER: u32 = 1000;
const OTHER: u32 = 70_000;
/// The number of the inode `lost+found`.
const LOST_AND_FOUND: InodeNr = InodeNr::new(11);

fn new(owner: u32) -> NewInode {
    NewInode {
        uid: owner,
        gid: owner,
        ..NewInode::default()
    }
}

fn create(volume: &Volume, path: &str) -> InodeNr {
    let mut file = volume.create_file(path, &new(OWNER)).expect("create");
    file.write_all(&[7; 3000]).expect("write");
    file.close().expect("close");
    volume.resolve(path, false).expect("it is there")
}

fn try_set(volume: &Volume, nr: InodeNr, name: &str, bytes: usize) -> Result<(), Error> {
    volume.set_attribute(nr, name.as_bytes(), &vec![9; bytes], SetMode::Any)
}

fn set(volume: &Volume, nr: InodeNr, name: &str, bytes: usize) {
    try_set(volume, nr, name, bytes).expect("setxattr");
}

fn chown(volume: &Volume, nr: InodeNr, owner: u32) {
    let change = SetAttributes {
        uid: Some(owner),
        gid: Some(owner),
        project: volume.superblock().has_project().then_some(owner),
        ..SetAttributes::default()
    };
    volume.set_attributes(nr, &change).expect("chown");
}

/// An access control list that needs an inode of its own, as programs have it.
fn long_list() -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    let mut entry = |tag: u16, permissions: u16, id: u32| {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    };
    entry(1, 7, u32::MAX);
    (0..400).for_each(|user| entry(2, 5, 1000 + user));
    entry(4, 5, u32::MAX);
    entry(0x10, 7, u32::MAX);
    entry(0x20, 1, u32::MAX);
    bytes
}

fn set_list(volume: &Volume, nr: InodeNr, name: &str) {
    let done = volume.set_attribute(nr, name.as_bytes(), &long_list(), SetMode::Any);
    done.expect("setfacl");
}

/// A kind of change of a volume with two files that have values.
type Step = fn(&Volume);

fn nr(volume: &Volume, path: &str) -> InodeNr {
    volume.resolve(path, false).expect("it is there")
}

const STEPS: &[(&str, Step)] = &[
    ("set", |volume| {
        let file = create(volume, "/f");
        set(volume, file, "user.one", 3000);
        set(volume, file, "user.two", 5000);
        set(volume, create(volume, "/g"), "user.one", 3000);
        assert_eq!(
            usage(volume, QuotaKind::User, OWNER).map(|(inodes, _)| inodes),
            Some(5)
        );
    }),
    ("replace", |volume| {
        set(volume, nr(volume, "/f"), "user.one", 40_000);
        set(volume, nr(volume, "/f"), "user.two", 5001);
    }),
    ("replace by a short one", |volume| {
        set(volume, nr(volume, "/f"), "user.two", 20);
        set(volume, nr(volume, "/f"), "user.three", 900);
    }),
    ("a long one again", |volume| {
        set(volume, nr(volume, "/f"), "user.two", 7000);
    }),
    ("chown", |volume| {
        chown(volume, nr(volume, "/f"), OTHER);
        assert_eq!(
            usage(volume, QuotaKind::User, OWNER).map(|(inodes, _)| inodes),
            Some(2)
        );
    }),
    ("remove by another owner", |volume| {
        let removed = volume.remove_attribute(nr(volume, "/f"), b"user.one");
        removed.expect("removexattr");
    }),
    ("chown with the mode of a long list", |volume| {
        let file = nr(volume, "/g");
        set_list(volume, file, "system.posix_acl_access");
        let change = SetAttributes {
            uid: Some(OTHER),
            permissions: Some(0o640),
            ..SetAttributes::default()
        };
        volume.set_attributes(file, &change).expect("chown");
    }),
    ("inherit", |volume| {
        let made = volume.make_directory(InodeNr::ROOT, b"d", &new(OWNER));
        let directory = made.expect("mkdir");
        set_list(volume, directory, "system.posix_acl_default");
        let change = SetAttributes {
            permissions: Some(0o2770),
            project: volume.superblock().has_project().then_some(8),
            flags: Some(InodeFlags::PROJECT_INHERIT),
            ..SetAttributes::default()
        };
        volume.set_attributes(directory, &change).expect("chmod");
        // The user has no entry before, and the group and the project are those of the directory.
        for (name, owner) in [(&b"file"[..], 4000), (b"again", 4000)] {
            let made = volume.create(directory, name, &new(owner));
            made.expect("create");
        }
        let made = volume.make_directory(directory, b"below", &new(5000));
        made.expect("mkdir");
    }),
    ("rename over", |volume| {
        volume.rename_path("/f", "/g").expect("rename");
    }),
    ("unlink", |volume| {
        volume.remove_file("/d/file").expect("unlink");
        volume.remove_directory_at("/d/below").expect("rmdir");
    }),
    ("unlink while open", |volume| {
        let file = create(volume, "/open");
        set(volume, file, "user.one", 3000);
        // It stays open until the volume is closed.
        volume
            .open_inode(file, OpenFlags::READ_WRITE)
            .expect("open");
        volume.remove_file("/open").expect("unlink");
    }),
];

/// Does the steps, one after the other, and asserts that the counts are right after each.
fn each_change(features: &str) {
    let memory = make(1024, features);
    let mut volume = open(&memory);
    for (name, step) in STEPS {
        let when = format!("{features}, {name}");
        step(&volume);
        if features.contains("^has_journal") {
            volume.close().expect("close");
            assert_counted(&memory, &when);
            volume = open(&memory);
            continue;
        }
        volume.sync().expect("sync");
        let cut = Arc::new(memory.snapshot());
        open(&cut).close().expect("close");
        assert_counted(&cut, &when);
    }
    volume.close().expect("close");
    assert_counted(&memory, features);
}

#[test]
fn each_change_moves_the_shares_of_values() {
    each_change("ea_inode,quota,project,orphan_file");
}

#[test]
fn each_change_moves_the_shares_of_values_within_clusters() {
    each_change("ea_inode,quota,project,inline_data,bigalloc");
}

#[test]
fn each_change_moves_the_shares_of_values_in_block_maps() {
    each_change("ea_inode,quota,^extent,^64bit,^metadata_csum,uninit_bg");
}

#[test]
fn each_change_moves_the_shares_of_values_without_a_journal() {
    each_change("ea_inode,quota,project,^has_journal");
}

/// Values that are set, replaced and moved to other owners.
fn changes_of_values() {
    let memory = make(1024, "ea_inode,quota,project");
    let volume = open(&memory);
    let file = create(&volume, "/f");
    set(&volume, file, "user.one", 3000);
    set(&volume, file, "user.two", 5000);
    set(&volume, file, "user.two", 6000);
    chown(&volume, file, OTHER);
    volume.close().expect("close");
    assert_counted(&memory, "closed");
}

#[test]
fn an_entry_counts_for_its_inode() {
    for mutant in [
        "quota/chown-leaves-values",
        "quota/value-counted-twice",
        "quota/values-not-counted",
    ] {
        assert_notices(mutant, changes_of_values);
    }
}

/// A replaced value becomes an orphan, and the transaction ends before it is deleted. The value is
/// of an owner that has nothing any more. Then Linux's inode has no room for a project, and nothing
/// else is of project 0.
fn orphans_of_other_owners() {
    for extra_bytes in [32, 24] {
        let memory = make(1024, "ea_inode,quota,project");
        let volume = open(&memory);
        let file = create(&volume, "/f");
        set(&volume, file, "user.one", 3000);
        for nr in [InodeNr::ROOT, LOST_AND_FOUND, file] {
            chown(&volume, nr, OTHER);
        }
        let change = SetAttributes {
            flags: Some(InodeFlags::SYNC),
            ..SetAttributes::default()
        };
        volume.set_attributes(file, &change).expect("chattr +S");
        volume.close().expect("close");
        assert_counted(&memory, "of another owner");
        let memory = Arc::new(with_extra_bytes(&memory, file.get() + 1, extra_bytes));
        let volume = open(&memory);
        assert_eq!(usage(&volume, QuotaKind::User, OWNER), None);
        assert_eq!(usage(&volume, QuotaKind::Project, 0), None);
        set(&volume, file, "user.one", 20);
        let cut = Arc::new(memory.snapshot());
        for e2fsck in e2fscks() {
            let (_, said) = run_on_copy(&cut, &e2fsck, "-fy");
            assert!(said.contains("rphan"), "{e2fsck}: {said}");
            assert!(!said.contains("QUOTA"), "{e2fsck}: {said}");
        }
        let options = quiet(DataMode::Ordered);
        let (recovered, report) = Volume::open_with_report(device(&cut), None, options).unwrap();
        assert_eq!(report.orphans_deleted, 1);
        recovered.close().expect("close");
        assert_counted(&cut, "recovered");
        volume.close().expect("close");
        assert_counted(&memory, "closed");
    }
}

/// Changes the size of the extra part of the inode of a value.
fn with_extra_bytes(memory: &MemoryDevice, nr: u32, bytes: u32) -> MemoryDevice {
    let image = Image::empty("ext4", 1024, memory.geometry().size_bytes, false);
    memory.write_to_file(&image.path).unwrap();
    let path = image.path.to_str().unwrap();
    let said = tool::run_well("debugfs", &["-R", &format!("stat <{nr}>"), path]);
    assert!(said.contains("Flags: 0x280000"), "{said}");
    let request = format!("sif <{nr}> extra_isize {bytes}");
    tool::run_well("debugfs", &["-w", "-R", &request, path]);
    MemoryDevice::load_from_file(&image.path).expect("the image loads")
}

#[test]
fn a_value_without_an_entry_counts_for_the_owner_that_had_it() {
    assert_notices("quota/orphan-of-former-owner", orphans_of_other_owners);
}

/// A value that finds no room counts for nothing, and the old one stays.
#[test]
fn a_value_without_room_is_not_counted() {
    let memory = make(1024, "ea_inode,quota,project");
    let volume = open(&memory);
    let file = create(&volume, "/f");
    set(&volume, file, "user.one", 3000);
    let filler = volume.create(InodeNr::ROOT, b"filler", &NewInode::default());
    let opened = volume.open_inode(filler.expect("create"), OpenFlags::READ_WRITE);
    let opened = opened.expect("open");
    let mut at = 0;
    while volume.write_all(opened, at, &[1; 1 << 16]).is_ok() {
        at += 1 << 16;
    }
    volume.sync().expect("sync");
    let before = usage(&volume, QuotaKind::User, OWNER);
    let failed = try_set(&volume, file, "user.one", 65_536);
    assert!(matches!(failed, Err(Error::NoSpace)), "{failed:?}");
    assert_eq!(usage(&volume, QuotaKind::User, OWNER), before);
    let value = volume.get_attribute(file, b"user.one");
    assert_eq!(value.expect("it has one"), [9; 3000]);
    volume.release(opened).expect("release");
    volume.close().expect("close");
    assert_counted(&memory, "full");
}

/// The kernel has made files that share an attribute block with a value. tune counts them, and the
/// engine copies the block and leaves it.
#[test]
fn entries_of_a_shared_block_count_for_each_inode() {
    if !privilege::is_granted() {
        return;
    }
    let more = ["-O", "ea_inode", "-N", "1024", "-J", "size=2"];
    let image = Image::with_arguments("ext4", 1024, 16 << 20, false, &more);
    let mount = image.mount("rw").expect("the kernel mounts");
    for (path, owner) in [("/a", OWNER), ("/b", OTHER)] {
        std::fs::write(mount.at(path), "x").expect("it is written");
        std::os::unix::fs::chown(mount.at(path), Some(owner), Some(owner)).expect("chown");
        for (name, bytes) in [("user.1", 60), ("user.2", 900), ("user.3", 2000)] {
            let value = vec![9; bytes];
            let done = lsetxattr(mount.at(path), name, &value, XattrFlags::empty());
            done.expect("it fits");
        }
    }
    drop(mount);
    let memory = MemoryDevice::load_from_file(&image.path).expect("the image loads");
    let memory = Arc::new(memory);
    let changes = Changes {
        features: vec![free_feature("quota").expect("known")],
        ..Changes::default()
    };
    tune::apply(&device(&memory), None, &changes).expect("it is tuned");
    assert_counted(&memory, "tune -O quota");
    let users = |volume: &Volume| -> BTreeMap<u32, u64> {
        let quotas = volume.quotas(QuotaKind::User).expect("read");
        let quotas = quotas.expect("counted").into_iter();
        quotas.map(|quota| (quota.id, quota.inodes)).collect()
    };
    let volume = Volume::open(device(&memory), None, quiet(DataMode::Ordered)).expect("it opens");
    // The file, and the values `user.2` and `user.3`.
    assert_eq!(users(&volume), [(0, 2), (OWNER, 3), (OTHER, 3)].into());
    set(&volume, nr(&volume, "/a"), "user.4", 20);
    let check = |volume: &Volume, when| {
        volume.sync().expect("sync");
        let cut = Arc::new(memory.snapshot());
        open(&cut).close().expect("close");
        assert_counted(&cut, when);
    };
    check(&volume, "a copy of the block");
    assert_eq!(users(&volume), [(0, 2), (OWNER, 3), (OTHER, 3)].into());
    volume.remove_file("/b").expect("unlink");
    check(&volume, "the other file is deleted");
    volume.remove_file("/a").expect("unlink");
    assert_eq!(users(&volume), [(0, 2), (OWNER, 0), (OTHER, 0)].into());
    volume.close().expect("close");
    assert_counted(&memory, "both are deleted");
}

/// A read-only open shows the counts, too.
#[test]
fn a_volume_is_writable_and_readable() {
    let memory = make(1024, "ea_inode,quota,project");
    let volume = open(&memory);
    assert!(!volume.is_read_only());
    set(&volume, create(&volume, "/f"), "user.one", 3000);
    volume.close().expect("close");
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let volume = Volume::open(device(&memory), None, options).expect("it opens");
    let found = usage(&volume, QuotaKind::Group, OWNER);
    assert_eq!(found, Some((2, 3 * 1024 + 3 * 1024)));
}
