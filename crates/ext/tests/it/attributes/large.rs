//! Values in inodes of their own (`ea_inode`), in turn with the kernel.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice};
use ext::volume::NewInode;
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use testkit::{Mount, tool};

use super::*;
use crate::damage::assert_notices;

const LARGE_IMAGE_BYTES: u64 = 64 << 20;
const LARGE_SIZES: &[usize] = &[
    1, 17, 90, 300, 972, 1000, 2048, 3900, 4000, 4096, 5000, 20_000, 65_535, 65_536,
];

/// Without the symbolic link: e2fsck 1.47.0 takes the target of a short one for a block map if the
/// link has a value in an inode of its own and no attribute block.
const LARGE_PATHS: &[&str] = &[
    "/a", "/b", "/c", "/d", "/d/e", "/d/f", "/g", "/g/h", "/node",
];

/// Runs the same operations on both sides, with values of up to 64 KiB. The log has room for the
/// largest value, which Linux writes in one transaction.
fn agree_on_large(block_bytes: u32, features: &str, data: DataMode, seed: u64) {
    let journal = if features.contains("^has_journal") {
        Journal::None
    } else {
        Journal::Internal(data)
    };
    let cell = Cell {
        block_bytes,
        journal,
    };
    let features = format!("ea_inode,{features}");
    let mut more = vec!["-O", &features, "-N", "2048"];
    if journal != Journal::None {
        more.extend(["-J", "size=16"]);
    }
    let made = Image::with_arguments("ext4", block_bytes, LARGE_IMAGE_BYTES, false, &more);
    let when = format!("{block_bytes}, {features}, {data:?}, seed {seed}");
    agree_from(&cell, made, (&when, seed), (LARGE_PATHS, LARGE_SIZES));
}

#[test]
fn the_kernel_agrees_on_large_values() {
    if privilege::is_granted() {
        for seed in 0..SEEDS {
            agree_on_large(4096, "orphan_file", DataMode::Ordered, seed);
            agree_on_large(1024, "^metadata_csum,uninit_bg", DataMode::Writeback, seed);
        }
    }
}

#[test]
fn the_kernel_agrees_on_large_values_of_other_volumes() {
    if privilege::is_granted() {
        for seed in 0..SEEDS {
            agree_on_large(2048, "^extent,^64bit", DataMode::Journal, seed);
            agree_on_large(
                1024,
                "metadata_csum_seed,^has_journal",
                DataMode::Ordered,
                seed,
            );
        }
    }
}

/// Makes an image whose files `/a` and `/b` share an attribute block with a value in an inode of
/// its own.
fn shared() -> Image {
    let image = image("ea_inode");
    with_kernel(&image, |mount| {
        for path in ["/a", "/b"] {
            std::fs::write(mount.at(path), "x").expect("it is written");
            for (name, bytes) in [("user.1", 60), ("user.2", 900), ("user.3", 2000)] {
                set_by_kernel(mount, path, name, &vec![9; bytes]);
            }
        }
    });
    image
}

fn image(features: &str) -> Image {
    let more = ["-O", features, "-N", "2048", "-J", "size=16"];
    Image::with_arguments("ext4", 1024, LARGE_IMAGE_BYTES, false, &more)
}

fn with_kernel(image: &Image, work: impl FnOnce(&Mount)) {
    let mount = image.mount("rw").expect("the kernel mounts");
    work(&mount);
}

fn set_by_kernel(mount: &Mount, path: &str, name: &str, value: &[u8]) {
    lsetxattr(mount.at(path), name, value, XattrFlags::empty()).expect("it fits");
}

fn open(image: &Image) -> Volume {
    Volume::open(image.device(), None, MountOptions::default()).expect("it opens")
}

fn inode(volume: &Volume, path: &str) -> InodeNr {
    volume.resolve(path, false).expect("it is there")
}

/// The engine leaves a shared block: by a copy of it, and by a deletion. Then the last file with it
/// goes, and later the copy.
fn leave_shared_block(copy: &str, other: &str) {
    let image = shared();
    let before = open(&image);
    let (blocks, inodes) = (before.usage().blocks_free, before.usage().inodes_free);
    before.close().expect("close");
    let volume = open(&image);
    let copied = inode(&volume, copy);
    let more = volume.set_attribute(copied, b"user.4", &[7; 20], SetMode::Any);
    more.expect("it fits");
    let sharer = inode(&volume, other);
    let value = volume.get_attribute(sharer, b"user.3").expect("it has one");
    assert_eq!(value, [9; 2000]);
    volume.close().expect("close");
    assert_fsck_clean(&image, "after a copy");
    let volume = open(&image);
    volume.remove_file(other).expect("unlink");
    let value = volume.get_attribute(copied, b"user.3");
    assert_eq!(value.expect("it has one"), [9; 2000]);
    volume.close().expect("close");
    assert_fsck_clean(&image, "after the other file is deleted");
    let volume = open(&image);
    volume.remove_file(copy).expect("unlink");
    volume.sync().expect("sync");
    let usage = volume.usage();
    // Two files with a block each, one attribute block, values of 1 and of 2 blocks: Linux leaves
    // room for entries in the block.
    assert_eq!(usage.blocks_free - blocks, 2 + 1 + 1 + 2);
    assert_eq!(usage.inodes_free - inodes, 4);
    volume.close().expect("close");
    assert_fsck_clean(&image, "after both are deleted");
}

fn leave_shared_blocks() {
    leave_shared_block("/a", "/b");
    leave_shared_block("/b", "/a");
}

#[test]
fn copies_of_shared_blocks_count_their_values() {
    if privilege::is_granted() {
        leave_shared_blocks();
        for mutant in [
            "attributes/reference-not-dropped",
            "attributes/value-not-counted",
        ] {
            assert_notices(mutant, leave_shared_blocks);
        }
    }
}

/// An access control list of this number of named users, in the form of programs.
fn long_list(users: u32) -> Vec<u8> {
    let mut text = "u:7".to_owned();
    for user in 0..users {
        text.push_str(&format!(" u{}:{}", 1000 + user, user % 8));
    }
    text.push_str(" g:5 m:7 o:1");
    list(&text)
}

/// Lists that need inodes of their own are set, inherited and changed by chmod as the kernel does.
#[test]
fn long_lists_are_inherited_as_by_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    let default = "system.posix_acl_default";
    let ops = || {
        let set = |path: &str, name, value| Op::Set {
            path: path.to_owned(),
            name,
            value,
            mode: SetMode::Any,
        };
        let make = |path: &str| Op::Make {
            path: path.to_owned(),
            mode: 0o664,
        };
        let (path, mode) = ("/d/e".to_owned(), 0o640);
        vec![
            make("/d"),
            set("/d", default, long_list(3000)),
            make("/d/e"),
            make("/d/f"),
            make("/g"),
            set("/g", default, long_list(700)),
            make("/g/h"),
            set("/g", default, long_list(2)),
            Op::Chmod { path, mode },
            Op::Delete {
                path: "/d/f".to_owned(),
            },
            set("/g", "system.posix_acl_access", long_list(5000)),
        ]
    };
    let (ours, theirs) = (image("ea_inode"), image("ea_inode"));
    let volume = open(&ours);
    let mount = theirs.mount("rw").expect("the kernel mounts");
    for op in ops() {
        let expected = Side::Kernel(&mount).apply(&op);
        assert_eq!(Side::Ours(&volume).apply(&op), expected, "{op:?}");
    }
    let tree = Side::Kernel(&mount).tree();
    assert_eq!(Side::Ours(&volume).tree(), tree);
    volume.close().expect("close");
    drop(mount);
    assert_fsck_clean(&ours, "ours");
    assert_fsck_clean(&theirs, "theirs");
    with_kernel(&ours, |mount| assert_eq!(Side::Kernel(mount).tree(), tree));
}

/// On a full volume a value that does not fit leaves the old one, and nothing else.
#[test]
fn a_value_without_room_changes_nothing() {
    let features = [
        "ea_inode",
        "ea_inode,^extent,^64bit",
        "ea_inode,^has_journal",
    ];
    for features in features {
        let more = ["-O", features, "-N", "512", "-m", "0"];
        let image = Image::with_arguments("ext4", 1024, 4 << 20, false, &more);
        let volume = open(&image);
        let new = NewInode::default();
        let file = volume.create(InodeNr::ROOT, b"file", &new).expect("create");
        let set = |bytes: usize| {
            let value = vec![bytes as u8; bytes];
            volume.set_attribute(file, b"user.a", &value, SetMode::Any)
        };
        set(30_000).expect("it fits");
        let mut rest = 0;
        while volume
            .write_file(&format!("/rest{rest}"), &[5; 20_000])
            .is_ok()
        {
            rest += 1;
        }
        volume.sync().expect("sync");
        let before = volume.usage();
        assert!(before.blocks_free < 64, "{before:?}");
        for _ in 0..3 {
            assert!(matches!(set(65_536), Err(Error::NoSpace)), "{features}");
        }
        volume.sync().expect("sync");
        let after = volume.usage();
        assert_eq!(after.blocks_free, before.blocks_free, "{features}");
        assert_eq!(after.inodes_free, before.inodes_free, "{features}");
        assert_eq!(volume.orphan_count(), 0);
        let value = volume.get_attribute(file, b"user.a").expect("it has one");
        assert_eq!(value, vec![30_000_usize as u8; 30_000]);
        volume.remove_file("/rest0").expect("unlink");
        volume.remove_file("/rest1").expect("unlink");
        volume.remove_file("/rest2").expect("unlink");
        volume.remove_file("/rest3").expect("unlink");
        set(65_536).expect("there is room after a commit");
        assert!(matches!(set(65_537), Err(Error::AttributeTooLarge)));
        volume.remove_file("/file").expect("unlink");
        assert_eq!(volume.orphan_count(), 0);
        volume.close().expect("close");
        assert_fsck_clean(&image, features);
    }
}

/// A deleted file drops more values than fit one step, and a crash before that leaves none.
#[test]
fn a_file_with_many_values_is_deleted_after_a_crash() {
    let more = ["-O", "ea_inode,orphan_file", "-N", "256"];
    let image = Image::with_arguments("ext4", 4096, 32 << 20, false, &more);
    let bytes = std::fs::read(&image.path).expect("the image is there");
    let device = Arc::new(MemoryDevice::from_bytes(&bytes));
    let shared: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
    let volume = Volume::open(shared, None, MountOptions::default()).expect("it opens");
    let (blocks, inodes) = (volume.usage().blocks_free, volume.usage().inodes_free);
    let new = NewInode::default();
    let file = volume.create(InodeNr::ROOT, b"file", &new).expect("create");
    for number in 0..40 {
        let name = format!("user.{number}");
        let value = vec![number; 5000];
        let set = volume.set_attribute(file, name.as_bytes(), &value, SetMode::Any);
        set.expect("it fits");
    }
    let opened = volume.open_inode(file, ext::volume::OpenFlags::READ);
    opened.expect("it is opened");
    volume.remove_file("/file").expect("unlink");
    volume.sync().expect("sync");
    drop(volume);
    device.write_to_file(&image.path).expect("it is written");
    let volume = open(&image);
    assert_eq!(volume.orphan_count(), 0);
    volume.sync().expect("sync");
    let usage = volume.usage();
    assert_eq!((usage.blocks_free, usage.inodes_free), (blocks, inodes));
    volume.close().expect("close");
    assert_fsck_clean(&image, "after the crash");
}

fn debugfs(image: &Image, requests: &[&str]) {
    let path = image.path.to_str().expect("UTF-8");
    for request in requests {
        tool::run_well("debugfs", &["-w", "-R", request, path]);
    }
}

/// Makes an image by the engine with a file 12 whose value of 2000 bytes lies in inode 13.
fn with_value() -> Image {
    let image = image("ea_inode,^metadata_csum");
    let volume = open(&image);
    let new = NewInode::default();
    let file = volume.create(InodeNr::ROOT, b"file", &new).expect("create");
    let set = volume.set_attribute(file, b"user.a", &[1; 2000], SetMode::Any);
    set.expect("it fits");
    volume.close().expect("close");
    assert_eq!(file.get(), 12);
    image
}

/// References that lead to no good value are one error, for every use of the attribute.
#[test]
fn damaged_references_are_refused() {
    let cases: &[&[&str]] = &[
        &["sif <13> flags 0x80000"],
        &["sif <13> size 1999"],
        &["sif <13> atime 0x1234"],
        &["sif <13> version 0"],
        &["sif <13> mode 040700"],
        &["sif <13> links_count 0"],
        &["clri <13>"],
        &["punch <13> 0 0"],
        &["sif <13> block[5] 9"],
    ];
    for requests in cases {
        let image = with_value();
        debugfs(&image, requests);
        let volume = open(&image);
        let file = inode(&volume, "/file");
        let read = volume.get_attribute(file, b"user.a");
        assert!(
            matches!(read, Err(Error::Corrupt(_))),
            "{requests:?}: {read:?}"
        );
        assert_eq!(volume.list_attributes(file).expect("names"), [b"user.a"]);
        volume.close().expect("close");
        let volume = open(&image);
        let is_of_data = requests[0].starts_with("punch") || requests[0].contains("block[");
        let replaced = volume.set_attribute(file, b"user.a", &[2; 3000], SetMode::Any);
        if !is_of_data {
            assert!(matches!(replaced, Err(Error::Corrupt(_))), "{requests:?}");
        }
        drop(volume.remove_file("/file"));
        drop(volume.close());
    }
}

/// The inode of a value is opened neither by a name nor by its number.
#[test]
fn inodes_of_values_are_no_files() {
    let image = with_value();
    debugfs(&image, &["link <13> name"]);
    let volume = open(&image);
    assert!(matches!(
        volume.resolve("/name", false),
        Ok(_) | Err(Error::Corrupt(_) | Error::NotFound)
    ));
    let read = volume.read_file("/name");
    let is_refused = matches!(read, Err(Error::Corrupt(_) | Error::NotFound));
    assert!(is_refused, "{read:?}");
    let by_number = volume.attributes(InodeNr::new(13));
    assert!(matches!(by_number, Err(Error::NotFound)), "{by_number:?}");
    drop(volume.close());
}

/// A file handle may name the inode of a file that was deleted, and that is the inode of a value
/// now: this is no damage.
#[test]
fn a_stale_number_of_a_value_is_no_damage() {
    let image = with_value();
    let volume = open(&image);
    let found = volume.look_up_number(InodeNr::new(13));
    assert!(matches!(found, Err(Error::NotFound)), "{found:?}");
    let made = volume.make_directory(InodeNr::ROOT, b"d", &NewInode::default());
    made.expect("it is writable");
    volume.close().expect("close");
    let path = image.path.to_str().expect("UTF-8");
    tool::run_well("e2fsck", &["-fn", path]);
}

/// Inodes of values have no attributes of their own: a chain of them would be deleted by recursion.
#[test]
fn a_value_with_attributes_is_refused() {
    let image = with_value();
    debugfs(&image, &["ea_set <13> user.x y"]);
    let volume = open(&image);
    let file = inode(&volume, "/file");
    let read = volume.get_attribute(file, b"user.a");
    assert!(matches!(read, Err(Error::Corrupt(_))), "{read:?}");
    drop(volume.remove_file("/file"));
    drop(volume.close());
}

/// A crash left a deleted file with a damaged value on the list: the volume opens, read-only.
#[test]
fn an_orphan_with_a_damaged_value_lets_the_volume_open() {
    let image = with_value();
    debugfs(
        &image,
        &[
            "unlink /file",
            "sif <12> links_count 0",
            "sif <12> dtime 0",
            "ssv last_orphan 12",
            "sif <13> version 0",
        ],
    );
    let opened = Volume::open_with_report(image.device(), None, MountOptions::default());
    let (volume, report) = opened.expect("it opens");
    assert!(report.read_only_because.is_some(), "{report:?}");
    drop(volume.close());
}

/// Linux leaves the mark of a value on an orphan, and refuses such an orphan. It is deleted here.
#[test]
fn an_orphan_that_is_marked_as_a_value_is_deleted() {
    let image = with_value();
    debugfs(
        &image,
        &[
            "clri <12>",
            "unlink file",
            "freei <12>",
            "sif <13> links_count 0",
            "sif <13> version 0",
            "ssv last_orphan 13",
        ],
    );
    let volume = open(&image);
    assert_eq!(volume.orphan_count(), 0);
    volume.close().expect("close");
    let path = image.path.to_str().expect("UTF-8");
    let output = tool::run("e2fsck", &["-fn", path]);
    let said = tool::said(&output);
    assert!(
        !said.contains("Unattached") && !said.contains("Block bitmap"),
        "{said}"
    );
}

/// Values that the engine wrote lie where the kernel looks for them, and have owners and times.
#[test]
fn the_kernel_reads_a_value_of_the_largest_size() {
    if !privilege::is_granted() {
        return;
    }
    let image = with_value();
    let volume = open(&image);
    let file = inode(&volume, "/file");
    let value: Vec<u8> = (0..65_536_u32).map(|at| (at / 7) as u8).collect();
    let set = volume.set_attribute(file, b"user.largest", &value, SetMode::Create);
    set.expect("it fits");
    volume.close().expect("close");
    with_kernel(&image, |mount| {
        let mut found = vec![0; 70_000];
        let at = mount.at("/file");
        let count = lgetxattr(&at, "user.largest", &mut found).expect("it is there");
        assert_eq!(&found[..count], value);
        set_by_kernel(mount, "/file", "user.largest", b"short");
    });
    assert_fsck_clean(&image, "after the kernel");
}
