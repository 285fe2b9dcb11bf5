//! Returning free space to the host: by `discard` when it is freed, by `trim` on request.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use block::file::{FileDevice, OpenOptions, create_sparse};
use block::{BlockDevice, Geometry, Request, Ticket};
use ext::mkfs::{self, FileSystemType};
use ext::options::DataMode;
use ext::{MountOptions, Volume};
use testkit::tool;

use crate::damage::assert_notices;
use crate::rig::{Place, Rig, quiet};

const FILE_BYTES: usize = 6 << 20;

fn made(path: &Path, file_system: FileSystemType) {
    create_sparse(path, 32 << 20).unwrap();
    let options = mkfs::Options {
        file_system,
        ..mkfs::Options::default()
    };
    mkfs::format(&device(path), &options).unwrap();
}

fn device(path: &Path) -> Arc<dyn BlockDevice> {
    Arc::new(FileDevice::open(path, &OpenOptions::default()).unwrap())
}

fn open(path: &Path, discard: bool) -> Volume {
    let options = MountOptions {
        discard,
        ..quiet(DataMode::Ordered)
    };
    Volume::open(device(path), None, options).unwrap()
}

fn held(path: &Path) -> usize {
    std::fs::metadata(path).unwrap().blocks() as usize * 512
}

fn assert_clean(path: &Path) {
    let output = tool::run("e2fsck", &["-fn".as_ref(), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(0), "{}", tool::said(&output));
}

/// Writes two files and removes one. Returns the allocated size of the image before and after.
fn remove_one(volume: &Volume, path: &Path) -> (usize, usize) {
    volume.write_file("/kept", &vec![1; FILE_BYTES]).unwrap();
    volume.write_file("/gone", &vec![2; FILE_BYTES]).unwrap();
    volume.sync().unwrap();
    let before = held(path);
    volume.remove_file("/gone").unwrap();
    volume.sync().unwrap();
    (before, held(path))
}

#[test]
fn an_image_shrinks_when_files_are_removed_if_that_is_wanted() {
    for discard in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        made(&path, FileSystemType::Ext3);
        let volume = open(&path, discard);
        let (before, after) = remove_one(&volume, &path);
        let has_shrunk = before.saturating_sub(after) >= FILE_BYTES * 9 / 10;
        assert_eq!(has_shrunk, discard, "{before} to {after} bytes");
        volume.close().unwrap();
        assert_clean(&path);
        let volume = open(&path, discard);
        assert_eq!(volume.read_file("/kept").unwrap(), vec![1; FILE_BYTES]);
        volume.close().unwrap();
    }
}

#[test]
fn trim_gives_back_all_that_is_free() {
    for file_system in [FileSystemType::Ext2, FileSystemType::Ext3] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        made(&path, file_system);
        let volume = open(&path, false);
        let (before, after) = remove_one(&volume, &path);
        assert!(before.saturating_sub(after) < FILE_BYTES / 2);
        let free = volume.usage().blocks_free * u64::from(volume.usage().block_bytes);
        assert_eq!(volume.trim(free + 1).unwrap(), 0, "no piece is so large");
        assert_eq!(volume.trim(0).unwrap(), free);
        assert!(held(&path) + FILE_BYTES * 9 / 10 < before);
        // No blocks remain withheld.
        assert_eq!(
            volume.usage().blocks_free * u64::from(volume.usage().block_bytes),
            free
        );
        let most = free as usize - (1 << 20);
        volume.write_file("/large", &vec![3; most]).unwrap();
        assert_eq!(volume.read_file("/large").unwrap(), vec![3; most]);
        assert_eq!(volume.read_file("/kept").unwrap(), vec![1; FILE_BYTES]);
        volume.close().unwrap();
        assert_clean(&path);
    }
}

/// A device that takes its time to discard.
pub struct Slow(pub Arc<dyn BlockDevice>);

impl BlockDevice for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&self, batch: Vec<Request>) -> Ticket {
        if batch
            .iter()
            .any(|request| matches!(request, Request::Discard { .. }))
        {
            rt::sleep(rt::Nanos::from_millis(20));
        }
        self.0.submit(batch)
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

#[test]
fn a_trim_takes_no_space_from_those_who_write() {
    for file_system in [
        FileSystemType::Ext2,
        FileSystemType::Ext3,
        FileSystemType::Ext4,
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        made(&path, file_system);
        let slow = Arc::new(Slow(device(&path)));
        let options = MountOptions {
            privileged: true,
            ..quiet(DataMode::Ordered)
        };
        let volume = Arc::new(Volume::open(slow, None, options).unwrap());
        let usage = volume.usage();
        let free = usage.blocks_free as usize * usage.block_bytes as usize;
        let bytes = vec![4; free - (1 << 20)];
        let trimmed = Arc::clone(&volume);
        let trim = rt::spawn("trim", move || trimmed.trim(0).unwrap());
        rt::sleep(rt::Nanos::from_millis(10));
        volume.write_file("/large", &bytes).unwrap();
        trim.join().unwrap();
        assert!(volume.read_file("/large").unwrap() == bytes);
        Arc::into_inner(volume).unwrap().close().unwrap();
        assert_clean(&path);
    }
}

#[test]
fn what_is_in_use_again_is_not_discarded() {
    assert_notices("discard/block-in-use", reuse_beside_a_commit);
}

/// Removes a file and syncs the volume, and shortly after lets another file take the blocks.
fn reuse_beside_a_commit() {
    let rig = Rig::new(Place::Internal, 1024, 8 << 20);
    let volume = Arc::new(rig.open(MountOptions {
        discard: true,
        ..quiet(DataMode::Ordered)
    }));
    let free = volume.usage().blocks_free as usize;
    volume
        .write_file("/gone", &vec![1; (free - 300) << 10])
        .unwrap();
    volume.sync().unwrap();
    volume.remove_file("/gone").unwrap();
    let syncing = Arc::clone(&volume);
    let syncs = rt::spawn("syncs", move || syncing.sync().unwrap());
    rt::sleep(rt::Nanos::from_millis(50));
    let bytes = vec![2; (free - 300) << 10];
    volume.write_file("/new", &bytes).unwrap();
    volume.sync().unwrap();
    syncs.join().unwrap();
    rt::sleep(rt::Nanos::from_secs(1));
    let copy = rig.copy().open(quiet(DataMode::Ordered));
    assert!(copy.read_file("/new").unwrap() == bytes, "it was synced");
}

#[test]
fn a_trim_covers_the_windows_of_directories() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    made(&path, FileSystemType::Ext4);
    let volume = open(&path, false);
    let free = || volume.usage().blocks_free * u64::from(volume.usage().block_bytes);
    assert_eq!(volume.trim(0).unwrap(), free(), "before");
    let directory = volume.create_directory("/large").unwrap();
    for number in 0..1500 {
        let name = format!("{number:0>200}");
        let new = ext::volume::NewInode::default();
        volume.create(directory, name.as_bytes(), &new).unwrap();
    }
    volume.sync().unwrap();
    assert_eq!(volume.trim(0).unwrap(), free(), "no file is open");
}
