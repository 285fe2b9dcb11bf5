//! Recordings in which a file system is made over an older one: the last one is judged.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::{BlockDevice, MemoryDevice, Recording};
use crash::disks::quiet;
use crash::mode::DataMode;
use crash::recorded::{Limits, Report, Setup};
use ext::Volume;
use ext::mkfs::{self, FileSystemType};
use ext::volume::NewInode;
use layout::superblock::Superblock;
use layout::{Block, InodeNr, checksum};
use tempfile::TempDir;
use zerocopy::{FromBytes, IntoBytes};

use crate::planted::{Bug, Planted};

/// Size of the device in bytes.
const SIZE: u64 = 6 << 20;
/// Numbers of blocks of the first file system and of the second.
const BEFORE: u64 = 4096;
const AFTER: u64 = 5000;

/// A recording, and the image of its device before.
struct Made {
    folder: TempDir,
    initial: PathBuf,
}

impl Made {
    /// Makes a file system, and then records `work`.
    fn over(before: FileSystemType, work: impl FnOnce(Arc<dyn BlockDevice>) + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let initial = folder.path().join("initial");
        let recording = record(&folder.path().join("recording"), &initial, before, work);
        recording.finish().unwrap();
        Self { folder, initial }
    }

    fn setup(&self, images: u64) -> Setup {
        Setup {
            initial: vec![self.initial.clone()],
            images: Some(images),
            e2fsck_one_in: 0,
            limits: Limits {
                randoms: 4,
                ..Limits::default()
            },
            ..Setup::new(self.folder.path().join("recording"), 1)
        }
    }

    fn explore(&self, images: u64) -> Report {
        let report = self.setup(images).explore(&|_, _| {}).unwrap();
        println!("from {}: {:?}", report.start, report.tally);
        report
    }
}

fn record(
    path: &Path,
    initial: &Path,
    before: FileSystemType,
    work: impl FnOnce(Arc<dyn BlockDevice>) + 'static,
) -> Arc<Recording> {
    let recording = Recording::new(BufWriter::new(File::create(path).unwrap()));
    let (inner, initial) = (Arc::clone(&recording), initial.to_owned());
    let run = sim::run(sim::Config::fair(1), move || {
        let memory = MemoryDevice::new(SIZE).with_geometry(|geometry| {
            geometry.has_volatile_cache = true;
            geometry.has_force_unit_access = false;
        });
        let memory: Arc<MemoryDevice> = Arc::new(memory);
        let device: Arc<dyn BlockDevice> = Arc::<MemoryDevice>::clone(&memory);
        make(&device, before, BEFORE);
        memory.write_to_file(initial).unwrap();
        work(Arc::new(inner.attach(device)));
    });
    run.unwrap();
    recording
}

/// Makes a file system. All have one UUID, and perhaps one time.
fn make(device: &Arc<dyn BlockDevice>, file_system: FileSystemType, blocks: u64) {
    let options = mkfs::Options {
        file_system,
        block_count: Some(blocks),
        block_bytes: Some(1024),
        uuid: Some([0x22; 16]),
        ..mkfs::Options::default()
    };
    mkfs::format(device, &options).unwrap();
}

/// Creates and removes files.
fn change(device: Arc<dyn BlockDevice>) {
    let volume = Volume::open(device, None, quiet(DataMode::Ordered)).unwrap();
    for round in 0..4 {
        for file in 0..8 {
            let name = format!("file{}", round * 8 + file);
            let new = NewInode::default();
            volume.create(InodeNr::ROOT, name.as_bytes(), &new).unwrap();
        }
        volume.sync().unwrap();
        let name = format!("file{}", round * 8);
        volume.unlink(InodeNr::ROOT, name.as_bytes()).unwrap();
        volume.sync().unwrap();
    }
    volume.close().unwrap();
}

/// With ext2 before, all images would be repaired, and nothing found.
#[test]
fn a_bug_after_mkfs_is_found_whatever_was_there_before() {
    let made = Made::over(FileSystemType::Ext2, |device| {
        make(&device, FileSystemType::Ext4, AFTER);
        change(Arc::new(Planted::new(device, Bug::Neither)));
    });
    let report = made.explore(150);
    assert!(!report.is_repaired, "it has a journal");
    assert!(report.start > 0);
    let violation = report.violations.first().expect("images are broken");
    let left = made.setup(1).left_by(violation.id).unwrap();
    assert_eq!(left.broken.as_ref(), Some(&violation.broken));
}

/// Half of a new file system is no unsound old one.
#[test]
fn a_sound_file_system_replaces_another_one() {
    let made = Made::over(FileSystemType::Ext4, |device| {
        make(&device, FileSystemType::Ext4, AFTER);
        change(device);
    });
    let report = made.explore(150);
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    assert!(report.start > 0 && report.tally.torn < report.tally.distinct);
    let Err(error) = made.setup(1).left_by("1-kept".parse().unwrap()) else {
        panic!("the new file system is not whole");
    };
    assert!(error.to_string().contains("before that instant"), "{error}");
}

/// A checksum that no power cut has made wrong.
#[test]
fn a_whole_superblock_with_a_wrong_checksum_is_a_violation() {
    let made = Made::over(FileSystemType::Ext4, |device| {
        let bytes = device.read_block(1024, 1024).unwrap();
        let mut own = Superblock::read_from_bytes(&bytes[..]).unwrap();
        let wrong = !checksum::superblock(&own);
        own.checksum.set(wrong);
        let block = Block::copy_from(own.as_bytes()).into_arc();
        device.write_blocks(1024, vec![block]).unwrap();
        device.flush().unwrap();
        let last = Block::zeroed(512).into_arc();
        device.write_blocks(SIZE - 512, vec![last]).unwrap();
    });
    let report = made.explore(50);
    let found = report.violations.iter().map(|one| one.id.to_string());
    let found: Vec<String> = found.collect();
    assert!(found.iter().any(|id| id.ends_with("-kept")), "{found:?}");
    assert_eq!(report.violations.len() as u64, report.tally.violations);
}
