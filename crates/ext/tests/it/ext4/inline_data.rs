//! Files, directories and symbolic links within their inodes: made by the kernel and by e2fsprogs,
//! read and changed by the engine, and the other way round.

mod odd;

use std::os::unix::fs::symlink;
use std::path::Path;

use ext::mkfs::{self, FeatureEdits, FileSystemType};
use ext::options::DataMode;
use ext::tune::{self, Changes};
use ext::volume::{FileKind, OpenFlags, RangeChange, SetMode};
use layout::InodeNr;
use layout::feature::Incompatible;
use testkit::{privilege, tool};

use super::*;
use crate::damage::assert_notices;
use crate::oracle;
use crate::rig::{device, quiet};
use crate::tree::assert_same;

/// Formats: with checksums of all metadata, with larger inodes, without extents.
const FORMATS: [(u32, &str); 4] = [
    (1024, "-O inline_data -g 2048"),
    (4096, "-O inline_data,orphan_file -I 1024"),
    (1024, "-O inline_data -I 1024"),
    (
        4096,
        "-O inline_data,^extent,^64bit,^metadata_csum,uninit_bg",
    ),
];
/// Lengths of files around the borders of the words and of the attribute, with inodes of 256 and of
/// 1024 bytes.
const LENGTHS: &[usize] = &[
    0, 1, 4, 59, 60, 61, 64, 100, 127, 128, 129, 150, 400, 895, 896, 897, 1000, 5000,
];

fn open_on(image: &Image) -> Volume {
    Volume::open(image.device(), None, MountOptions::default()).expect("the volume opens")
}

fn contents(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + salt) as u8 | 1).collect()
}

fn debugfs(image: &Image, request: &str) -> String {
    let path = image.path.to_str().unwrap();
    tool::run_well("debugfs", &["-w", "-R", request, path])
}

/// Returns true if the inode of a path has the flag.
fn is_inline(image: &Image, path: &str) -> bool {
    let said = debugfs(image, &format!("stat {path}"));
    let flags = said.split("Flags: 0x").nth(1).expect("it has flags");
    let flags = flags.split_whitespace().next().expect("a number");
    u32::from_str_radix(flags, 16).expect("a number") & 0x1000_0000 != 0
}

/// Fills a folder with files, directories and links.
fn fill(root: &Path, round: usize) {
    let base = root.join(format!("kernel-{round}"));
    std::fs::create_dir(&base).unwrap();
    for length in LENGTHS {
        let path = base.join(format!("file-{length}"));
        std::fs::write(path, contents(*length, round)).unwrap();
        let directory = base.join(format!("directory-{length}"));
        std::fs::create_dir(&directory).unwrap();
        for number in 0..length / 12 {
            std::fs::write(directory.join(format!("n{number}")), b"x").unwrap();
        }
        let target = "t".repeat((*length).clamp(1, 1000));
        symlink(target, base.join(format!("link-{length}"))).unwrap();
    }
    let path = base.join("file-100").display().to_string();
    for (name, length) in [("user.a", 10), ("user.b", 60)] {
        let value = "v".repeat(length);
        tool::run_well("setfattr", &["-n", name, "-v", &value, &path]);
    }
}

/// Changes what the kernel has made, and makes as much.
fn change_by_engine(volume: &Volume, round: usize) {
    let base = format!("/engine-{round}");
    volume.create_directory(&base).unwrap();
    for length in LENGTHS {
        let bytes = contents(*length, round + 50);
        volume
            .write_file(&format!("{base}/file-{length}"), &bytes)
            .unwrap();
        let directory = format!("{base}/directory-{length}");
        volume.create_directory(&directory).unwrap();
        for number in 0..length / 12 {
            let name = format!("{directory}/n{number}");
            volume.write_file(&name, b"y").unwrap();
        }
        // Of the kernel: every file grows, every directory loses and gets names.
        let file = format!("/kernel-{round}/file-{length}");
        let nr = volume.resolve(&file, false).unwrap();
        let open = volume.open_inode(nr, OpenFlags::READ_WRITE).unwrap();
        volume.write(open, *length as u64, &[9; 33]).unwrap();
        volume.release(open).unwrap();
        let directory = format!("/kernel-{round}/directory-{length}");
        for number in (0..length / 12).step_by(3) {
            volume
                .remove_file(&format!("{directory}/n{number}"))
                .unwrap();
        }
        for number in 0..3 {
            let name = format!("{directory}/a-new-name-{number}");
            volume.write_file(&name, b"").unwrap();
        }
    }
    let to = format!("{base}/moved");
    volume
        .rename_path(&format!("/kernel-{round}/directory-60"), &to)
        .unwrap();
    let nr = volume.resolve(&format!("{base}/file-64"), false).unwrap();
    for (name, length) in [(b"user.a", 20), (b"user.b", 100)] {
        let value = vec![b'w'; length];
        volume
            .set_attribute(nr, name, &value, SetMode::Any)
            .unwrap();
    }
}

/// Changes what the engine has made.
fn change_by_kernel(root: &Path, round: usize) {
    let base = root.join(format!("engine-{round}"));
    for length in LENGTHS {
        let path = base.join(format!("file-{length}"));
        assert_eq!(std::fs::read(&path).unwrap(), contents(*length, round + 50));
        let mut bytes = contents(*length, round + 50);
        bytes.extend([5; 21]);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[5; 21], *length as u64).unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let directory = base.join(format!("directory-{length}"));
        for number in (0..length / 12).step_by(2) {
            std::fs::remove_file(directory.join(format!("n{number}"))).unwrap();
        }
        for number in 0..4 {
            std::fs::create_dir(directory.join(format!("sub-{number}"))).unwrap();
        }
    }
    std::fs::rename(
        base.join("directory-4"),
        root.join(format!("moved-{round}")),
    )
    .unwrap();
}

#[test]
fn what_the_kernel_writes_is_read() {
    if !privilege::is_granted() {
        return;
    }
    for (block_bytes, more) in FORMATS {
        let image = filled(block_bytes, 32 * MIB, more, |root| fill(root, 0));
        oracle::assert_fsck_clean(&image, "after the kernel");
        assert!(is_inline(&image, "/kernel-0/file-100"), "{more}");
        assert!(is_inline(&image, "/kernel-0/directory-4"), "{more}");
        let volume = open(&in_memory(&image)).unwrap();
        let expected = oracle::kernel_tree(&image).expect("it was mounted before");
        assert_same(&expected, &image.own_tree(&volume), more);
    }
}

#[test]
fn links_of_e2fsprogs_are_read() {
    let image = image(1024, 8 * MIB, "-O inline_data -I 512");
    let target = "x".repeat(100);
    debugfs(&image, &format!("symlink /link {target}"));
    debugfs(&image, "symlink /short abc");
    assert!(is_inline(&image, "/link"));
    oracle::assert_fsck_clean(&image, "after debugfs");
    let volume = open(&in_memory(&image)).unwrap();
    for (path, target) in [("/link", target.as_str()), ("/short", "abc")] {
        let nr = volume.resolve(path, false).unwrap();
        assert_eq!(volume.read_link(nr).unwrap(), target.as_bytes());
    }
}

#[test]
fn the_kernel_and_the_engine_write_in_turn() {
    if !privilege::is_granted() {
        return;
    }
    for (block_bytes, more) in FORMATS {
        println!("blocks of {block_bytes}, {more}");
        let image = image(block_bytes, 48 * MIB, more);
        for round in 0..3 {
            let mounted = mount(&image);
            fill(mounted.path(), round);
            if round > 0 {
                change_by_kernel(mounted.path(), round - 1);
            }
            drop(mounted);
            oracle::assert_fsck_clean(&image, "after the kernel");
            let volume = open_on(&image);
            change_by_engine(&volume, round);
            let own = image.own_tree(&volume);
            volume.close().unwrap();
            oracle::assert_fsck_clean(&image, "after the engine");
            if let Some(newer) = oracle::newer_e2fsck() {
                tool::run_well(&newer, &["-fn", image.path.to_str().unwrap()]);
            }
            assert!(is_inline(&image, &format!("/engine-{round}/file-64")));
            assert!(is_inline(&image, &format!("/engine-{round}/directory-4")));
            let expected = oracle::kernel_tree(&image).expect("it was mounted before");
            assert_same(&expected, &own, "the volume itself");
        }
    }
}

/// Makes a volume in memory by our own mkfs.
fn made(features: &str, inode_bytes: u16) -> Arc<MemoryDevice> {
    let memory = Arc::new(MemoryDevice::new(16 * MIB));
    let options = mkfs::Options {
        file_system: FileSystemType::Ext4,
        features: FeatureEdits::parse(features).unwrap(),
        inode_bytes: Some(inode_bytes),
        block_bytes: Some(1024),
        ..mkfs::Options::default()
    };
    mkfs::format(&device(&memory), &options).unwrap();
    memory
}

fn writable(memory: &Arc<MemoryDevice>) -> Volume {
    Volume::open(device(memory), None, quiet(DataMode::Ordered)).expect("it opens")
}

/// Returns true if the checker finds nothing.
fn is_clean(memory: &Arc<MemoryDevice>) -> bool {
    let report = fsck::check(&*device(memory), None, &fsck::Options::default());
    report.expect("it is checked").is_clean()
}

/// Writes a file, and returns its inode.
fn put(volume: &Volume, path: &str, bytes: &[u8]) -> InodeNr {
    volume.write_file(path, bytes).unwrap();
    volume.resolve(path, false).unwrap()
}

fn read_all(volume: &Volume, nr: InodeNr) -> Vec<u8> {
    let size = volume.attributes(nr).unwrap().size;
    let file = volume.open_inode(nr, OpenFlags::READ).unwrap();
    let mut bytes = vec![0; size as usize];
    assert_eq!(volume.read(file, 0, &mut bytes).unwrap(), bytes.len());
    volume.release(file).unwrap();
    bytes
}

#[test]
fn a_file_moves_out_when_it_no_longer_fits() {
    let memory = made("inline_data", 256);
    let volume = writable(&memory);
    let nr = put(&volume, "/file", &contents(128, 0));
    let blocks = || volume.attributes(nr).unwrap().sectors;
    assert_eq!((blocks(), read_all(&volume, nr)), (0, contents(128, 0)));
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).unwrap();
    volume.write(file, 128, b"!").unwrap();
    volume.release(file).unwrap();
    volume.sync().unwrap();
    let expected = [contents(128, 0), b"!".to_vec()].concat();
    assert_eq!((blocks(), read_all(&volume, nr)), (2, expected.clone()));
    volume.close().unwrap();
    assert!(is_clean(&memory));
    let volume = writable(&memory);
    assert_eq!(read_all(&volume, nr), expected);
}

#[test]
fn attributes_leave_the_contents_where_they_are() {
    let memory = made("inline_data", 256);
    let volume = writable(&memory);
    let nr = put(&volume, "/file", &contents(120, 0));
    let set = volume.set_attribute(nr, b"user.a", &[1; 40], SetMode::Any);
    set.expect("the block has room");
    assert_eq!(
        volume.attributes(nr).unwrap().sectors,
        2,
        "an attribute block"
    );
    assert_eq!(volume.list_attributes(nr).unwrap(), [b"user.a".to_vec()]);
    assert!(volume.get_attribute(nr, b"system.data").is_err());
    assert_eq!(read_all(&volume, nr), contents(120, 0));
    // Here the attribute comes first, and the contents move out earlier.
    let other = put(&volume, "/other", b"short");
    let set = volume.set_attribute(other, b"user.a", &[1; 40], SetMode::Any);
    set.expect("the inode has room");
    assert_eq!(volume.attributes(other).unwrap().sectors, 0);
    let file = volume.open_inode(other, OpenFlags::READ_WRITE).unwrap();
    volume.write(file, 5, &[7; 90]).unwrap();
    volume.release(file).unwrap();
    volume.sync().unwrap();
    assert_eq!(volume.attributes(other).unwrap().sectors, 2);
    let value = volume.get_attribute(other, b"user.a").unwrap();
    assert_eq!(value, [1; 40]);
    volume.close().unwrap();
    assert!(is_clean(&memory));
}

#[test]
fn ranges_within_an_inode() {
    let memory = made("inline_data", 256);
    let volume = writable(&memory);
    let nr = put(&volume, "/file", &[7; 100]);
    let change = |offset, length, what| {
        let changed = volume.change_range(nr, offset, length, what, true);
        changed.expect("it fits");
    };
    change(10, 20, RangeChange::PunchHole);
    change(55, 10, RangeChange::Zero);
    change(90, 1000, RangeChange::PunchHole);
    let mut expected = vec![7; 100];
    for range in [10..30, 55..65, 90..100] {
        expected[range].fill(0);
    }
    assert_eq!(read_all(&volume, nr), expected);
    assert_eq!(volume.attributes(nr).unwrap().sectors, 0);
    change(0, 3000, RangeChange::Allocate);
    assert_eq!(read_all(&volume, nr), expected);
    assert_eq!(volume.attributes(nr).unwrap().sectors, 6);
    volume.close().unwrap();
    assert!(is_clean(&memory));
}

/// Returns the names of a directory with their cookies.
fn listed(volume: &Volume, nr: InodeNr, from: u64) -> Vec<(u64, Vec<u8>)> {
    let mut entries = Vec::new();
    let read = volume.read_directory(nr, from, &mut |cookie, entry| {
        entries.push((cookie, entry.name));
        true
    });
    read.unwrap();
    entries
}

#[test]
fn cookies_stay_when_a_directory_moves_out() {
    for features in ["inline_data", "inline_data,^dir_index"] {
        let memory = made(features, 256);
        let volume = writable(&memory);
        let directory = volume.create_directory("/directory").unwrap();
        for number in 0..5 {
            volume
                .write_file(&format!("/directory/{number}"), b"")
                .unwrap();
        }
        assert_eq!(volume.attributes(directory).unwrap().sectors, 0);
        let before = listed(&volume, directory, 0);
        for number in 5..40 {
            volume
                .write_file(&format!("/directory/{number}"), b"")
                .unwrap();
        }
        assert!(volume.attributes(directory).unwrap().sectors > 0);
        // The cookie of the last entry may be that of the end.
        for (cookie, name) in &before[..before.len() - 1] {
            let rest = listed(&volume, directory, *cookie);
            assert!(rest.iter().all(|(_, other)| other != name), "{features}");
            let behind = before.iter().skip_while(|(_, other)| other != name).skip(1);
            for (_, other) in behind {
                assert!(rest.iter().any(|(_, name)| name == other), "{features}");
            }
        }
        volume.close().unwrap();
        assert!(is_clean(&memory));
    }
}

#[test]
fn only_inodes_with_room_hold_contents() {
    let options = mkfs::Options {
        file_system: FileSystemType::Ext4,
        features: FeatureEdits::parse("inline_data").unwrap(),
        inode_bytes: Some(128),
        ..mkfs::Options::default()
    };
    let memory = Arc::new(MemoryDevice::new(16 * MIB));
    let error = mkfs::format(&device(&memory), &options).unwrap_err();
    assert!(error.to_string().contains("inline_data"), "{error}");
    let changes = Changes {
        features: vec![tune::free_feature("inline_data").unwrap()],
        ..Changes::default()
    };
    for (inode_bytes, is_possible) in [(128, false), (256, true)] {
        let memory = made("^metadata_csum", inode_bytes);
        let tuned = tune::apply(&device(&memory), None, &changes);
        assert_eq!(tuned.is_ok(), is_possible, "{inode_bytes}");
        let volume = writable(&memory);
        let nr = put(&volume, "/file", b"contents");
        volume.sync().unwrap();
        let has_block = volume.attributes(nr).unwrap().sectors > 0;
        assert_eq!(has_block, !is_possible);
        let features = volume.superblock().features.incompatible;
        assert_eq!(features.contains(Incompatible::INLINE_DATA), is_possible);
        volume.close().unwrap();
        assert!(is_clean(&memory));
    }
}

/// A full volume still takes small files and directories; what does not fit is refused, and stays.
#[test]
fn a_full_volume_takes_what_fits_its_inodes() {
    let memory = made("inline_data", 256);
    let volume = writable(&memory);
    let small = put(&volume, "/small", &contents(100, 0));
    let directory = volume.create_directory("/directory").unwrap();
    let big = put(&volume, "/big", b"");
    let file = volume.open_inode(big, OpenFlags::READ_WRITE).unwrap();
    let mut end = 0;
    for length in [1 << 16, 1024] {
        while let Ok(count) = volume.write(file, end, &vec![1; length]) {
            end += count as u64;
        }
    }
    volume.release(file).unwrap();
    let file = volume.open_inode(small, OpenFlags::READ_WRITE).unwrap();
    volume.write(file, 100, &[3; 20]).unwrap();
    let refused = volume.write(file, 120, &[3; 20]);
    assert!(matches!(refused, Err(Error::NoSpace)), "{refused:?}");
    volume.release(file).unwrap();
    let expected = [contents(100, 0), vec![3; 20]].concat();
    assert_eq!(read_all(&volume, small), expected);
    let mut count = 0;
    let refused = loop {
        match volume.write_file(&format!("/directory/name-{count}"), b"") {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::NoSpace), "{refused:?}");
    assert_eq!(listed(&volume, directory, 0).len(), 2 + count);
    assert!(count > 2);
    volume.remove_file("/big").unwrap();
    volume.write_file("/directory/another-name", b"").unwrap();
    volume.close().unwrap();
    assert!(is_clean(&memory));
}

/// Moves contents out of inodes and between directories, and looks at the result.
fn move_out_and_look() {
    let memory = made("inline_data", 256);
    let volume = writable(&memory);
    let nr = put(&volume, "/file", &contents(120, 0));
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).unwrap();
    volume.write(file, 5000, b"x").unwrap();
    volume.release(file).unwrap();
    let before = volume.attributes(nr).unwrap().sectors;
    let set = volume.set_attribute(nr, b"user.a", &[1; 60], SetMode::Any);
    set.expect("the inode has room where its contents were");
    assert_eq!(volume.attributes(nr).unwrap().sectors, before);
    volume.create_directory("/one").unwrap();
    volume.create_directory("/two").unwrap();
    volume.create_directory("/one/moved").unwrap();
    volume.rename_path("/one/moved", "/two/moved").unwrap();
    for number in 0..20 {
        volume
            .write_file(&format!("/two/name-{number}"), b"")
            .unwrap();
    }
    volume.close().unwrap();
    assert!(is_clean(&memory));
    let volume = writable(&memory);
    assert_eq!(read_all(&volume, nr)[..120], contents(120, 0));
    for number in 0..20 {
        let found = volume.resolve(&format!("/two/name-{number}"), false);
        assert_eq!(
            volume.attributes(found.unwrap()).unwrap().kind,
            FileKind::Regular
        );
    }
}

/// Cuts the power while contents that were durable move out, and after the commit.
fn cut_off_and_look() {
    let memory = made("inline_data", 256);
    let options = || quiet(DataMode::Writeback);
    let volume = Volume::open(device(&memory), None, options()).expect("it opens");
    let nr = put(&volume, "/file", &contents(120, 0));
    let other = put(&volume, "/other", b"x");
    volume.sync().unwrap();
    let file = volume.open_inode(nr, OpenFlags::READ_WRITE).unwrap();
    volume.write(file, 120, &[1; 200]).unwrap();
    let while_moving = memory.snapshot();
    // This commits what was done, and asks for the data of another file only.
    let synced = volume.open_inode(other, OpenFlags::READ_WRITE).unwrap();
    volume.write(synced, 0, b"y").unwrap();
    volume.sync_file(synced, false).unwrap();
    let after_commit = memory.snapshot();
    drop(volume);
    for cut in [while_moving, after_commit] {
        let cut = Arc::new(cut);
        let volume = Volume::open(device(&cut), None, options()).expect("it opens");
        assert_eq!(read_all(&volume, nr)[..120], contents(120, 0));
        volume.close().unwrap();
        assert!(is_clean(&cut));
    }
}

#[test]
fn what_moves_out_is_durable_all_the_time() {
    for mutant in ["inline/moved-in-two-steps", "inline/moved-without-order"] {
        assert_notices(mutant, cut_off_and_look);
    }
}

#[test]
fn pitfalls_are_noticed() {
    for mutant in [
        "inline/attribute-kept",
        "inline/entries-of-attribute-lost",
        "inline/moved-without-attribute",
        "inline/parent-not-changed",
    ] {
        assert_notices(mutant, move_out_and_look);
    }
}
