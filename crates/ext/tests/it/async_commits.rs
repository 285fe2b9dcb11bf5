//! Asynchronous commits: the cost of a sync call, the volumes and modes that refuse them, and the
//! format that they leave.

use std::sync::Arc;

use block::{BlockDevice, MemoryDevice, MeterDevice};
use ext::mkfs::{self, FileSystemType};
use ext::options::DataMode;
use ext::tune::{self, Changes};
use ext::volume::NewInode;
use ext::{Error, MountOptions, Volume};
use layout::InodeNr;
use layout::journal::{JournalCompatible, JournalIncompatible, JournalSuperblock};
use zerocopy::FromBytes;

use crate::rig::quiet;

fn volume(features: &str) -> Arc<MeterDevice> {
    let memory = MemoryDevice::new(64 << 20).with_geometry(|geometry| {
        geometry.has_volatile_cache = true;
    });
    let device = Arc::new(MeterDevice::new(Arc::new(memory)));
    let mut options = mkfs::Options {
        file_system: FileSystemType::Ext4,
        ..mkfs::Options::default()
    };
    options.features.add(features).expect("they are known");
    let home: Arc<dyn BlockDevice> = Arc::<MeterDevice>::clone(&device);
    mkfs::format(&home, &options).expect("the volume is made");
    device
}

fn open(device: &Arc<MeterDevice>, data: DataMode, is_async: bool) -> Result<Volume, Error> {
    let home: Arc<dyn BlockDevice> = Arc::<MeterDevice>::clone(device);
    let options = MountOptions {
        async_commit: is_async,
        ..quiet(data)
    };
    Volume::open(home, None, options)
}

/// Creates a file and makes it durable. Returns writes, flushes and forced writes.
fn create(volume: &Volume, device: &MeterDevice, name: &str, contents: &[u8]) -> (u64, u64, u64) {
    let before = device.counts();
    let file = volume.create_file(name, &NewInode::default());
    let file = file.expect("create");
    file.write_at(0, contents).expect("write");
    file.sync_all().expect("fsync");
    file.close().expect("close");
    let counts = device.counts() - before;
    (counts.writes, counts.flushes, counts.forced_writes)
}

/// Returns the features of the journal.
fn features(device: &Arc<MeterDevice>) -> (JournalCompatible, JournalIncompatible) {
    let home: Arc<dyn BlockDevice> = Arc::<MeterDevice>::clone(device);
    let read_only = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let volume = Volume::open(Arc::clone(&home), None, read_only).expect("the volume opens");
    let extents = volume.blocks_of(InodeNr::JOURNAL).expect("it is mapped");
    let bytes = u64::from(volume.usage().block_bytes);
    let first = extents[0].blocks().next().expect("it has blocks");
    volume.close().expect("close");
    let block = home.read_block(first * bytes, 1024).expect("read");
    let (superblock, _) = JournalSuperblock::read_from_prefix(&block).expect("it is long enough");
    (superblock.compatible(), superblock.incompatible())
}

#[test]
fn a_new_file_with_its_contents_is_one_forced_write() {
    let device = volume("^metadata_csum");
    let volume = open(&device, DataMode::Journal, true).expect("the volume opens");
    create(&volume, &device, "/first", b"");
    for (name, contents) in [("/a", &b""[..]), ("/b", &[1; 5000]), ("/c", &[2; 60_000])] {
        let cost = create(&volume, &device, name, contents);
        assert_eq!(cost, (1, 0, 1), "{name}");
    }
    volume.close().expect("close");
}

#[test]
fn without_ordered_data_writeback_has_one_forced_write() {
    let device = volume("^metadata_csum");
    let volume = open(&device, DataMode::Writeback, true).expect("the volume opens");
    create(&volume, &device, "/first", b"");
    assert_eq!(create(&volume, &device, "/a", b""), (1, 0, 1));
    // The data of the file is flushed before the commit block.
    assert_eq!(create(&volume, &device, "/b", &[1; 5000]), (3, 1, 1));
    volume.close().expect("close");
}

#[test]
fn the_log_says_so_until_the_next_commits_without() {
    let device = volume("^metadata_csum");
    let both = |device| {
        let (compatible, incompatible) = features(device);
        let is_async = incompatible.contains(JournalIncompatible::ASYNC_COMMIT);
        (compatible.contains(JournalCompatible::CHECKSUM), is_async)
    };
    for (is_async, expect) in [(true, (true, true)), (false, (true, false))] {
        let volume = open(&device, DataMode::Journal, is_async).expect("the volume opens");
        create(&volume, &device, &format!("/{is_async}"), b"contents");
        volume.close().expect("close");
        assert_eq!(both(&device), expect);
    }
}

#[test]
fn with_checksums_of_metadata_commits_have_two_steps() {
    let device = volume("metadata_csum");
    let volume = open(&device, DataMode::Journal, true).expect("the volume opens");
    create(&volume, &device, "/first", b"");
    assert_eq!(create(&volume, &device, "/a", b"contents"), (2, 1, 1));
    volume.close().expect("close");
    let (_, incompatible) = features(&device);
    assert!(!incompatible.contains(JournalIncompatible::ASYNC_COMMIT));
}

#[test]
fn what_they_cannot_be_is_refused_and_nothing_is_written() {
    for (features, data, expect) in [
        ("^metadata_csum", DataMode::Ordered, "add data=journal"),
        ("^has_journal", DataMode::Writeback, "has no journal"),
    ] {
        let device = volume(features);
        let before = device.counts().writes;
        let Err(Error::Invalid(text)) = open(&device, data, true) else {
            panic!("{features}: it opens");
        };
        assert!(text.contains(expect), "{text}");
        assert_eq!(device.counts().writes, before, "{features}");
    }
}

/// The error of a volume with `metadata_csum` names this remedy. The log keeps its checksums v3
/// until then.
#[test]
fn they_are_possible_once_metadata_csum_is_taken_away() {
    let device = volume("metadata_csum");
    let first = open(&device, DataMode::Ordered, false).expect("the volume opens");
    first.close().expect("close");
    let (_, incompatible) = features(&device);
    assert!(incompatible.contains(JournalIncompatible::CHECKSUM_V3));
    let changes = Changes {
        features_removed: vec![tune::removable_feature("metadata_csum").expect("a feature")],
        ..Changes::default()
    };
    let home: Arc<dyn BlockDevice> = Arc::<MeterDevice>::clone(&device);
    tune::apply(&home, None, &changes).expect("tuned");
    let before = device.counts().writes;
    let volume = open(&device, DataMode::Journal, true);
    let written = device.counts().writes - before;
    let volume = volume.unwrap_or_else(|error| panic!("{error}, after {written} writes"));
    create(&volume, &device, "/first", b"");
    assert_eq!(create(&volume, &device, "/a", &[1; 5000]), (1, 0, 1));
    volume.close().expect("close");
    let (compatible, incompatible) = features(&device);
    assert!(compatible.contains(JournalCompatible::CHECKSUM));
    assert!(!incompatible.contains(JournalIncompatible::CHECKSUM_V3));
}
