//! Extent trees: deep ones, holes, and extents that are allocated and not written.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ext::volume::FileExtent;
use layout::InodeNr;
use testkit::{privilege, tool};

use super::*;
use crate::oracle;
use crate::tree::assert_same;

/// Writes every second block of a new file, so that each is an extent of its own.
fn write_alternately(path: &Path, block_bytes: u64, extents: u64) {
    let file = File::create(path).unwrap();
    let mut block = vec![0; block_bytes as usize];
    for number in 0..extents {
        block.fill((number % 255) as u8 + 1);
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all_at(&block, number * 2 * block_bytes).unwrap();
    }
}

/// An extent or a node as `debugfs` prints it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Printed {
    file_block: Option<u64>,
    first: u64,
    count: u64,
}

/// Returns the extents and nodes of a file by `debugfs`, and the depth of the tree.
fn printed(image: &Image, inode: InodeNr) -> (Vec<Printed>, u32) {
    let request = format!("ex <{inode}>");
    let path = image.path.to_str().unwrap();
    let text = tool::run_well("debugfs", &["-R", &request, path]);
    let mut all = Vec::new();
    let mut depth = 0;
    for line in text.lines().filter(|line| !line.starts_with("Level")) {
        let numbers = line.split(|byte: char| !byte.is_ascii_digit());
        let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
        depth = numbers[1] as u32;
        all.push(if numbers[0] == numbers[1] {
            Printed {
                file_block: Some(numbers[4]),
                first: numbers[6],
                count: numbers[8],
            }
        } else {
            Printed {
                file_block: None,
                first: numbers[6],
                count: 1,
            }
        });
    }
    (all, depth)
}

fn own(extents: &[FileExtent]) -> Vec<Printed> {
    let of = |extent: &FileExtent| Printed {
        file_block: extent.file_block.map(|block| block.get()),
        first: extent.first.get(),
        count: extent.count.into(),
    };
    extents.iter().map(of).collect()
}

/// Asserts that every file of the root is as the kernel and `debugfs` read it. Returns the depths.
fn assert_files(image: &Image, names: &[&str]) -> Vec<u32> {
    let expected = oracle::kernel_tree(image).expect("it was mounted before");
    let volume = open(&in_memory(image)).unwrap();
    assert_same(&expected, &image.own_tree(&volume), "the volume itself");
    let depths = names.iter().map(|name| {
        let inode = volume.resolve(*name, true).unwrap();
        let (extents, depth) = printed(image, inode);
        assert_eq!(own(&volume.blocks_of(inode).unwrap()), extents, "{name}");
        depth
    });
    let depths = depths.collect();
    volume.close().unwrap();
    depths
}

#[test]
fn trees_of_every_depth_are_read() {
    if !privilege::is_granted() {
        return;
    }
    let image = filled(1024, 128 * MIB, "", |root| {
        for (name, extents) in [("zero", 4), ("one", 300), ("two", 1000), ("three", 30_000)] {
            write_alternately(&root.join(name), 1024, extents);
        }
    });
    let depths = assert_files(&image, &["zero", "one", "two", "three"]);
    assert_eq!(depths, [0, 1, 2, 3]);
    assert_seeks(&image);
}

/// Asserts that data and holes of the deepest file alternate, and that reads at random offsets are
/// right.
fn assert_seeks(image: &Image) {
    let volume = open(&in_memory(image)).unwrap();
    let inode = volume.resolve("three", true).unwrap();
    let mut random = testkit::Random::new(3);
    for _ in 0..500 {
        let number = random.below(29_999);
        let (data, hole) = (number * 2048, number * 2048 + 1024);
        assert_eq!(volume.seek_data(inode, data).unwrap(), Some(data));
        assert_eq!(volume.seek_hole(inode, data).unwrap(), Some(hole));
        assert_eq!(volume.seek_data(inode, hole).unwrap(), Some(hole + 1024));
        let mut bytes = [1; 2048];
        let file = volume
            .open_file("three", ext::volume::OpenFlags::READ)
            .unwrap();
        assert_eq!(file.read_at(data, &mut bytes).unwrap(), 2048);
        file.close().unwrap();
        assert_eq!(bytes[..8], number.to_le_bytes());
        assert!(bytes[1024..].iter().all(|byte| *byte == 0));
    }
    volume.close().unwrap();
}

#[test]
fn unwritten_extents_read_as_zeroes() {
    if !privilege::is_granted() {
        return;
    }
    // Old contents show through where an unwritten extent is taken for a written one.
    let image = filled(1024, 40 * MIB, "", |root| {
        let old = root.join("old");
        std::fs::write(&old, vec![0xA5; 25 << 20]).unwrap();
        File::open(&old).unwrap().sync_all().unwrap();
        std::fs::remove_file(&old).unwrap();
    });
    // A mount of its own, in which those blocks are free: a child process that another test starts
    // holds the open file from its fork until its exec.
    let image = filled_further(image, |root| {
        let allocate = |name: &str, arguments: &[&str]| {
            let path = root.join(name).display().to_string();
            let words: Vec<&str> = arguments.iter().copied().chain([path.as_str()]).collect();
            tool::run_well("fallocate", &words);
        };
        allocate("whole", &["-l", "3M"]);
        allocate("parts", &["-l", "3M"]);
        let parts = File::options()
            .write(true)
            .open(root.join("parts"))
            .unwrap();
        for offset in [0, 10_000, 1 << 20, (3 << 20) - 5] {
            parts.write_all_at(b"parts", offset).unwrap();
        }
        std::fs::write(root.join("beyond"), b"short").unwrap();
        allocate("beyond", &["-n", "-l", "2M"]);
        std::fs::write(root.join("nothing"), b"").unwrap();
        allocate("nothing", &["-n", "-l", "1M"]);
        std::fs::write(root.join("punched"), vec![7; 1 << 20]).unwrap();
        allocate("punched", &["-p", "-o", "100000", "-l", "300000"]);
        std::fs::write(root.join("zeroed"), vec![7; 1 << 20]).unwrap();
        allocate("zeroed", &["-z", "-o", "5000", "-l", "300000"]);
        let sparse = File::create(root.join("sparse")).unwrap();
        sparse.write_all_at(b"end", 200 << 20).unwrap();
        File::create(root.join("hole"))
            .unwrap()
            .set_len(9 << 20)
            .unwrap();
    });
    let names = [
        "whole", "parts", "beyond", "nothing", "punched", "zeroed", "sparse", "hole",
    ];
    assert_files(&image, &names);
    // ext4-view reads unwritten extents as data, and so is no oracle here.
    let volume = open(&in_memory(&image)).unwrap();
    let whole = volume.resolve("whole", true).unwrap();
    assert_eq!(volume.seek_data(whole, 0).unwrap(), None);
    assert_eq!(volume.seek_hole(whole, 5).unwrap(), Some(5));
    let hole = volume.resolve("sparse", true).unwrap();
    assert_eq!(volume.seek_data(hole, 0).unwrap(), Some(200 << 20));
    volume.close().unwrap();
}

/// The largest file that extents map.
#[test]
fn the_last_block_of_the_largest_file_is_read() {
    if !privilege::is_granted() {
        return;
    }
    let last = (u64::from(u32::MAX) - 1) * 1024;
    let image = filled(1024, 20 * MIB, "", |root| {
        let file = File::create(root.join("largest")).unwrap();
        file.write_all_at(&[7; 1024], last).unwrap();
    });
    let volume = open(&in_memory(&image)).unwrap();
    let inode = volume.resolve("largest", true).unwrap();
    assert_eq!(volume.attributes(inode).unwrap().size, last + 1024);
    assert_eq!(volume.seek_data(inode, 0).unwrap(), Some(last));
    let file = volume
        .open_file("largest", ext::volume::OpenFlags::READ)
        .unwrap();
    let mut bytes = [0; 4096];
    assert_eq!(file.read_at(last - 1024, &mut bytes).unwrap(), 2048);
    assert!(bytes[..1024] == [0; 1024] && bytes[1024..2048] == [7; 1024]);
    file.close().unwrap();
    volume.close().unwrap();
}
