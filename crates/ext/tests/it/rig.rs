//! Volumes in memory, with an internal or external journal, and their checks by `e2fsck`.

use std::sync::Arc;

use block::BlockDevice;
use block::memory::MemoryDevice;
use ext::mkfs::{self, FeatureEdits, FileSystemType, JournalOption};
use ext::options::{DataMode, Memory};
use ext::volume::RangeChange;
use ext::{MountOptions, Volume};
use layout::{FileBlock, InodeNr, checksum};
use rt::Nanos;
use testkit::tool;

/// Length of the shortest journal in blocks.
const JOURNAL_BLOCKS: u32 = 1024;
const JOURNAL_UUID: [u8; 16] = [0x5A; 16];
/// Offsets of `s_maxlen` and `s_sequence` in a journal's superblock, in bytes.
const LENGTH_OFFSET: usize = 0x10;
const SEQUENCE_OFFSET: usize = 0x18;
/// Offsets of `s_feature_incompat` and `s_checksum`, and the features with checksums: v2 and v3.
const FEATURES_OFFSET: usize = 0x28;
const SUM_OFFSET: usize = 0xFC;
const CHECKSUMMED: u32 = 0x18;

/// The place of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    None,
    Internal,
    External,
}

/// The structures of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structures {
    /// Those of ext3, or of ext2 without a journal.
    Ext3,
    /// The defaults of ext4: extents, checksums, descriptors of 64 bytes.
    Ext4,
}

/// The media of a volume.
pub struct Rig {
    pub home: Arc<MemoryDevice>,
    pub log: Option<Arc<MemoryDevice>>,
    pub block_bytes: u32,
}

/// Returns the memory as a device.
pub fn device(memory: &Arc<MemoryDevice>) -> Arc<dyn BlockDevice> {
    Arc::<MemoryDevice>::clone(memory)
}

/// Returns options under which nothing happens in the background.
pub fn quiet(data: DataMode) -> MountOptions {
    let never = Nanos::from_secs(100_000);
    let memory = Memory {
        writer_interval: never,
        ..Memory::default()
    };
    MountOptions {
        data,
        commit_interval: never,
        memory,
        privileged: true,
        ..MountOptions::default()
    }
}

/// Takes all free blocks of a volume, for a file.
pub fn take_free_blocks(volume: &Volume) {
    volume.write_file("/filler", b"").expect("create");
    let nr = volume.resolve("/filler", true).expect("it is there");
    let block = u64::from(volume.usage().block_bytes);
    let (mut at, mut most) = (0, 4096);
    loop {
        let count = volume.usage().blocks_free.min(most);
        if count == 0 {
            return;
        }
        let (from, length) = (at * block, count * block);
        match volume.change_range(nr, from, length, RangeChange::Allocate, false) {
            Ok(()) => at += count,
            Err(error) => {
                assert!(most > 1, "{error}");
                most /= 2;
            }
        }
    }
}

/// Returns the type of a volume without extents: ext2 if it has no journal.
fn ext3(place: Place) -> FileSystemType {
    match place {
        Place::None => FileSystemType::Ext2,
        _ => FileSystemType::Ext3,
    }
}

impl Rig {
    /// Creates an empty volume with this crate's mkfs; the journal has the minimal length.
    pub fn new(place: Place, block_bytes: u32, size_bytes: u64) -> Self {
        Self::with_inodes(place, block_bytes, size_bytes, None)
    }

    /// Creates an empty volume with these structures.
    pub fn of(structures: Structures, place: Place, block_bytes: u32, size: u64) -> Self {
        let mut features = FeatureEdits::default();
        let file_system = match structures {
            Structures::Ext3 => ext3(place),
            Structures::Ext4 => FileSystemType::Ext4,
        };
        if place == Place::None {
            features.add("^has_journal").expect("it is known");
        }
        Self::with_all(place, block_bytes, size, None, (file_system, features))
    }

    /// Creates an empty volume with a number of inodes.
    pub fn with_inodes(place: Place, block_bytes: u32, size: u64, inodes: Option<u32>) -> Self {
        let features = (ext3(place), FeatureEdits::default());
        Self::with_all(place, block_bytes, size, inodes, features)
    }

    /// Creates an empty volume with features added and removed.
    pub fn with_features(
        place: Place,
        block_bytes: u32,
        size: u64,
        features: FeatureEdits,
    ) -> Self {
        Self::with_all(place, block_bytes, size, None, (ext3(place), features))
    }

    fn with_all(
        place: Place,
        block_bytes: u32,
        size: u64,
        inodes: Option<u32>,
        (file_system, features): (FileSystemType, FeatureEdits),
    ) -> Self {
        let home = Arc::new(MemoryDevice::new(size));
        let options = mkfs::Options {
            features,
            file_system,
            block_bytes: Some(block_bytes),
            inode_count: inodes,
            uuid: Some([0x11; 16]),
            hash_seed: Some([0x22; 16]),
            seconds: Some(1_000_000_000),
            journal: match place {
                Place::Internal => JournalOption::Blocks(JOURNAL_BLOCKS),
                _ => JournalOption::Default,
            },
            ..mkfs::Options::default()
        };
        let mut log = None;
        if place == Place::External {
            let bytes = u64::from(JOURNAL_BLOCKS + 8) * u64::from(block_bytes);
            let memory = Arc::new(MemoryDevice::new(bytes));
            mkfs::format_journal_device(&device(&memory), block_bytes, JOURNAL_UUID)
                .expect("the journal device is made");
            mkfs::format_with_journal(&device(&home), &device(&memory), &options)
                .expect("the volume is made");
            log = Some(memory);
        } else {
            mkfs::format(&device(&home), &options).expect("the volume is made");
        }
        Self {
            home,
            log,
            block_bytes,
        }
    }

    /// Returns an independent copy.
    pub fn copy(&self) -> Self {
        Self {
            home: Arc::new(self.home.snapshot()),
            log: self.log.as_ref().map(|log| Arc::new(log.snapshot())),
            block_bytes: self.block_bytes,
        }
    }

    /// Returns the journal's device, if it is external.
    pub fn log_device(&self) -> Option<Arc<dyn BlockDevice>> {
        self.log.as_ref().map(device)
    }

    /// Opens the volume.
    pub fn open(&self, options: MountOptions) -> Volume {
        Volume::open(device(&self.home), self.log_device(), options).expect("the volume opens")
    }

    /// Sets the number of the next transaction. The log must be empty.
    pub fn set_sequence(&self, sequence: u32) {
        self.set_log_field(SEQUENCE_OFFSET, sequence);
    }

    /// Restricts the journal to this number of its blocks. The log must be empty.
    pub fn set_log_length(&self, blocks: u32) {
        self.set_log_field(LENGTH_OFFSET, blocks);
    }

    fn set_log_field(&self, offset: usize, value: u32) {
        let place = match &self.log {
            Some(_) => {
                if self.block_bytes == 1024 {
                    2
                } else {
                    1
                }
            }
            None => {
                let volume = self.open(MountOptions {
                    read_only: true,
                    ..quiet(DataMode::Ordered)
                });
                let blocks = volume
                    .blocks_of(InodeNr::JOURNAL)
                    .expect("the journal is mapped");
                let first = blocks
                    .iter()
                    .find(|extent| extent.file_block == Some(FileBlock::new(0)));
                let first = first.expect("the journal has a first block").first.get();
                volume.close().expect("close");
                first
            }
        };
        let target = self.log_device().unwrap_or_else(|| device(&self.home));
        let at = place * u64::from(self.block_bytes);
        let mut block = target
            .read_block(at, self.block_bytes)
            .expect("memory does not fail");
        let bytes = Arc::make_mut(&mut block);
        bytes[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
        let incompatible = u32::from_be_bytes(bytes[FEATURES_OFFSET..][..4].try_into().unwrap());
        if incompatible & CHECKSUMMED != 0 {
            bytes[SUM_OFFSET..][..4].fill(0);
            let sum = checksum::crc32c(checksum::START, &bytes[..1024]);
            bytes[SUM_OFFSET..][..4].copy_from_slice(&sum.to_be_bytes());
        }
        target
            .write_blocks(at, vec![block])
            .expect("memory does not fail");
    }

    /// Asserts that `e2fsck -fn` finds nothing.
    pub fn assert_fsck_clean(&self, when: &str) {
        let directory = tempfile::tempdir().expect("a directory for the image");
        let path = directory.path().join("image");
        self.home
            .write_to_file(&path)
            .expect("the image is written");
        let journal = directory.path().join("journal");
        let mut arguments = vec!["-fn"];
        if let Some(log) = &self.log {
            log.write_to_file(&journal).expect("the journal is written");
            arguments.extend(["-j", journal.to_str().expect("UTF-8")]);
        }
        arguments.push(path.to_str().expect("UTF-8"));
        let output = tool::run("e2fsck", &arguments);
        assert!(
            output.status.code() == Some(0),
            "e2fsck -fn {when}:\n{}",
            tool::said(&output)
        );
        tool::assert_log_not_skipped(&output);
    }
}
