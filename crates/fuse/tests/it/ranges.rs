//! fallocate, holes, and copying within the file system.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FallocateFlags as Flags;

use super::support::{Mounted, on_a_mount, on_a_mount_and_later};

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap()
}

/// Punching, zeroing and allocating are compared with a copy in memory, at the boundaries of
/// direct, indirect and double indirect blocks.
#[test]
fn ranges_become_what_was_asked_for() {
    on_a_mount(|mounted| {
        let path = mounted.at("file");
        let mut expected: Vec<u8> = (0..6_000_000_u32).map(|at| (at / 7) as u8 | 1).collect();
        fs::write(&path, &expected).unwrap();
        let file = open(&path);
        let before = file.metadata().unwrap().blocks();
        let keep = Flags::KEEP_SIZE;
        for (flags, start, length) in [
            (Flags::PUNCH_HOLE | keep, 100, 50),
            (Flags::PUNCH_HOLE | keep, 5_000, 20_000),
            (Flags::PUNCH_HOLE | keep, 40_960, 3_000_000),
            (Flags::ZERO_RANGE, 3_500_001, 70_000),
            (Flags::PUNCH_HOLE | keep, 4_300_000, 100_000),
            (Flags::PUNCH_HOLE | keep, 5_900_000, 1_000_000),
            (Flags::ZERO_RANGE | keep, 10, 20),
            (keep, 60_000, 100_000),
        ] {
            rustix::fs::fallocate(&file, flags, start, length).unwrap();
            if !flags.difference(keep).is_empty() {
                let end = (start + length).min(6_000_000) as usize;
                expected[start as usize..end].fill(0);
            }
            assert!(fs::read(&path).unwrap() == expected, "{flags:?} {start}");
        }
        let after = file.metadata().unwrap().blocks();
        assert!(after * 512 + 2_900_000 < before * 512, "{before} {after}");
        rustix::fs::fallocate(&file, Flags::empty(), 5_950_000, 100_000).unwrap();
        expected.resize(6_050_000, 0);
        assert!(fs::read(&path).unwrap() == expected);
        let beyond = rustix::fs::fallocate(&file, keep, 6_050_000, 10_000_000);
        let has_extents = !mounted.extents().is_empty();
        match has_extents {
            true => assert_eq!(beyond, Ok(())),
            false => assert_eq!(beyond, Err(rustix::io::Errno::OPNOTSUPP)),
        }
        let collapsed = rustix::fs::fallocate(&file, Flags::COLLAPSE_RANGE, 0, 4096);
        assert_eq!(collapsed, Err(rustix::io::Errno::OPNOTSUPP));
    });
}

#[test]
fn ranges_are_copied() {
    on_a_mount(|mounted| {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 11) as u8).collect();
        fs::write(mounted.at("from"), &bytes).unwrap();
        let (from, to) = (open(&mounted.at("from")), open(&mounted.at("to")));
        let (mut at, mut target) = (1_000, 77);
        let mut left = 2_500_000;
        while left > 0 {
            let copied =
                rustix::fs::copy_file_range(&from, Some(&mut at), &to, Some(&mut target), left);
            left -= copied.unwrap();
        }
        let back = fs::read(mounted.at("to")).unwrap();
        assert!(back[77..] == bytes[1_000..2_501_000]);
        assert_eq!(back[..77], [0; 77]);
    });
}

/// Fills the volume, up to this number of bytes.
fn fill(mounted: &Mounted, left: u64) -> File {
    let space = rustix::fs::statvfs(mounted.at("")).unwrap();
    let length = space.f_bfree * space.f_frsize - left;
    let filler = File::create(mounted.at("filler")).unwrap();
    rustix::fs::fallocate(&filler, Flags::empty(), 0, length).unwrap();
    filler.sync_all().unwrap();
    filler
}

fn size(mounted: &Mounted, name: &str) -> u64 {
    fs::metadata(mounted.at(name)).unwrap().len()
}

/// A copy fills the space that is left, and the size of the target is that of the answer.
#[test]
fn a_copy_that_finds_no_space_reports_what_it_has_copied() {
    let length = std::cell::Cell::new(0);
    on_a_mount_and_later(
        |mounted| {
            fs::write(mounted.at("from"), vec![7; 3 << 20]).unwrap();
            let from = open(&mounted.at("from"));
            from.sync_all().unwrap();
            let filler = fill(mounted, 1 << 20);
            // The space for the first part of the copy and its indirect blocks, for one of these.
            for _ in 0..10 {
                let _ = fs::remove_file(mounted.at("to"));
                filler
                    .set_len(filler.metadata().unwrap().len() - 1024)
                    .unwrap();
                filler.sync_all().unwrap();
                let to = open(&mounted.at("to"));
                let mut at = 0;
                let copied =
                    rustix::fs::copy_file_range(&from, Some(&mut at), &to, None, 3 << 20).unwrap();
                assert!(copied < 3 << 20, "{copied}");
                assert_eq!(size(mounted, "to"), copied as u64);
                length.set(copied);
            }
        },
        |mounted| assert!(fs::read(mounted.at("to")).unwrap() == vec![7; length.get()]),
    );
}

/// The kernel keeps the size that the file had, and so does the volume. What the kernel writes back
/// during the call stays.
#[test]
fn an_allocation_that_finds_no_space_leaves_the_file_as_it_was() {
    let bytes = vec![9; 3_000_001];
    on_a_mount_and_later(
        |mounted| {
            let free = || rustix::fs::statvfs(mounted.at("")).unwrap().f_bfree;
            let empty = open(&mounted.at("empty"));
            let mut written = open(&mounted.at("written"));
            written.write_all(&bytes).unwrap();
            for (file, flags) in [
                (&empty, Flags::empty()),
                (&written, Flags::empty()),
                (&written, Flags::ZERO_RANGE),
            ] {
                let before = (free(), file.metadata().unwrap().len());
                let start = before.1;
                let refused = rustix::fs::fallocate(file, flags, start, 500 << 20);
                assert_eq!(refused, Err(rustix::io::Errno::NOSPC));
                assert_eq!(file.metadata().unwrap().len(), before.1);
                file.sync_all().unwrap();
                let taken = before.0 - free();
                assert!(taken < 4_000, "{taken} blocks are lost, {flags:?}");
            }
            assert_eq!(size(mounted, "empty"), 0);
        },
        |mounted| {
            assert_eq!(size(mounted, "empty"), 0);
            assert_eq!(fs::metadata(mounted.at("empty")).unwrap().blocks(), 0);
            assert!(fs::read(mounted.at("written")).unwrap() == bytes);
        },
    );
}
