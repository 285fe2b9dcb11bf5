//! Creating an image, with e2fsprogs' defaults and option names.
//!
//! ```text
//! | superblock | descriptors | reserved GDT | block bitmap | inode bitmap | inode table | data |
//!   only in groups with backups (0, 1, powers of 3, 5, 7)
//! ```
//! With `flex_bg` the bitmaps and tables of 16 groups lie together in the first of them.
//!
//! Missing options are chosen as in e2fsprogs: the size of the volume determines the usage type,
//! the type determines the size of blocks and the number of inodes, and those determine the groups.
//! The same parameters, UUID, hash seed and time give the same bytes. The first superblock is
//! written last, so that an incomplete volume is not taken for a valid one.
//!
//! Source: `mke2fs(8)`, `mke2fs.conf(5)`; sizes and counts are compared with mke2fs in the tests.

mod defaults;
mod descriptor_room;
mod descriptors;
mod extents;
mod features;
mod files;
mod groups;
mod hidden_file;
mod image;
mod journal;
mod map;
mod multi_mount;
mod orphan_file;
mod place;
mod plan;
mod quota;
mod seal;
mod sums;
mod superblock;
mod write;

use std::sync::Arc;

use block::BlockDevice;
use layout::feature::{Compatible, Features};
use layout::quota::QuotaKind;

use crate::disk::geometry::Geometry;
use crate::error::{Error, Result};

pub(crate) use defaults::journal_blocks;
pub use defaults::{Profile, UsageType};
pub use features::FeatureEdits;
pub use journal::{
    JournalDevice, JournalDeviceOptions, format_journal_device, format_journal_device_as,
    journal_device,
};
pub(crate) use multi_mount::interval as mmp_interval;
pub(crate) use orphan_file::block_count as orphan_file_blocks;
pub(crate) use quota::{GROUP_QUOTA, USER_QUOTA};
pub use seal::seal;
pub(crate) use write::superblock_block;

/// The type of the file system, which determines the initial features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileSystemType {
    /// Without a journal.
    Ext2,
    /// With a journal.
    Ext3,
    /// With a journal, extents, checksums of metadata, and block numbers of 64 bits.
    #[default]
    Ext4,
}

/// The place and length of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalOption {
    /// The length of the profile for the size of the volume, if the file system's type or the
    /// features require a journal.
    #[default]
    Default,
    /// Length in MiB (`-J size=`).
    Megabytes(u32),
    /// Length in blocks.
    Blocks(u32),
    /// On the journal device with this UUID (`-J device=`).
    External([u8; 16]),
}

/// The place of an internal journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalPlace {
    /// In the middle of the volume, at the shortest seek distance. mke2fs 1.47 places the journal
    /// of ext4 there, and that of ext3 in the first groups.
    #[default]
    Middle,
    /// After the root directory, as mke2fs did for both until 2008.
    Start,
}

/// The parameters of a new volume. Fields that are `None` are chosen from the profile and the size
/// of the device.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The profile with the defaults.
    pub profile: Profile,
    /// Type of the file system (`-t`).
    pub file_system: FileSystemType,
    /// Usage type (`-T`).
    pub usage: Option<UsageType>,
    /// Size in blocks, if it is not that of the device.
    pub block_count: Option<u64>,
    /// Size of a block in bytes (`-b`).
    pub block_bytes: Option<u32>,
    /// Size of a cluster in bytes with the feature `bigalloc` (`-C`); 16 blocks by default.
    pub cluster_bytes: Option<u32>,
    /// Number of blocks in a group (`-g`).
    pub blocks_per_group: Option<u32>,
    /// Number of bytes for each inode (`-i`).
    pub bytes_per_inode: Option<u32>,
    /// Number of inodes (`-N`).
    pub inode_count: Option<u32>,
    /// Size of an inode in bytes (`-I`).
    pub inode_bytes: Option<u16>,
    /// Percentage of reserved blocks (`-m`).
    pub reserved_percent: f64,
    /// Label of at most 16 bytes (`-L`).
    pub label: String,
    /// UUID (`-U`).
    pub uuid: Option<[u8; 16]>,
    /// Changes of the features (`-O`).
    pub features: FeatureEdits,
    /// Place and length of the journal (`-J`).
    pub journal: JournalOption,
    /// Place of an internal journal.
    pub journal_place: JournalPlace,
    /// Number of blocks up to which the volume can grow (`-E resize=`).
    pub resize_blocks_max: Option<u64>,
    /// User and group of the root directory (`-E root_owner=`).
    pub root_owner: (u32, u32),
    /// Seconds between two renewals of multiple mount protection (`-E mmp_update_interval=`); 0 and
    /// none are the default.
    pub mmp_update_seconds: Option<u16>,
    /// Kinds of owners that are counted with the feature `quota` (`-E quotatype=`); none for users
    /// and groups, and projects if the volume has them.
    pub quota_kinds: Option<Vec<QuotaKind>>,
    /// True to leave the unused parts of inode tables as they are, for a writable mount to zero
    /// (`-E lazy_itable_init=1`). Without checksums of groups, which say so, they are zeroed.
    pub lazy_inode_tables: bool,
    /// Seed of directory hashes (`-E hash_seed=`).
    pub hash_seed: Option<[u8; 16]>,
    /// Creation time to record in the image, in seconds since 1970.
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
            cluster_bytes: None,
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
            mmp_update_seconds: None,
            quota_kinds: None,
            lazy_inode_tables: false,
            hash_seed: None,
            seconds: None,
        }
    }
}

impl Options {
    /// Returns the defaults of 2002, for ext3: inodes of 128 bytes, one for each 8 KiB, blocks of
    /// 4 KiB above 512 MiB, no directory index, no reserved GDT blocks, a journal of up to 8192
    /// blocks after the root directory.
    pub fn classic2002() -> Self {
        Self {
            profile: Profile::Classic2002,
            file_system: FileSystemType::Ext3,
            journal_place: JournalPlace::Start,
            ..Self::default()
        }
    }
}

impl Options {
    /// Returns the number of bytes that are allocated at once: those of a cluster with `bigalloc`,
    /// else those of a block. The options have the size of a block.
    pub fn allocation_bytes(&self) -> u32 {
        defaults::resolve(self, 0).cluster_bytes
    }
}

/// A description of the new volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Sizes and places.
    pub geometry: Geometry,
    /// The features.
    pub features: Features,
    /// Number of blocks reserved for privileged callers.
    pub reserved_blocks: u64,
    /// Number of free blocks.
    pub free_blocks: u64,
    /// Number of free inodes.
    pub free_inodes: u32,
    /// Number of blocks of the internal journal; 0 if there is none.
    pub journal_blocks: u32,
    /// The UUID.
    pub uuid: [u8; 16],
    /// Deviations from the options, with their reasons.
    pub warnings: Vec<String>,
}

/// Creates an empty volume on a device. Everything on it is lost.
///
/// # Errors
/// - [`Error::Invalid`] and [`Error::Unsupported`] name the invalid option; nothing has been
///   written then.
/// - [`Error::Device`] if the device fails.
pub fn format(device: &Arc<dyn BlockDevice>, options: &Options) -> Result<Summary> {
    let mut plan = plan::plan(&device.geometry(), options)?;
    let image = files::populate(&mut plan, options)?;
    let raw = superblock::superblock(&plan, options, &image);
    write::write(device, &plan, &image, &raw)?;
    Ok(image.summary(&plan))
}

/// Returns the description of the volume that [`format()`] would create on such a device. Writes
/// nothing.
///
/// # Errors
/// Fails as [`format()`].
pub fn preview(device: &block::Geometry, options: &Options) -> Result<Summary> {
    let mut plan = plan::plan(device, options)?;
    let image = files::populate(&mut plan, options)?;
    Ok(image.summary(&plan))
}

/// Creates an empty volume whose journal is on another device, which [`format_journal_device`] has
/// created and no volume uses yet. The blocks of the journal and of the volume have the same size.
///
/// # Errors
/// Fails as [`format()`]; with [`Error::Unsupported`] if the other device is no journal device, and
/// with [`Error::Journal`] if a volume uses it.
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
    // This comes first, so that a journal in use is refused before anything is lost.
    jbd2::format::add_user(journal, found.block_bytes, plan.uuid)?;
    write::write(device, &plan, &image, &raw)?;
    Ok(image.summary(&plan))
}

impl Summary {
    /// Returns true if the volume has a journal, internal or external.
    pub fn has_journal(&self) -> bool {
        self.features.compatible.contains(Compatible::HAS_JOURNAL)
    }
}

#[cfg(test)]
mod tests;
