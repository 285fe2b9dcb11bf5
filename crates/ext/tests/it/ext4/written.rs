//! Volumes of ext4 written in turn with the kernel, and the structures that come with its features:
//! groups that were never initialised, tails of directory blocks, links that are not counted.

use std::path::Path;

use ext::volume::{OpenFlags, RangeChange};
use ext::{Corrupt, Sealed};
use layout::group::{GroupDescriptor64, GroupFlags};
use layout::journal::JournalIncompatible;
use layout::{GroupNr, InodeNr};
use testkit::{Shutdown, privilege, tool};

use super::logs::log_features;
use super::*;
use crate::oracle;
use crate::tree::assert_same;

/// Features of volumes without extents.
const FORMATS: [&str; 3] = [
    "^extent,^64bit",
    "^extent,^64bit,metadata_csum_seed",
    "^extent,^64bit,^metadata_csum,uninit_bg",
];

fn garbage(block_bytes: u32, size: u64, more: &str) -> Image {
    let more: Vec<&str> = more.split_whitespace().collect();
    Image::over_garbage("ext4", block_bytes, size * MIB, false, &more)
}

fn open_on(image: &Image) -> Volume {
    Volume::open(image.device(), None, MountOptions::default()).expect("the volume opens")
}

/// Changes a tree through the kernel.
pub(super) fn change_by_kernel(root: &Path, round: u32) {
    for number in 0..120 {
        let directory = root.join(format!("kernel-{round}-{number}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("file"), vec![number as u8; 3000]).unwrap();
    }
    for number in 0..300 {
        let name = root.join(format!("kernel-{round}-0/a-name-of-some-length-{number}"));
        std::fs::write(name, b"").unwrap();
    }
    let file = root.join(format!("kernel-{round}-1/file"));
    let (file, value) = (file.display().to_string(), "k".repeat(500));
    tool::run_well("setfattr", &["-n", "user.block", "-v", &value, &file]);
    if round > 0 {
        for number in (0..120).step_by(3) {
            let directory = root.join(format!("engine-{}-{number}", round - 1));
            std::fs::remove_dir_all(directory).unwrap();
        }
    }
}

/// Changes a tree through the engine.
pub(super) fn change_by_engine(volume: &Volume, round: u32) {
    for number in 0..120 {
        let directory = format!("/engine-{round}-{number}");
        volume.create_directory(&directory).unwrap();
        let contents = vec![number as u8; 3000];
        volume
            .write_file(&format!("{directory}/file"), &contents)
            .unwrap();
    }
    for number in 0..300 {
        let name = format!("/engine-{round}-0/a-name-of-some-length-{number}");
        volume.write_file(&name, b"").unwrap();
    }
    for number in (1..120).step_by(3) {
        let directory = format!("/kernel-{round}-{number}");
        volume.remove_file(&format!("{directory}/file")).unwrap();
        volume.remove_directory_at(&directory).unwrap();
    }
    for number in 0..100 {
        let name = format!("/kernel-{round}-0/a-name-of-some-length-{number}");
        volume.remove_file(&name).unwrap();
        let name = format!("/kernel-{round}-0/another-name-of-some-length-{number}");
        volume.write_file(&name, b"").unwrap();
    }
    let to = format!("/engine-{round}-1/moved");
    volume
        .rename_path(&format!("/kernel-{round}-2"), &to)
        .unwrap();
}

#[test]
fn the_kernel_and_the_engine_write_in_turn() {
    if !privilege::is_granted() {
        return;
    }
    for (block_bytes, features) in [
        (1024, FORMATS[0]),
        (4096, FORMATS[0]),
        (2048, FORMATS[1]),
        (1024, FORMATS[2]),
        (4096, FORMATS[2]),
    ] {
        println!("blocks of {block_bytes}, {features}");
        let image = garbage(block_bytes, 48, &format!("-O {features} -g 2048"));
        for round in 0..3 {
            let mounted = mount(&image);
            change_by_kernel(mounted.path(), round);
            drop(mounted);
            oracle::assert_fsck_clean(&image, "after the kernel");
            let volume = open_on(&image);
            change_by_engine(&volume, round);
            let own = image.own_tree(&volume);
            volume.close().unwrap();
            oracle::assert_fsck_clean(&image, "after the engine");
            let expected = oracle::kernel_tree(&image).expect("it was mounted before");
            assert_same(&expected, &own, "the volume itself");
            assert_same(&expected, &oracle::view_tree(&image), "ext4-view");
        }
    }
}

#[test]
fn logs_are_replayed_by_the_other() {
    if !privilege::is_granted() {
        return;
    }
    for features in FORMATS {
        println!("{features}");
        let image = garbage(1024, 48, &format!("-O {features} -g 2048"));
        let mounted = mount(&image);
        change_by_kernel(mounted.path(), 0);
        let held = std::fs::File::open(mounted.path().join("kernel-0-5/file")).unwrap();
        std::fs::remove_file(mounted.path().join("kernel-0-5/file")).unwrap();
        mounted.shut_down(Shutdown::FlushesLog);
        drop(held);
        drop(mounted);
        let device = image.device();
        let (volume, report) =
            Volume::open_with_report(device, None, MountOptions::default()).unwrap();
        assert!(report.replayed_transactions > 0, "{report:?}");
        // Others, too, if a process of another test had a file open when it was removed.
        assert!(report.orphans_deleted >= 1, "{report:?}");
        volume.remove_directory_at("/kernel-0-5").unwrap();
        change_by_engine(&volume, 0);
        volume.sync().unwrap();
        let expected = image.own_tree(&volume);
        drop(volume);
        let of_kernel = image.copy();
        drop(mount(&of_kernel));
        let tree = oracle::kernel_tree(&of_kernel).expect("it was mounted before");
        assert_same(&expected, &tree, "the kernel");
        oracle::assert_fsck_clean(&of_kernel, "after the kernel's replay");
        open_on(&image).close().unwrap();
        oracle::assert_fsck_clean(&image, "after the engine's replay");
    }
}

#[test]
fn a_log_gets_the_features_that_linux_gives_it() {
    for (features, has_v3) in [(FORMATS[0], true), (FORMATS[2], false)] {
        let image = garbage(1024, 24, &format!("-O {features}"));
        assert!(log_features(&image).is_empty());
        let volume = open_on(&image);
        volume.write_file("/file", b"contents").unwrap();
        volume.close().unwrap();
        let found = log_features(&image);
        assert_eq!(found.contains(JournalIncompatible::CHECKSUM_V3), has_v3);
        assert!(!found.contains(JournalIncompatible::IS_64BIT));
        oracle::assert_fsck_clean(&image, "after the close");
    }
}

/// Returns the descriptors of 32 bytes of an image with blocks of 1 KiB.
fn descriptors(image: &Image) -> Vec<GroupDescriptor64> {
    let bytes = std::fs::read(&image.path).unwrap();
    let count = superblock(image).blocks_count().div_ceil(2048) as usize;
    let all = bytes[2048..].chunks(32).take(count);
    all.map(GroupDescriptor64::read).collect()
}

#[test]
fn groups_are_initialised_at_their_first_use() {
    for features in FORMATS {
        println!("{features}");
        let image = garbage(
            1024,
            32,
            &format!("-O {features},^has_journal -g 2048 -N 4096"),
        );
        let before = descriptors(&image);
        let unused = GroupFlags::INODE_UNINIT | GroupFlags::BLOCK_UNINIT;
        let count = |all: &[GroupDescriptor64]| {
            all.iter()
                .filter(|one| one.flags().contains(unused))
                .count()
        };
        assert!(count(&before) > before.len() / 2, "most groups are unused");
        let volume = open_on(&image);
        volume.write_file("/file", b"contents").unwrap();
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, "after one file");
        let after = descriptors(&image);
        assert_eq!(
            count(&after),
            count(&before),
            "the file needs no other group"
        );
        let unused = before[0].unused_inodes_count();
        assert_eq!(after[0].unused_inodes_count(), unused - 1);
        assert!(!after[0].flags().contains(GroupFlags::INODE_ZEROED));

        let volume = open_on(&image);
        for number in 0..40 {
            volume
                .create_directory(&format!("/directory-{number}"))
                .unwrap();
            for name in 0..number * 3 {
                let name = format!("/directory-{number}/file-{name}");
                volume.write_file(&name, b"contents").unwrap();
            }
        }
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, "after files in all groups");
        let after = descriptors(&image);
        assert_eq!(count(&after), 0);
        let volume = open_on(&image);
        for number in 0..40 {
            for name in 0..number * 3 {
                let name = format!("/directory-{number}/file-{name}");
                volume.remove_file(&name).unwrap();
            }
            volume
                .remove_directory_at(&format!("/directory-{number}"))
                .unwrap();
        }
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, "after their removal");
        for (removed, one) in descriptors(&image).iter().zip(after) {
            assert_eq!(removed.unused_inodes_count(), one.unused_inodes_count());
        }
    }
}

#[test]
fn short_names_fill_blocks_up_to_the_tail() {
    for (index, directories) in [("^dir_index", 3), ("dir_index", 3)] {
        let features = format!("^extent,^64bit,^has_journal,{index}");
        let image = garbage(1024, 24, &format!("-O {features}"));
        let volume = open_on(&image);
        for directory in 0..directories {
            volume.create_directory(&format!("/{directory}")).unwrap();
            // Entries of 12 bytes, of which a tail has the size, and others.
            for number in 0..600 {
                let name = match directory {
                    0 => format!("{number:03}"),
                    1 => format!("{number:04}"),
                    _ => format!("{number:0width$}", width = 4 + number % 9),
                };
                volume
                    .write_file(&format!("/{directory}/{name}"), b"")
                    .unwrap();
            }
            for number in (0..600).step_by(2) {
                let name = match directory {
                    0 => format!("{number:03}"),
                    1 => format!("{number:04}"),
                    _ => format!("{number:0width$}", width = 4 + number % 9),
                };
                volume.remove_file(&format!("/{directory}/{name}")).unwrap();
                volume
                    .write_file(&format!("/{directory}/x{number}"), b"")
                    .unwrap();
            }
        }
        volume.close().unwrap();
        oracle::assert_fsck_clean(&image, index);
        let volume = open_on(&image);
        for directory in 0..directories {
            let names = volume.list(&format!("/{directory}")).unwrap();
            assert_eq!(names.len(), 600, "{index}");
        }
        volume.close().unwrap();
    }
}

#[test]
fn directories_with_too_many_subdirectories_are_not_counted() {
    let more = "-O ^extent,^64bit,^has_journal -N 70000 -I 256";
    let image = image(1024, 160 * MIB, more);
    let volume = open_on(&image);
    let (top, new) = (volume.create_directory("/top").unwrap(), Default::default());
    let links = |volume: &Volume| volume.attributes(top).unwrap().links;
    for number in 0..64_998 {
        volume
            .make_directory(top, format!("{number}").as_bytes(), &new)
            .unwrap();
    }
    assert_eq!(links(&volume), 65_000);
    volume.make_directory(top, b"one more", &new).unwrap();
    assert_eq!(links(&volume), 1);
    volume.make_directory(top, b"another", &new).unwrap();
    volume.remove_directory(top, b"0").unwrap();
    assert_eq!(links(&volume), 1);
    let file = volume.create(InodeNr::ROOT, b"file", &new).unwrap();
    for number in 1..33_000 {
        volume
            .link(file, top, format!("link-{number}").as_bytes())
            .unwrap();
    }
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "with too many subdirectories");
}

/// Returns the offset of an inode of an image with blocks of 1 KiB, by `debugfs`.
fn offset_of(image: &Image, path: &str) -> usize {
    let text = tool::run_well(
        "debugfs",
        &["-R", &format!("imap {path}"), image.path.to_str().unwrap()],
    );
    let after = |word: &str| text.split(word).nth(1).unwrap().trim().to_owned();
    let block = after("located at block ");
    let block: usize = block.split(',').next().unwrap().parse().unwrap();
    block * 1024 + usize::from_str_radix(after("offset 0x").trim(), 16).unwrap()
}

fn flip(image: &Image, offset: usize) {
    let mut bytes = std::fs::read(&image.path).unwrap();
    bytes[offset] ^= 0x10;
    std::fs::write(&image.path, bytes).unwrap();
}

#[test]
fn a_change_beside_a_damaged_inode_does_not_seal_it() {
    let image = garbage(1024, 24, "-O ^extent,^64bit");
    let volume = open_on(&image);
    for name in ["/one", "/two"] {
        volume.write_file(name, b"contents").unwrap();
    }
    volume.close().unwrap();
    // The time of birth.
    flip(&image, offset_of(&image, "/one") + 0x90);
    let options = MountOptions {
        on_error: ext::options::OnError::Continue,
        ..MountOptions::default()
    };
    for _ in 0..2 {
        let volume = Volume::open(image.device(), None, options.clone()).unwrap();
        volume.write_file("/two", b"other contents").unwrap();
        match volume.metadata("/one", true).map(drop) {
            Err(Error::Corrupt(Corrupt::Checksum(Sealed::Inode { .. }))) => {}
            other => panic!("{other:?}"),
        }
        volume.close().unwrap();
    }
}

#[test]
fn damaged_bitmaps_are_not_used() {
    for (at, expected) in [
        (
            0,
            Sealed::BlockBitmap {
                group: GroupNr::new(0),
            },
        ),
        (
            4,
            Sealed::InodeBitmap {
                group: GroupNr::new(0),
            },
        ),
    ] {
        let image = garbage(1024, 8, "-O ^extent,^64bit,^has_journal,^resize_inode");
        let bytes = std::fs::read(&image.path).unwrap();
        let place = u32::from_le_bytes(bytes[2048 + at..2052 + at].try_into().unwrap());
        flip(&image, place as usize * 1024 + 120);
        let volume = open_on(&image);
        match volume.write_file("/file", &[1; 5000]) {
            Err(Error::Corrupt(Corrupt::Checksum(found))) => assert_eq!(found, expected),
            other => panic!("{other:?}"),
        }
        volume.close().unwrap();
    }
}

#[test]
fn a_volume_with_a_damaged_descriptor_is_not_written() {
    for features in FORMATS {
        let image = garbage(1024, 24, &format!("-O {features},^has_journal -g 2048"));
        flip(&image, 2048 + 32 * 3 + 0x1C);
        let device = in_memory(&image);
        let before = device.snapshot();
        let whole: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&device);
        match Volume::open(whole, None, MountOptions::default()).map(drop) {
            Err(Error::Corrupt(Corrupt::Checksum(Sealed::Descriptor { group }))) => {
                assert_eq!(group, GroupNr::new(3));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(device.first_difference(&before), None, "nothing is written");
    }
}

#[test]
fn an_index_that_is_not_maintained_is_not_dropped() {
    let image = garbage(1024, 24, "-O ^extent,^64bit,^has_journal");
    let volume = open_on(&image);
    volume.create_directory("/top").unwrap();
    for number in 0..200 {
        volume
            .write_file(&format!("/top/a-name-{number}"), b"")
            .unwrap();
    }
    volume.close().unwrap();
    let path = image.path.to_str().unwrap();
    tool::run_well("debugfs", &["-w", "-R", "feature -dir_index", path]);
    let volume = open_on(&image);
    assert_eq!(volume.list("/top").unwrap().len(), 200);
    let error = volume
        .write_file("/top/new", b"")
        .expect_err("the index would be wrong");
    assert!(
        matches!(error, Error::Corrupt(Corrupt::Directory { .. })),
        "{error}"
    );
    volume.close().unwrap();
    tool::run_well("debugfs", &["-w", "-R", "feature dir_index", path]);
    let volume = open_on(&image);
    volume.write_file("/top/new", b"").unwrap();
    volume.close().unwrap();
}

/// On a full volume a write to preallocated blocks converts more than it writes, but nothing behind
/// the end of the file: e2fsck takes written blocks there for contents.
#[test]
fn a_mount_is_counted_with_the_first_change() {
    let image = image(4096, 64 * MIB, "");
    let volume = open_on(&image);
    volume.sync().expect("it works");
    assert_eq!(volume.journal_stats().expect("it has one").commits, 0);
    volume.close().expect("it works");
    let unchanged = superblock(&image);
    assert_eq!(unchanged.mount_count.get(), 0);
    oracle::assert_fsck_clean(&image, "after a close");
    let volume = open_on(&image);
    volume.create_directory("/file").expect("it works");
    volume.sync().expect("it works");
    volume.create_directory("/other").expect("it works");
    volume.close().expect("it works");
    let changed = superblock(&image);
    assert_eq!(changed.mount_count.get(), 1);
    assert!(changed.mount_time.get() > unchanged.mount_time.get());
    oracle::assert_fsck_clean(&image, "after a close");
}

#[test]
fn preallocated_blocks_behind_the_end_stay_unwritten_on_a_full_volume() {
    let image = garbage(1024, 4, "-O ^has_journal");
    let volume = open_on(&image);
    for name in ["/file", "/ballast"] {
        volume.write_file(name, b"").unwrap();
    }
    let [nr, ballast] = ["/file", "/ballast"].map(|name| volume.resolve(name, true).unwrap());
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).unwrap();
    for block in [0, 2, 4] {
        volume.write_all(file, block * 1024, &[1; 1024]).unwrap();
    }
    volume
        .change_range(nr, 6 * 1024, 8 * 1024, RangeChange::Allocate, true)
        .unwrap();
    let hand = volume.open_inode(ballast, OpenFlags::READ_WRITE).unwrap();
    let mut size = 0;
    while volume.usage().blocks_free > 0 {
        match volume.write(hand, size, &[7; 1024]) {
            Ok(written) => size += written as u64,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let written = volume.write(file, 6 * 1024, &[9; 100]);
    assert!(
        matches!(written, Ok(100) | Err(Error::NoSpace)),
        "{written:?}"
    );
    volume.release(file).unwrap();
    volume.release(hand).unwrap();
    volume.close().unwrap();
    tool::run_well("e2fsck", &["-fn".as_ref(), image.path.as_os_str()]);
}
