//! Volumes of more than 2^32 blocks, as sparse files in a tmpfs: only that holds files of 24 TiB.
//! A third of the blocks lies above 2^32.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ext::mkfs::{FileSystemType, Options};
use ext::options::HostSpace;
use ext::volume::{FileExtent, OpenFlags, SetMode};
use testkit::{privilege, tool};

use super::*;
use crate::oracle;

const BYTES: u64 = 24 << 40;
/// The first block whose number does not fit 32 bits.
const WIDE: u64 = 1 << 32;
/// Number of directories at the root, which lie in groups all over the volume.
const DIRECTORIES: u32 = 24;
/// Few inodes, and few copies of the descriptors.
const SMALL_TABLES: &str = "-T largefile4 -O sparse_super2";

/// Returns an image without a file system, and the mounted tmpfs that it lies in.
fn sparse() -> (Image, Mount) {
    let image = Image::empty("ext4", 4096, MIB, false);
    let directory = image.path.parent().unwrap();
    let arguments = ["-t", "tmpfs", "-o", "size=1g"];
    let room = Mount::of_device("tmpfs", directory, &arguments).unwrap();
    let file = File::create(&image.path).unwrap();
    file.set_len(BYTES).unwrap();
    (image, room)
}

fn make_by_mke2fs(image: &Image) {
    let mut arguments = vec!["-q", "-F", "-t", "ext4"];
    arguments.extend(["-E", "lazy_itable_init=1,lazy_journal_init=1"]);
    arguments.extend(SMALL_TABLES.split(' '));
    arguments.push(image.path.to_str().unwrap());
    tool::run_well("mke2fs", &arguments);
}

fn open_on(image: &Image) -> Volume {
    let options = MountOptions {
        host_space: HostSpace::None,
        ..MountOptions::default()
    };
    Volume::open(image.device(), None, options).unwrap()
}

fn mount_large(image: &Image) -> Mount {
    image.mount("noatime,noinit_itable").unwrap()
}

/// Contents of all regular files by path, as the kernel reads them.
fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for directory in std::fs::read_dir(root).unwrap() {
        let directory = directory.unwrap().path();
        let Ok(files) = std::fs::read_dir(&directory) else {
            continue;
        };
        for file in files {
            let path = file.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            found.insert(format!("/{name}"), std::fs::read(&path).unwrap());
        }
    }
    found
}

fn extents(volume: &Volume, path: &str) -> Vec<FileExtent> {
    let nr = volume.resolve(path, true).unwrap();
    volume.blocks_of(nr).unwrap()
}

fn assert_contents(volume: &Volume, expected: &BTreeMap<String, Vec<u8>>) {
    for (path, bytes) in expected {
        assert_eq!(&volume.read_file(path).unwrap(), bytes, "{path}");
    }
}

/// Appends to every file, and adds one with an attribute to every directory.
fn change(volume: &Volume, files: &mut BTreeMap<String, Vec<u8>>) {
    for (path, bytes) in files.iter_mut() {
        let more = vec![b'e'; 70_000];
        let file = volume.open_file(path, OpenFlags::READ_WRITE).unwrap();
        file.write_at(bytes.len() as u64, &more).unwrap();
        bytes.extend(more);
    }
    for number in 0..DIRECTORIES {
        let path = format!("/d{number}/new");
        let bytes = vec![number as u8; 90_000];
        volume.write_file(&path, &bytes).unwrap();
        let value = vec![b'v'; 2000];
        let name = "user.large";
        volume
            .set_attribute_at(&path, true, name, &value, SetMode::Any)
            .unwrap();
        files.insert(path, bytes);
    }
}

/// Gives the empty files `indirect` a map of indirect blocks.
fn take_extents_away(image: &Image) {
    let of = |number| {
        let fields = ["flags", "block[0]", "block[1]"];
        fields.map(|field| format!("sif /d{number}/indirect {field} 0\n"))
    };
    let commands: String = (0..DIRECTORIES).flat_map(of).collect();
    let script = image.path.with_extension("debugfs");
    std::fs::write(&script, commands).unwrap();
    let [script, path] = [&script, &image.path].map(|path| path.to_str().unwrap());
    tool::run_well("debugfs", &["-w", "-f", script, path]);
}

fn is_wide(extent: &FileExtent) -> bool {
    extent.first.get() >= WIDE
}

/// The kernel and the engine write above 2^32 in turn. A file with indirect blocks in a directory
/// up there gets blocks below. The kernel replays the log of the engine.
#[test]
fn blocks_above_2_to_the_32_are_written_in_turn_with_the_kernel() {
    if !privilege::is_granted() {
        return;
    }
    let (image, _room) = sparse();
    make_by_mke2fs(&image);
    let mounted = mount_large(&image);
    for number in 0..DIRECTORIES {
        let directory = mounted.path().join(format!("d{number}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("file"), vec![number as u8; 100_000]).unwrap();
        std::fs::write(directory.join("indirect"), b"").unwrap();
    }
    let mut files = contents(mounted.path());
    drop(mounted);
    assert_eq!(files.len() as u32, 2 * DIRECTORIES);
    take_extents_away(&image);

    let volume = open_on(&image);
    assert_contents(&volume, &files);
    let wide = |volume: &Volume, name: &str| {
        let numbers = 0..DIRECTORIES;
        let found = numbers.filter(|number| {
            let path = format!("/d{number}/{name}");
            extents(volume, &path).iter().any(is_wide)
        });
        found.count()
    };
    change(&volume, &mut files);
    volume.sync().unwrap();
    assert!(wide(&volume, "new") > 0, "no new file is above");
    assert_eq!(wide(&volume, "indirect"), 0);

    // The power goes after the sync: the kernel replays what the log has.
    let copy = image.path.with_extension("copy");
    let [from, to] = [&image.path, &copy].map(|path| path.to_str().unwrap());
    tool::run_well("cp", &["--sparse=always", from, to]);
    let replayed = Mount::new(&copy, None, "ext4", "noatime,noinit_itable").unwrap();
    assert_eq!(contents(replayed.path()), files);
    drop(replayed);
    std::fs::remove_file(&copy).unwrap();

    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after the engine");
    let mounted = mount_large(&image);
    assert_eq!(contents(mounted.path()), files);
    for number in 0..DIRECTORIES {
        let directory = mounted.path().join(format!("d{number}"));
        std::fs::remove_file(directory.join("file")).unwrap();
        files.remove(&format!("/d{number}/file"));
        // The kernel puts its own files side by side below: these it overwrites where they are.
        let new = files.get_mut(&format!("/d{number}/new")).unwrap();
        new.fill(b'k');
        let path = directory.join("new");
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(new, 0).unwrap();
    }
    drop(mounted);
    oracle::assert_fsck_clean(&image, "after the kernel");
    let volume = open_on(&image);
    assert_contents(&volume, &files);
    assert!(wide(&volume, "new") > 0, "none is above any more");
    for path in files.keys() {
        volume.remove_file(path).unwrap();
    }
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after all files were removed");
}

/// `mkfs` makes such volumes as mke2fs does: without `resize_inode`, whose numbers have 32 bits.
#[test]
fn a_volume_of_more_than_2_to_the_32_blocks_is_made() {
    if !privilege::is_granted() {
        return;
    }
    let (image, _room) = sparse();
    let options = Options {
        file_system: FileSystemType::Ext4,
        bytes_per_inode: Some(4 << 20),
        ..Options::default()
    };
    ext::mkfs::format(&image.device(), &options).unwrap();
    oracle::assert_fsck_clean(&image, "new");
    let raw = superblock(&image);
    assert!(raw.blocks_count() > WIDE);
    assert_eq!(raw.reserved_descriptor_blocks.get(), 0);
    let mounted = mount_large(&image);
    for number in 0..DIRECTORIES {
        let directory = mounted.path().join(format!("d{number}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("file"), vec![number as u8; 9000]).unwrap();
    }
    let files = contents(mounted.path());
    drop(mounted);
    let volume = open_on(&image);
    assert_contents(&volume, &files);
    volume.close().unwrap();
    oracle::assert_fsck_clean(&image, "after the kernel");
}
