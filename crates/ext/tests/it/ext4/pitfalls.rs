//! Rules of ext4 whose violation no power cut shows: links that are not counted, generations of
//! inodes that are used again, blocks behind the end of a file, groups that were never used.

use ext::mkfs::{self, FileSystemType, Options};
use ext::tuning::Tuning;
use ext::volume::{InodeTime, OpenFlags, RangeChange, SetAttributes, SetTime};
use layout::InodeNr;

use super::*;
use crate::damage::assert_notices;

/// Makes an ext4 with blocks of 1 KiB in memory, without a journal.
fn volume(size_bytes: u64, inode_count: u32) -> Arc<dyn BlockDevice> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(size_bytes));
    let options = Options {
        file_system: FileSystemType::Ext4,
        block_bytes: Some(1024),
        inode_count: Some(inode_count),
        features: mkfs::FeatureEdits::parse("^has_journal").expect("a known feature"),
        ..Options::default()
    };
    mkfs::format(&device, &options).expect("it is made");
    device
}

fn open(device: &Arc<dyn BlockDevice>) -> Volume {
    let options = MountOptions {
        tuning: Tuning {
            reuse_inodes: true,
            ..Tuning::default()
        },
        ..MountOptions::default()
    };
    Volume::open(Arc::clone(device), None, options).expect("it opens")
}

fn close(volume: Volume, device: &Arc<dyn BlockDevice>) {
    volume.close().expect("it closes");
    let report = fsck::check(&**device, None, &fsck::Options::default()).expect("a superblock");
    assert!(report.is_clean(), "{:?}", report.problems);
}

#[test]
fn links_of_a_directory_with_too_many_subdirectories_are_one() {
    assert_notices("names/links-counted-on", too_many_subdirectories);
}

fn too_many_subdirectories() {
    let device = volume(160 * MIB, 66_000);
    let volume = open(&device);
    let (top, new) = (volume.create_directory("/top").unwrap(), Default::default());
    let links = |volume: &Volume| volume.attributes(top).unwrap().links;
    for number in 0..64_998 {
        let name = format!("{number}");
        volume.make_directory(top, name.as_bytes(), &new).unwrap();
    }
    assert_eq!(links(&volume), 65_000);
    volume.make_directory(top, b"one more", &new).unwrap();
    assert_eq!(links(&volume), 1);
    volume.make_directory(top, b"another", &new).unwrap();
    volume.remove_directory(top, b"0").unwrap();
    assert_eq!(links(&volume), 1);
    close(volume, &device);
}

#[test]
fn an_inode_that_is_used_again_has_another_generation() {
    assert_notices("inode/generation-kept", use_again);
}

fn use_again() {
    let device = volume(8 * MIB, 500);
    let volume = open(&device);
    let make = || -> (InodeNr, u32) {
        let nr = volume.create(InodeNr::ROOT, b"file", &Default::default());
        let nr = nr.expect("create");
        volume.forget(nr, 1).expect("it is pinned");
        (nr, volume.attributes(nr).expect("it is there").generation)
    };
    let first = make();
    volume.remove_file("/file").expect("unlink");
    let second = make();
    assert_eq!(first.0, second.0, "the number is used again");
    assert_ne!(first.1, second.1, "the generation is another one");
    close(volume, &device);
}

#[test]
fn blocks_behind_the_end_are_freed_with_the_file() {
    assert_notices("extents/blocks-behind-end-kept", preallocate_and_delete);
}

fn preallocate_and_delete() {
    let device = volume(8 * MIB, 500);
    let volume = open(&device);
    let free = volume.usage().blocks_free;
    volume.write_file("/file", b"").expect("create");
    let nr = volume.resolve("/file", true).expect("it is there");
    volume
        .change_range(nr, 0, 64 << 10, RangeChange::Allocate, true)
        .expect("there is room");
    assert_eq!(volume.attributes(nr).expect("it is there").size, 0);
    assert_eq!(volume.usage().blocks_free, free - 64);
    volume.remove_file("/file").expect("unlink");
    assert_eq!(volume.usage().blocks_free, free);
    close(volume, &device);
}

/// A sparse file ends where extents do: behind block 2^32 - 2, at 16 TiB with blocks of 4 KiB.
#[test]
fn a_sparse_file_reaches_the_last_block_of_extents() {
    let device = volume(8 * MIB, 500);
    let volume = open(&device);
    let limit = u64::from(u32::MAX) * 1024;
    volume.write_file("/file", b"").expect("create");
    let nr = volume.resolve("/file", true).expect("it is there");
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
    volume
        .write_all(file, limit - 1024, &[7; 1024])
        .expect("it fits");
    let refused = volume.write_all(file, limit, &[7]);
    assert!(matches!(refused, Err(Error::FileTooLarge)), "{refused:?}");
    volume.release(file).expect("release");
    let found = volume.attributes(nr).expect("it is there");
    assert_eq!((found.size, found.sectors), (limit, 2));
    close(volume, &device);
}

#[test]
fn groups_without_a_bitmap_are_filled() {
    assert_notices("groups/uninitialised-taken-as-full", fill);
}

fn fill() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(8 * MIB));
    let options = Options {
        file_system: FileSystemType::Ext4,
        block_bytes: Some(1024),
        blocks_per_group: Some(512),
        reserved_percent: 0.0,
        ..Options::default()
    };
    mkfs::format(&device, &options).expect("it is made");
    let volume = open(&device);
    volume.write_file("/file", b"").expect("create");
    let nr = volume.resolve("/file", true).expect("it is there");
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).expect("open");
    let mut size = 0;
    let error = loop {
        match volume.write(file, size, &[7; 1024]) {
            Ok(written) => size += written as u64,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::NoSpace), "{error}");
    assert_eq!(volume.usage().blocks_free, 0);
    volume.release(file).expect("release");
    close(volume, &device);
}

/// Each way to truncate an empty file frees what was preallocated, and changes the times, as in
/// Linux.
#[test]
fn blocks_behind_the_end_are_freed_by_a_truncation_of_an_empty_file() {
    let device = volume(8 * MIB, 500);
    let volume = open(&device);
    let free = volume.usage().blocks_free;
    volume.write_file("/file", b"").expect("create");
    let nr = volume.resolve("/file", true).expect("it is there");
    let long_ago = SetAttributes {
        mtime: Some(SetTime::At(InodeTime::new(1_000_000_000, 0))),
        ..SetAttributes::default()
    };
    let by_size = || {
        let change = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        volume.set_attributes(nr, &change).expect("truncate");
    };
    let by_open = || {
        let flags = OpenFlags {
            truncate: true,
            ..OpenFlags::READ_WRITE
        };
        let file = volume.open_inode(nr, flags).expect("open");
        volume.release(file).expect("close");
    };
    let by_create = || volume.write_file("/file", b"").expect("create");
    let ways: [(&str, &dyn Fn()); 3] = [
        ("size", &by_size),
        ("open", &by_open),
        ("create", &by_create),
    ];
    for (way, truncate) in ways {
        volume
            .change_range(nr, 0, 64 << 10, RangeChange::Allocate, true)
            .expect("there is room");
        assert_eq!(volume.usage().blocks_free, free - 64, "{way}");
        volume.set_attributes(nr, &long_ago).expect("touch");
        truncate();
        assert_eq!(volume.usage().blocks_free, free, "{way}");
        let found = volume.attributes(nr).expect("it is there");
        assert_eq!((found.size, found.sectors), (0, 0), "{way}");
        assert!(found.mtime.seconds > 1_000_000_000, "{way}");
    }
    close(volume, &device);
}
