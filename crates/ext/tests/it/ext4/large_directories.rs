//! Indexes of three levels (`large_dir`), in turn with the kernel, and their limit without the
//! feature.

use std::path::Path;

use ext::Error;
use ext::mkfs::{FeatureEdits, FileSystemType, Options};
use layout::htree::{ROOT_INFO_OFFSET, RootInfo};
use layout::{BlockNr, FileBlock, InodeNr};
use testkit::privilege;

use super::*;
use crate::damage::assert_notices;
use crate::oracle;
use crate::tree::assert_same;

/// More names than an index of two levels takes, with leaves of 1 KiB that hold three each.
const NAMES_MAX: usize = 60_000;
/// Names added by each turn after the index has three levels: so many that nodes of both levels
/// below the root are split.
const NAMES_OF_A_TURN: usize = 6_000;

fn name(prefix: &str, number: usize) -> String {
    format!("{prefix}-{number:06}-{}", "n".repeat(230))
}

fn open_on(image: &Image) -> Volume {
    Volume::open(image.device(), None, MountOptions::default()).expect("the volume opens")
}

fn garbage(more: &str) -> Image {
    let more: Vec<&str> = more.split_whitespace().collect();
    Image::over_garbage("ext4", 1024, 64 * MIB, false, &more)
}

/// Returns the number of levels below the root of the directory's index, on a closed volume.
fn levels(image: &Image) -> u8 {
    let volume = Volume::open(image.device(), None, read_only()).unwrap();
    let directory = volume.resolve("/many", true).unwrap();
    let blocks = volume.blocks_of(directory).unwrap();
    let first = blocks
        .iter()
        .find(|extent| extent.file_block == Some(FileBlock::new(0)));
    let first = BlockNr::new(first.unwrap().blocks().next().unwrap());
    let offset = volume.superblock().geometry.byte_offset(first);
    volume.close().unwrap();
    let root = image.device().read_block(offset, 1024).unwrap();
    let (info, _) = RootInfo::read_from_prefix(&root[ROOT_INFO_OFFSET..]).unwrap();
    info.indirect_levels
}

/// Links a file under names of a prefix until the index has three levels, or is full. Returns the
/// number of names.
fn fill(volume: &Volume, directory: InodeNr, file: InodeNr) -> (usize, Option<Error>) {
    for number in 0..NAMES_MAX {
        let linked = volume.link(file, directory, name("first", number).as_bytes());
        if let Err(error) = linked {
            return (number, Some(error));
        }
    }
    (NAMES_MAX, None)
}

/// Makes a directory with a file in it.
fn make(volume: &Volume) -> (InodeNr, InodeNr) {
    let directory = volume.create_directory("/many").unwrap();
    let new = Default::default();
    let file = volume.create(directory, b"file", &new).unwrap();
    (directory, file)
}

#[test]
fn an_index_of_two_levels_is_full_without_the_feature() {
    for features in ["^large_dir", "^extent,^64bit,^metadata_csum"] {
        let image = garbage(&format!("-O {features}"));
        let volume = open_on(&image);
        let (directory, file) = make(&volume);
        let (count, error) = fill(&volume, directory, file);
        assert!(matches!(error, Some(Error::DirectoryFull)), "{error:?}");
        assert!(count > 20_000, "{count}");
        let removed = name("first", 0);
        volume.remove_file(&format!("/many/{removed}")).unwrap();
        volume.link(file, directory, removed.as_bytes()).unwrap();
        assert_eq!(volume.list("/many").unwrap().len(), count + 1);
        volume.close().unwrap();
        assert_eq!(levels(&image), 1);
        oracle::assert_fsck_clean(&image, features);
    }
}

fn kernel_adds(root: &Path, prefix: &str) {
    let many = root.join("many");
    for number in 0..NAMES_OF_A_TURN {
        std::fs::hard_link(many.join("file"), many.join(name(prefix, number))).unwrap();
    }
}

fn engine_adds(volume: &Volume, prefix: &str) {
    let directory = volume.resolve("/many", true).unwrap();
    let file = volume.resolve("/many/file", true).unwrap();
    for number in 0..NAMES_OF_A_TURN {
        let name = name(prefix, number);
        volume.link(file, directory, name.as_bytes()).unwrap();
    }
}

fn write_in_turn(features: &str) {
    if !privilege::is_granted() {
        return;
    }
    let image = garbage(&format!("-O {features}"));
    let volume = open_on(&image);
    let (directory, file) = make(&volume);
    for number in 0..42_000 {
        let name = name("first", number);
        volume.link(file, directory, name.as_bytes()).unwrap();
    }
    volume.close().unwrap();
    assert_eq!(levels(&image), 2);
    oracle::assert_fsck_clean(&image, "after the engine");

    let mounted = mount(&image);
    kernel_adds(mounted.path(), "kernel");
    for number in (0..42_000).step_by(2) {
        let name = name("first", number);
        std::fs::remove_file(mounted.path().join("many").join(name)).unwrap();
    }
    drop(mounted);
    oracle::assert_fsck_clean(&image, "after the kernel");

    let volume = open_on(&image);
    engine_adds(&volume, "engine");
    for number in (0..NAMES_OF_A_TURN).step_by(3) {
        let path = format!("/many/{}", name("kernel", number));
        volume.remove_file(&path).unwrap();
    }
    let own = image.own_tree(&volume);
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after the second turn of the engine");
    let expected = oracle::kernel_tree(&image).expect("it was mounted before");
    assert_same(&expected, &own, "the volume itself");

    let mounted = mount(&image);
    kernel_adds(mounted.path(), "again");
    drop(mounted);
    oracle::assert_fsck_clean(&image, "after the second turn of the kernel");
    let volume = open_on(&image);
    let missing = name("missing", 0);
    assert!(volume.resolve(&format!("/many/{missing}"), true).is_err());
    for number in 0..NAMES_OF_A_TURN {
        let path = format!("/many/{}", name("again", number));
        assert_eq!(volume.resolve(&path, true).unwrap(), file);
    }
    volume.close().unwrap();
}

#[test]
fn an_index_with_checksums_gets_three_levels() {
    write_in_turn("large_dir");
}

#[test]
fn an_index_without_checksums_gets_three_levels() {
    write_in_turn("large_dir,^extent,^64bit,^metadata_csum,^has_journal");
}

/// The index is deepened by the kernel, and read and changed by the engine.
#[test]
fn the_kernel_makes_three_levels() {
    if !privilege::is_granted() {
        return;
    }
    let image = garbage("-O large_dir,meta_bg,^resize_inode -g 512");
    let mounted = mount(&image);
    let many = mounted.path().join("many");
    std::fs::create_dir(&many).unwrap();
    std::fs::write(many.join("file"), b"contents").unwrap();
    for number in 0..42_000 {
        std::fs::hard_link(many.join("file"), many.join(name("first", number))).unwrap();
    }
    drop(mounted);
    oracle::assert_fsck_clean(&image, "after the kernel");
    assert_eq!(levels(&image), 2);
    let volume = open_on(&image);
    assert_eq!(volume.list("/many").unwrap().len(), 42_001);
    engine_adds(&volume, "engine");
    let own = image.own_tree(&volume);
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after the engine");
    let expected = oracle::kernel_tree(&image).expect("it was mounted before");
    assert_same(&expected, &own, "the volume itself");
}

#[test]
fn a_deeper_index_says_so() {
    assert_notices("directory/level-not-counted", find_all);
}

#[test]
fn a_new_node_starts_at_its_first_hash() {
    assert_notices("directory/new-node-from-leaf", find_all);
}

/// Adds names until nodes are split, and finds all of them.
fn find_all() {
    let memory = Arc::new(MemoryDevice::new(16 * MIB));
    let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
    let options = Options {
        file_system: FileSystemType::Ext4,
        block_bytes: Some(1024),
        features: FeatureEdits::parse("large_dir").expect("known features"),
        ..Options::default()
    };
    ext::mkfs::format(&device, &options).expect("it is made");
    let volume = Volume::open(Arc::clone(&device), None, MountOptions::default());
    let volume = volume.expect("it opens");
    let directory = volume.create_directory("/many").expect("mkdir");
    let new = Default::default();
    let file = volume.create(directory, b"file", &new).expect("create");
    for number in 0..3000 {
        let name = name("first", number);
        let linked = volume.link(file, directory, name.as_bytes());
        linked.expect("it is linked");
    }
    for number in 0..3000 {
        let found = volume.lookup(directory, name("first", number).as_bytes());
        assert_eq!(found.expect("it is there"), file);
    }
    volume.close().expect("it closes");
    let report = fsck::check(&*device, None, &fsck::Options::default()).expect("a superblock");
    assert!(report.is_clean(), "{:?}", report.problems);
}
