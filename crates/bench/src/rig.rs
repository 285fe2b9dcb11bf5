//! Volumes in memory on which nothing happens in the background.

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use block::{BlockDevice, MemoryDevice};
use ext::mkfs::{self, FileSystemType, JournalOption};
use ext::options::{DataMode, Memory};
use ext::volume::{FileId, NewInode, OpenFlags};
use ext::{MountOptions, Volume};
use layout::InodeNr;
use rt::Nanos;

/// Size of a block and of a page in bytes.
pub(crate) const BLOCK_BYTES: u32 = 4096;
/// Size of a volume in bytes.
const VOLUME_BYTES: u64 = 32 << 20;
/// Number of blocks of a log: the least that a journal may have.
const LOG_BLOCKS: u32 = 1024;
/// Number of inodes of a volume.
const INODES: u32 = 4096;

/// A format, and the way in which data is made durable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) is_ext4: bool,
    pub(crate) data: DataMode,
}

impl Setup {
    /// The formats with the default mode.
    pub(crate) const ORDERED: [Self; 2] = [
        Self {
            is_ext4: false,
            data: DataMode::Ordered,
        },
        Self {
            is_ext4: true,
            data: DataMode::Ordered,
        },
    ];
    /// The formats with the modes in which data is written differently.
    pub(crate) const WRITING: [Self; 4] = [
        Self::ORDERED[0],
        Self::ORDERED[1],
        Self {
            data: DataMode::Journal,
            ..Self::ORDERED[0]
        },
        Self {
            data: DataMode::Journal,
            ..Self::ORDERED[1]
        },
    ];

    /// Returns the name of the format.
    pub(crate) fn format(self) -> &'static str {
        if self.is_ext4 { "ext4" } else { "ext3" }
    }

    /// Returns the options of mkfs; every field that is random otherwise is fixed.
    pub(crate) fn mkfs(self) -> mkfs::Options {
        mkfs::Options {
            file_system: match self.is_ext4 {
                true => FileSystemType::Ext4,
                false => FileSystemType::Ext3,
            },
            block_bytes: Some(BLOCK_BYTES),
            inode_count: Some(INODES),
            uuid: Some([0x11; 16]),
            hash_seed: Some([0x22; 16]),
            seconds: Some(1_000_000_000),
            journal: JournalOption::Blocks(LOG_BLOCKS),
            ..mkfs::Options::default()
        }
    }

    /// Returns mount options under which nothing happens in the background.
    pub(crate) fn mount(self) -> MountOptions {
        let never = Nanos::from_secs(100_000);
        MountOptions {
            data: self.data,
            commit_interval: never,
            memory: Memory {
                writer_interval: never,
                ..Memory::default()
            },
            ..MountOptions::default()
        }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = match self.data {
            DataMode::Journal => "journal",
            _ => "ordered",
        };
        write!(formatter, "{}/{data}", self.format())
    }
}

/// An open volume with a directory.
pub(crate) struct Rig {
    pub(crate) device: Arc<MemoryDevice>,
    pub(crate) volume: Volume,
    pub(crate) directory: InodeNr,
}

/// Returns the memory as a device.
pub(crate) fn device(memory: &Arc<MemoryDevice>) -> Arc<dyn BlockDevice> {
    Arc::<MemoryDevice>::clone(memory)
}

/// Returns the name of a file.
pub(crate) fn name(number: u64) -> Vec<u8> {
    format!("file-{number:06}").into_bytes()
}

impl Rig {
    /// Makes a volume with this number of files of this length, all of them durable.
    pub(crate) fn new(setup: Setup, files: u64, bytes: usize) -> Result<Self> {
        let memory = Arc::new(MemoryDevice::new(VOLUME_BYTES));
        mkfs::format(&device(&memory), &setup.mkfs())?;
        let volume = Volume::open(device(&memory), None, setup.mount())?;
        let directory = volume.create_directory("/directory")?;
        let rig = Self {
            device: memory,
            volume,
            directory,
        };
        for number in 0..files {
            let file = rig.create_open(number)?;
            rig.volume.write_all(file, 0, &vec![7; bytes])?;
            rig.volume.release(file)?;
        }
        rig.volume.sync()?;
        Ok(rig)
    }

    /// Creates a file and opens it.
    pub(crate) fn create_open(&self, number: u64) -> Result<FileId> {
        let new = NewInode::default();
        let nr = self.volume.create(self.directory, &name(number), &new)?;
        Ok(self.volume.open_inode(nr, OpenFlags::READ_WRITE)?)
    }

    /// Returns the inode of a file.
    pub(crate) fn find(&self, number: u64) -> Result<InodeNr> {
        Ok(self.volume.lookup(self.directory, &name(number))?)
    }

    /// Returns the inodes of the first files.
    pub(crate) fn nodes(&self, count: u64) -> Result<Vec<InodeNr>> {
        (0..count).map(|number| self.find(number)).collect()
    }

    /// Opens a file.
    pub(crate) fn open(&self, number: u64) -> Result<FileId> {
        let nr = self.find(number)?;
        Ok(self.volume.open_inode(nr, OpenFlags::READ_WRITE)?)
    }
}
