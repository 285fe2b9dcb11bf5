//! Scripts whose sync calls are served by fast commits, and steps that need whole commits.

use ext::Volume;
use ext::volume::{NewInode, OpenFlags, RangeChange, RenameMode, SetAttributes, SetMode};
use layout::InodeNr;

/// A script on a prepared volume.
pub type Script = fn(&Volume);

/// The script whose file has nodes of an extent tree.
pub const PIECES: &str = "a file in pieces";

/// Scripts without a change that tags do not describe.
pub const CHANGES: &[(&str, Script)] = &[
    ("new files", new_files),
    ("many new files", many_new_files),
    ("names", names),
    ("a name that another file gets", names_again),
    ("ranges", ranges),
    ("unwritten blocks", unwritten),
    (PIECES, pieces),
    ("attributes", attributes),
    ("removed files", removed),
    ("a number that another file gets", numbers),
];

/// Scripts of one synced step that tags do not describe.
pub const WHOLE: &[(&str, Script)] = &[
    ("a directory is made", |volume| {
        volume.create_directory("/made").expect("mkdir");
        sync_root(volume);
    }),
    ("a directory is removed", |volume| {
        volume.remove_directory_at("/empty").expect("rmdir");
        sync_root(volume);
    }),
    ("a directory is renamed", |volume| {
        volume.rename_path("/empty", "/base/moved").expect("rename");
        sync_root(volume);
    }),
    ("a directory grows", |volume| {
        for number in 0..LONG_NAMES {
            volume
                .write_file(&long_name("/empty", number), b"")
                .expect("write");
        }
        sync(volume, &long_name("/empty", 0));
    }),
    ("names are exchanged", |volume| {
        let (old, new) = (b"old0", b"old1");
        let root = InodeNr::ROOT;
        volume
            .rename(root, old, root, new, RenameMode::Exchange)
            .expect("exchange");
        sync_root(volume);
    }),
    ("a symbolic link is made", |volume| {
        volume.create_symlink("/made", "old0").expect("symlink");
        sync_root(volume);
    }),
    ("the mode of a directory", |volume| {
        let change = mode(0o700);
        volume.set_metadata("/base", true, &change).expect("chmod");
        let nr = volume.resolve("/base", true).expect("it is there");
        volume.sync_directory(nr).expect("fsync");
    }),
    ("an extended attribute", |volume| {
        let name = "user.key";
        volume
            .set_attribute_at("/old0", true, name, b"value", SetMode::Any)
            .expect("setxattr");
        sync(volume, "/old0");
    }),
];

/// Makes the files that scripts change, durably.
pub fn prepare(volume: &Volume) {
    volume.create_directory("/base").expect("mkdir");
    volume.create_directory("/empty").expect("mkdir");
    // Names of scripts find room without further blocks.
    for number in 0..LONG_NAMES {
        volume
            .write_file(&long_name("/base", number), b"")
            .expect("write");
    }
    for number in 0..LONG_NAMES {
        volume
            .remove_file(&long_name("/base", number))
            .expect("unlink");
    }
    for number in 0..6 {
        let path = format!("/old{number}");
        volume
            .write_file(&path, &[100 + number; 9000])
            .expect("write");
    }
    volume.sync().expect("sync");
}

/// Makes the changes of a file durable.
fn sync(volume: &Volume, path: &str) {
    let file = volume.open_file(path, OpenFlags::READ).expect("open");
    file.sync_all().expect("fsync");
    file.close().expect("close");
}

fn sync_root(volume: &Volume) {
    volume.sync_directory(InodeNr::ROOT).expect("fsync");
}

/// Writes bytes at an offset of a file, durably.
fn put(volume: &Volume, path: &str, offset: u64, byte: u8, count: usize) {
    let is_there = volume.resolve(path, true).is_ok();
    let file = match is_there {
        true => volume.open_file(path, OpenFlags::READ_WRITE).expect("open"),
        false => volume
            .create_file(path, &NewInode::default())
            .expect("create"),
    };
    file.write_at(offset, &vec![byte; count]).expect("write");
    file.sync_all().expect("fsync");
    file.close().expect("close");
}

pub fn new_files(volume: &Volume) {
    for number in 0..12 {
        let path = format!("/base/new{number}");
        put(volume, &path, 0, number, 700 * usize::from(number));
    }
    for number in 0..5 {
        let file = volume
            .open_file("/old0", OpenFlags::READ_WRITE)
            .expect("open");
        file.write_at(9000 + 3000 * number, &[7; 3000])
            .expect("write");
        file.sync_data().expect("fdatasync");
        file.close().expect("close");
    }
}

/// Number of files with long names: as many as take several blocks of tags.
const LONG_NAMES: u8 = 60;

fn long_name(folder: &str, number: u8) -> String {
    format!("{folder}/{number:0>60}")
}

fn many_new_files(volume: &Volume) {
    for number in 0..LONG_NAMES {
        volume
            .write_file(&long_name("/base", number), b"")
            .expect("write");
    }
    sync(volume, &long_name("/base", 59));
    // Nothing has changed since.
    let before = volume.journal_stats().expect("there is a journal");
    sync(volume, &long_name("/base", 3));
    let after = volume.journal_stats().expect("there is a journal");
    assert_eq!(after.fast_commit_blocks, before.fast_commit_blocks);
    assert!(after.fast_commit_blocks > after.fast_commits);
}

fn names(volume: &Volume) {
    volume.rename_path("/old0", "/renamed").expect("rename");
    sync(volume, "/renamed");
    volume.hard_link("/old1", "/second").expect("link");
    volume.hard_link("/old1", "/base/third").expect("link");
    sync(volume, "/old1");
    volume.remove_file("/old1").expect("unlink");
    sync(volume, "/second");
    volume.rename_path("/old2", "/old3").expect("rename");
    volume.rename_path("/old5", "/base/old5").expect("rename");
    sync_root(volume);
    volume.remove_file("/second").expect("unlink");
    volume.remove_file("/base/third").expect("unlink");
    sync_root(volume);
}

fn names_again(volume: &Volume) {
    volume.remove_file("/old4").expect("unlink");
    put(volume, "/old4", 0, 9, 5000);
    volume.remove_file("/old3").expect("unlink");
    volume.rename_path("/old4", "/old3").expect("rename");
    volume.write_file("/old4", b"short").expect("write");
    volume.remove_file("/old4").expect("unlink");
    volume.write_file("/old4", b"another").expect("write");
    sync(volume, "/old4");
    volume.write_file("/temporary", &[5; 3000]).expect("write");
    volume.rename_path("/temporary", "/old2").expect("rename");
    sync(volume, "/old2");
}

fn ranges(volume: &Volume) {
    put(volume, "/old0", 400_000, 7, 50_000);
    let file = volume
        .open_file("/old0", OpenFlags::READ_WRITE)
        .expect("open");
    file.set_len(420_000).expect("truncate");
    file.sync_all().expect("fsync");
    file.set_len(600_000).expect("truncate");
    file.sync_all().expect("fsync");
    file.close().expect("close");
    let file = volume
        .open_file("/old1", OpenFlags::READ_WRITE)
        .expect("open");
    file.set_len(0).expect("truncate");
    file.write_at(3000, &[3; 20_000]).expect("write");
    file.sync_all().expect("fsync");
    file.close().expect("close");
}

fn change(volume: &Volume, path: &str, from: u64, count: u64, what: RangeChange) {
    let nr = volume.resolve(path, true).expect("it is there");
    volume
        .change_range(nr, from, count, what, true)
        .expect("fallocate");
}

fn unwritten(volume: &Volume) {
    change(volume, "/old0", 20_000, 300_000, RangeChange::Allocate);
    sync(volume, "/old0");
    put(volume, "/old0", 100_000, 8, 30_000);
    change(volume, "/old0", 105_000, 9000, RangeChange::PunchHole);
    sync(volume, "/old0");
    put(volume, "/old0", 106_000, 6, 2000);
    change(volume, "/old1", 0, 9000, RangeChange::Zero);
    sync(volume, "/old1");
}

fn pieces(volume: &Volume) {
    for number in 0..60 {
        put(volume, "/old0", number * 20_000, number as u8, 500);
    }
    for number in (0..60).step_by(3) {
        change(
            volume,
            "/old0",
            number * 20_000,
            4096,
            RangeChange::PunchHole,
        );
    }
    sync(volume, "/old0");
}

fn mode(permissions: u16) -> SetAttributes {
    SetAttributes {
        permissions: Some(permissions),
        ..SetAttributes::default()
    }
}

fn attributes(volume: &Volume) {
    volume
        .set_metadata("/old0", true, &mode(0o4711))
        .expect("chmod");
    sync(volume, "/old0");
    let owner = SetAttributes {
        uid: Some(70_000),
        gid: Some(5),
        ..SetAttributes::default()
    };
    volume.set_metadata("/old1", true, &owner).expect("chown");
    sync(volume, "/old1");
}

fn removed(volume: &Volume) {
    let file = volume
        .open_file("/old0", OpenFlags::READ_WRITE)
        .expect("open");
    volume.remove_file("/old0").expect("unlink");
    file.write_at(0, b"gone").expect("write");
    put(volume, "/base/new", 0, 1, 5000);
    file.close().expect("close");
    sync_root(volume);
    for number in 0..20 {
        let path = format!("/base/brief{number}");
        volume.write_file(&path, &[1; 2000]).expect("write");
        volume.remove_file(&path).expect("unlink");
    }
    volume.remove_file("/old1").expect("unlink");
    put(volume, "/base/new", 0, 2, 10);
}

fn numbers(volume: &Volume) {
    for round in 0..5 {
        let nr = volume.resolve("/old2", true).expect("it is there");
        volume.remove_file("/old2").expect("unlink");
        put(volume, "/old2", 0, round, 6000);
        let again = volume.resolve("/old2", true).expect("it is there");
        assert_eq!(nr, again, "the number is used again");
    }
}

/// Fills the volume, with whole commits. Then writes to the middle of an unwritten extent that
/// cannot be split for lack of a node, and to a side of it, which is converted already, durably.
pub fn converted_sides(volume: &Volume) {
    volume.write_file("/sides", b"").expect("write");
    let nr = volume.resolve("/sides", true).expect("it is there");
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
    for block in [0, 2] {
        volume
            .write_all(file, block * 1024, &[1; 1024])
            .expect("write");
    }
    volume
        .change_range(nr, 4 * 1024, 4 * 1024, RangeChange::Allocate, false)
        .expect("fallocate");
    volume.sync().expect("sync");
    for number in 0..4 {
        let path = format!("/ballast{number}");
        let ballast = volume
            .create_file(&path, &NewInode::default())
            .expect("create");
        let mut size = 0;
        for count in [1 << 20, 1 << 10] {
            while ballast.write_at(size, &vec![7; count]).is_ok() {
                size += count as u64;
            }
        }
        ballast.close().expect("close");
        volume.sync().expect("sync");
    }
    assert_eq!(volume.usage().blocks_free, 0);
    for block in [5, 4] {
        volume
            .write_all(file, block * 1024, &[9; 1024])
            .expect("write");
    }
    volume.sync_file(file, false).expect("fsync");
    volume.release(file).expect("release");
}
