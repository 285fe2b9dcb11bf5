//! fallocate, holes, and copying within the file system.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::FallocateFlags as Flags;

use super::support::on_a_mount;

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
