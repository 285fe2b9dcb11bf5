//! Making an image, with e2fsprogs' defaults and option names.
//!
//! ```text
//! group:  | superblock | descriptors | room for descriptors | block bitmap | inode bitmap | inode table | data ... |
//!           only in groups with copies (0, 1, powers of 3, 5, 7)
//! ```
//!
//! What is not given is chosen as e2fsprogs does: from the size of the volume follows the usage type, from that the size of
//! blocks and the number of inodes, from those the groups. The same parameters, UUID, hash seed and time give the same
//! bytes. The first superblock is written last, so that a half-made volume is not taken for one.
//!
//! Source: `mke2fs(8)`, `mke2fs.conf(5)`; sizes and counts are compared with mke2fs in the tests.

mod defaults;
mod descriptor_room;
mod features;
mod files;
mod image;
mod journal;
mod map;
mod place;
mod plan;
mod seal;
mod superblock;
mod write;

use std::sync::Arc;

use block::BlockDevice;
use layout::feature::{Compatible, Features};

use crate::disk::geometry::Geometry;
use crate::error::{Error, Result};

pub(crate) use defaults::journal_blocks;
pub use defaults::{Profile, UsageType};
pub use features::FeatureEdits;
pub use journal::{
    JournalDevice, JournalDeviceOptions, format_journal_device, format_journal_device_as,
    journal_device,
};
pub use seal::seal;
pub(crate) use write::superblock_block;

/// Which file system is made: what the features are to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileSystemType {
    /// Without a journal.
    Ext2,
    /// With a journal.
    #[default]
    Ext3,
}

/// Where the journal lies and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalOption {
    /// As long as the profile says for the size of the volume, if the file system's type or the features ask for one.
    #[default]
    Default,
    /// `-J size=`: so many MiB.
    Megabytes(u32),
    /// So many blocks.
    Blocks(u32),
    /// `-J device=`: on the journal device with this UUID.
    External([u8; 16]),
}

/// Where an internal journal is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalPlace {
    /// In the middle of the volume, where the way to it is shortest. That is where mke2fs 1.47 puts the journal of ext4; of ext3
    /// it still leaves it in the first groups.
    #[default]
    Middle,
    /// Behind the root directory: what mke2fs did for both until 2008.
    Start,
}

/// What to make. Everything that is `None` is chosen from the profile and the size of the device.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Whose defaults.
    pub profile: Profile,
    /// `-t`
    pub file_system: FileSystemType,
    /// `-T`
    pub usage: Option<UsageType>,
    /// The size in blocks, if it is not that of the device.
    pub block_count: Option<u64>,
    /// `-b`
    pub block_bytes: Option<u32>,
    /// `-g`
    pub blocks_per_group: Option<u32>,
    /// `-i`
    pub bytes_per_inode: Option<u32>,
    /// `-N`
    pub inode_count: Option<u32>,
    /// `-I`
    pub inode_bytes: Option<u16>,
    /// `-m`
    pub reserved_percent: f64,
    /// `-L`, at most 16 bytes.
    pub label: String,
    /// `-U`
    pub uuid: Option<[u8; 16]>,
    /// `-O`
    pub features: FeatureEdits,
    /// `-J`
    pub journal: JournalOption,
    /// Where an internal journal is put.
    pub journal_place: JournalPlace,
    /// `-E resize=`: the number of blocks up to which the volume can grow.
    pub resize_blocks_max: Option<u64>,
    /// `-E root_owner=`: user and group of the root directory.
    pub root_owner: (u32, u32),
    /// `-E hash_seed=`
    pub hash_seed: Option<[u8; 16]>,
    /// The time that the image says it was made, in seconds since 1970.
    pub seconds: Option<i64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            file_system: FileSystemType::default(),
            usage: None,
            block_count: None,
            block_bytes: None,
            blocks_per_group: None,
            bytes_per_inode: None,
            inode_count: None,
            inode_bytes: None,
            reserved_percent: 5.0,
            label: String::new(),
            uuid: None,
            features: FeatureEdits::default(),
            journal: JournalOption::default(),
            journal_place: JournalPlace::default(),
            resize_blocks_max: None,
            root_owner: (0, 0),
            hash_seed: None,
            seconds: None,
        }
    }
}

impl Options {
    /// The default of 2002: inodes of 128 bytes, one for each 8 KiB, blocks of 4 KiB above 512 MiB, no index of
    /// directories, no room for descriptors, a journal of up to 8192 blocks behind the root directory.
    pub fn classic2002() -> Self {
        Self {
            profile: Profile::Classic2002,
            journal_place: JournalPlace::Start,
            ..Self::default()
        }
    }
}

/// What was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Sizes and places.
    pub geometry: Geometry,
    /// The features.
    pub features: Features,
    /// Blocks only for the privileged.
    pub reserved_blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Free inodes.
    pub free_inodes: u32,
    /// Blocks of the internal journal; 0 if there is none.
    pub journal_blocks: u32,
    /// The UUID.
    pub uuid: [u8; 16],
    /// What is not as it was asked for, and why.
    pub warnings: Vec<String>,
}

/// Makes an empty volume on a device. Everything on it is lost.
///
/// # Errors
/// - [`Error::Invalid`] and [`Error::Unsupported`] say which option cannot be; nothing has been written then.
/// - [`Error::Device`] when the device fails.
pub fn format(device: &Arc<dyn BlockDevice>, options: &Options) -> Result<Summary> {
    let mut plan = plan::plan(&device.geometry(), options)?;
    let image = files::populate(&mut plan, options)?;
    let raw = superblock::superblock(&plan, options, &image);
    write::write(device, &plan, &image, &raw)?;
    Ok(plan.summary(&image))
}

/// What [`format()`] would make of a device like this. Nothing is written.
///
/// # Errors
/// As [`format()`].
pub fn preview(device: &block::Geometry, options: &Options) -> Result<Summary> {
    let mut plan = plan::plan(device, options)?;
    let image = files::populate(&mut plan, options)?;
    Ok(plan.summary(&image))
}

/// Makes an empty volume whose journal is on another device, which [`format_journal_device`] has made and which nobody
/// uses yet. The journal's blocks and the volume's have one size.
///
/// # Errors
/// As [`format()`]; [`Error::Unsupported`] if the other device is no journal device, and [`Error::Journal`] if somebody uses it.
pub fn format_with_journal(
    device: &Arc<dyn BlockDevice>,
    journal: &Arc<dyn BlockDevice>,
    options: &Options,
) -> Result<Summary> {
    let found = journal_device(journal)?;
    if options
        .block_bytes
        .is_some_and(|bytes| bytes != found.block_bytes)
    {
        return Err(Error::Invalid(
            "the blocks of the journal device have another size",
        ));
    }
    let options = Options {
        journal: JournalOption::External(found.uuid),
        block_bytes: Some(found.block_bytes),
        ..options.clone()
    };
    let mut plan = plan::plan(&device.geometry(), &options)?;
    let image = files::populate(&mut plan, &options)?;
    let raw = superblock::superblock(&plan, &options, &image);
    // First, so that a journal which somebody uses is refused before anything is lost.
    jbd2::format::add_user(journal, found.block_bytes, plan.uuid)?;
    write::write(device, &plan, &image, &raw)?;
    Ok(plan.summary(&image))
}

impl Summary {
    /// Whether the volume has a journal, here or on another device.
    pub fn has_journal(&self) -> bool {
        self.features.compatible.contains(Compatible::HAS_JOURNAL)
    }
}

#[cfg(test)]
mod tests;
