//! The operations whose accesses fail, and a volume with files for each of them.

use ext::options::DataMode;
use ext::tuning::AllocationProfile;
use ext::volume::{
    DeviceNumber, FileKind, InodeFlags, NewInode, OpenFlags, RenameMode, SetAttributes, SetMode,
    WhiteoutOwner,
};
use ext::{Error, Volume};
use layout::InodeNr;

use super::freeing;
use crate::rig::{Place, Rig, Structures, quiet};

pub(super) const BLOCK_BYTES: u32 = 1024;
const VOLUME_BYTES: u64 = 10 << 20;
/// An offset that only the third tree of a block map reaches: past 12, 256 and 65,536 blocks.
pub(super) const TRIPLE: u64 = (12 + 256 + 65_536 + 700) * BLOCK_BYTES as u64;
/// Number of names in the large directory, which is indexed.
const NAMES: u32 = 80;

pub(super) type Work = fn(&Volume) -> Result<(), Error>;

/// An operation, as a series of steps.
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) steps: &'static [Work],
}

pub(super) const fn operation(name: &'static str, steps: &'static [Work]) -> Operation {
    Operation { name, steps }
}

pub(super) fn set_size(volume: &Volume, path: &str, size: u64) -> Result<(), Error> {
    let change = SetAttributes {
        size: Some(size),
        ..Default::default()
    };
    volume.set_attributes(volume.resolve(path, true)?, &change)
}

pub(super) fn set_flags(volume: &Volume, path: &str, flags: InodeFlags) -> Result<(), Error> {
    let change = SetAttributes {
        flags: Some(flags),
        ..Default::default()
    };
    volume.set_attributes(volume.resolve(path, true)?, &change)
}

pub(super) fn write(volume: &Volume, path: &str, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    let file = volume.open_file(path, OpenFlags::READ_WRITE)?;
    let written = file.write_at(offset, bytes);
    written.and(file.close())
}

fn write_direct(volume: &Volume, path: &str, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    let flags = OpenFlags {
        direct: true,
        ..OpenFlags::READ_WRITE
    };
    let file = volume.open_file(path, flags)?;
    let written = file.write_at(offset, bytes);
    written.and(file.close())
}

fn read(volume: &Volume, path: &str, direct: bool) -> Result<(), Error> {
    let flags = OpenFlags {
        direct,
        ..OpenFlags::READ
    };
    let file = volume.open_file(path, flags)?;
    let mut bytes = vec![0; 8 << 10];
    let count = (0..40).try_for_each(|part| file.read_at(part * 8192, &mut bytes).map(drop));
    count.and(file.close())
}

pub(super) fn rename(volume: &Volume, from: &str, to: &str, mode: RenameMode) -> Result<(), Error> {
    let (parent, name) = volume.resolve_parent(from)?;
    let (new_parent, new_name) = volume.resolve_parent(to)?;
    volume.rename(parent, name, new_parent, new_name, mode)
}

const WHITEOUT: RenameMode = RenameMode::Whiteout(WhiteoutOwner { uid: 0, gid: 0 });

fn create_long(volume: &Volume, number: u32) -> Result<(), Error> {
    let parent = volume.resolve("/large", true)?;
    let name = format!("{number:0230}");
    volume
        .create(parent, name.as_bytes(), &NewInode::default())
        .map(drop)
}

/// All operations.
pub(super) const OPERATIONS: &[Operation] = &[
    operation(
        "create",
        &[|volume| {
            let new = NewInode::default();
            let parent = volume.resolve("/d", true)?;
            volume.create(parent, b"new", &new).map(drop)
        }],
    ),
    operation(
        "create in an indexed directory, splitting a leaf",
        &[
            |volume| create_long(volume, 1),
            |volume| create_long(volume, 2),
            |volume| create_long(volume, 3),
            |volume| create_long(volume, 4),
            |volume| create_long(volume, 5),
        ],
    ),
    operation(
        "mkdir",
        &[|volume| volume.create_directory("/d/new").map(drop)],
    ),
    operation(
        "mknod",
        &[|volume| {
            let parent = volume.resolve("/d", true)?;
            let (kind, number) = (
                FileKind::CharacterDevice,
                DeviceNumber { major: 1, minor: 3 },
            );
            volume
                .make_node(parent, b"node", kind, number, &NewInode::default())
                .map(drop)
        }],
    ),
    operation(
        "symlink",
        &[|volume| {
            let parent = volume.resolve("/d", true)?;
            let new = NewInode::default();
            volume
                .symlink(parent, b"slow", &[b'y'; 300], &new)
                .map(drop)
        }],
    ),
    operation(
        "link",
        &[|volume| {
            let (nr, parent) = (
                volume.resolve("/e/file", true)?,
                volume.resolve("/d", true)?,
            );
            volume.link(nr, parent, b"link")
        }],
    ),
    operation("unlink", &[|volume| volume.remove_file("/e/file")]),
    operation(
        "unlink of a file with three trees",
        &[|volume| volume.remove_file("/sparse")],
    ),
    operation(
        "unlink in an indexed directory",
        &[|volume| volume.remove_file(&format!("/large/{:0200}", 7))],
    ),
    operation("rmdir", &[|volume| volume.remove_directory_at("/e/empty")]),
    operation(
        "rename",
        &[|volume| rename(volume, "/e/file", "/e/other", RenameMode::Replace)],
    ),
    operation(
        "rename into another directory, replacing",
        &[|volume| rename(volume, "/e/file", "/d/old", RenameMode::Replace)],
    ),
    operation(
        "rename of a directory",
        &[|volume| rename(volume, "/e/empty", "/d/moved", RenameMode::NoReplace)],
    ),
    operation(
        "exchange",
        &[|volume| rename(volume, "/e/empty", "/d/old", RenameMode::Exchange)],
    ),
    operation(
        "rename of a directory that leaves a whiteout",
        &[|volume| rename(volume, "/e/empty", "/d/moved", WHITEOUT)],
    ),
    operation(
        "rename that leaves a whiteout, replacing",
        &[|volume| rename(volume, "/e/file", "/d/old", WHITEOUT)],
    ),
    operation(
        "append",
        &[|volume| write(volume, "/d/old", 30_000, &[7; 9000])],
    ),
    operation(
        "overwrite in part",
        &[|volume| write(volume, "/d/old", 700, &[8; 9000])],
    ),
    operation(
        "write into holes",
        &[
            |volume| write(volume, "/sparse", TRIPLE / 2, &[9; 3000]),
            |volume| write(volume, "/sparse", TRIPLE + 300_000, &[9; 3000]),
        ],
    ),
    operation(
        "direct overwrite",
        &[|volume| write_direct(volume, "/d/old", 2048, &[10; 4096])],
    ),
    operation(
        "direct append",
        &[|volume| write_direct(volume, "/d/old", 30_720, &[11; 4096])],
    ),
    operation("truncate", &[|volume| set_size(volume, "/d/old", 777)]),
    operation(
        "truncate three trees",
        &[|volume| set_size(volume, "/sparse", 5000)],
    ),
    operation("grow", &[|volume| set_size(volume, "/d/old", 1 << 20)]),
    operation(
        "chattr +j",
        &[|volume| set_flags(volume, "/d/old", InodeFlags::JOURNAL_DATA)],
    ),
    operation(
        "chattr -j",
        &[|volume| set_flags(volume, "/journaled", InodeFlags::empty())],
    ),
    operation("read", &[|volume| read(volume, "/sparse", false)]),
    operation("direct read", &[|volume| read(volume, "/d/old", true)]),
    operation(
        "readdir and readlink",
        &[|volume| {
            volume.list("/large")?;
            volume.list("/e")?;
            volume.read_link(volume.resolve("/slow", false)?).map(drop)
        }],
    ),
    operation(
        "last close of a deleted file",
        &[|volume| {
            let file = volume.open_file("/sparse", OpenFlags::READ)?;
            let removed = volume.remove_file("/sparse");
            removed.and(file.close())
        }],
    ),
    operation(
        "fdatasync and fsync",
        &[
            |volume| {
                let file = volume.open_file("/d/old", OpenFlags::READ_WRITE)?;
                let done = file.write_at(100, &[12; 2000]);
                done.and_then(|()| file.sync_data()).and(file.close())
            },
            |volume| {
                let file = volume.open_file("/d/old", OpenFlags::READ_WRITE)?;
                let done = file.write_at(40_000, &[13; 2000]);
                done.and_then(|()| file.sync_all()).and(file.close())
            },
        ],
    ),
    operation(
        "attributes in the inode and in a block",
        &[
            |volume| mark(volume, "/d/old", b"user.a", b"short"),
            |volume| mark(volume, "/d/old", b"user.b", LONG),
            |volume| mark(volume, "/d/old", b"user.b", &[6; 200]),
            |volume| mark(volume, "/d/old", b"user.a", LONG),
            |volume| unmark(volume, "/d/old", b"user.b"),
            |volume| unmark(volume, "/d/old", b"user.a"),
        ],
    ),
    operation(
        "attributes that are shared",
        &[
            |volume| {
                volume
                    .get_attribute(volume.resolve("/marked", true)?, MARK)
                    .map(drop)
            },
            |volume| mark(volume, "/d/old", MARK, LONG),
            |volume| mark(volume, "/marked", MARK, &[6; 200]),
            |volume| mark(volume, "/marked", MARK, LONG),
            |volume| unmark(volume, "/d/old", MARK),
            |volume| volume.remove_file("/marked"),
        ],
    ),
    operation(
        "access control lists",
        &[
            |volume| volume.write_file("/listed/new", b""),
            |volume| volume.create_directory("/listed/sub").map(drop),
            |volume| {
                let change = SetAttributes {
                    permissions: Some(0o741),
                    ..Default::default()
                };
                volume.set_attributes(volume.resolve("/listed/file", true)?, &change)
            },
        ],
    ),
];

/// The name of the attribute that `/marked` has in a block.
pub(super) const MARK: &[u8] = b"user.mark";
/// A value too long for an inode.
pub(super) const LONG: &[u8] = &[5; 200];
/// `u:rwx u1000:r-x g:r-x m:r-x o:---`, in the form of programs.
const LIST: &[u8] = &[
    2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 5, 0, 0xE8, 3, 0, 0, 4, 0, 5, 0, 255, 255,
    255, 255, 16, 0, 5, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255,
];

fn mark(volume: &Volume, path: &str, name: &[u8], value: &[u8]) -> Result<(), Error> {
    volume.set_attribute(volume.resolve(path, true)?, name, value, SetMode::Any)
}

fn unmark(volume: &Volume, path: &str, name: &[u8]) -> Result<(), Error> {
    match volume.remove_attribute(volume.resolve(path, true)?, name) {
        Err(Error::NoAttribute) => Err(Error::NotFound),
        other => other,
    }
}

/// Returns a volume with files for each operation.
pub(super) fn prepared(structures: Structures, place: Place) -> Rig {
    let rig = Rig::of(structures, place, BLOCK_BYTES, VOLUME_BYTES);
    let mut options = quiet(DataMode::Ordered);
    // One file can fill the first group then.
    options.tuning.allocation = AllocationProfile::Modern;
    let volume = rig.open(options);
    let new = NewInode::default();
    for path in ["/d", "/e", "/e/empty"] {
        volume.create_directory(path).expect("mkdir");
    }
    let large = volume.create_directory("/large").expect("mkdir");
    for number in 0..NAMES {
        let name = format!("{number:0200}");
        volume.create(large, name.as_bytes(), &new).expect("create");
    }
    volume.write_file("/d/old", &[1; 30_000]).expect("write");
    volume.write_file("/e/file", &[2; 20_000]).expect("write");
    volume.write_file("/sparse", &[3; 5000]).expect("write");
    for offset in [100_000, 400_000, TRIPLE] {
        write(&volume, "/sparse", offset, &[3; 5000]).expect("write");
    }
    volume
        .symlink(InodeNr::ROOT, b"slow", &[b'x'; 300], &new)
        .expect("symlink");
    volume
        .write_file("/journaled", &[4; 20_000])
        .expect("write");
    volume.write_file("/marked", b"").expect("write");
    mark(&volume, "/marked", MARK, LONG).expect("setxattr");
    volume.create_directory("/listed").expect("mkdir");
    mark(&volume, "/listed", b"system.posix_acl_default", LIST).expect("setfacl");
    mark(&volume, "/listed", MARK, LONG).expect("setxattr");
    volume.write_file("/listed/file", b"").expect("write");
    if place != Place::None {
        set_flags(&volume, "/journaled", InodeFlags::JOURNAL_DATA).expect("chattr");
    }
    freeing::prepare(&volume, place);
    volume.close().expect("close");
    rig
}
