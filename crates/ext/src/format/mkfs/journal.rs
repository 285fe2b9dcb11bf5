//! The journal of a new volume: internal, or on its own device.

use std::sync::Arc;

use block::BlockDevice;
use layout::feature::{Compatible, Incompatible};
use layout::inode::InodeFlags;
use layout::superblock as disk;
use layout::{BlockNr, GroupNr, InodeNr};
use zerocopy::FromBytes;

use super::hidden_file::{self, Hidden};
use super::plan::Plan;
use super::{JournalOption, JournalPlace, Options, defaults};
use crate::disk::log::{LOG_BLOCKS_MAX, LOG_BLOCKS_MIN};
use crate::error::{Corrupt, Error, Result};
use crate::format::mkfs::image::Image;

/// Number of blocks of a journal of the default length for each block of fast commits, as in
/// mke2fs.
const FAST_COMMIT_SHARE: u32 = 64;

/// Creates the journal's inode, if the journal is internal.
pub(super) fn make(plan: &mut Plan, options: &Options, image: &mut Image) -> Result<()> {
    let Some(count) = block_count(plan, options, image)? else {
        return Ok(());
    };
    image.fast_commit_blocks = fast_commit_blocks(plan);
    let count = count + image.fast_commit_blocks;
    let geometry = plan.geometry.clone();
    let goal = match options.journal_place {
        JournalPlace::Start => geometry.first_data_block,
        JournalPlace::Middle => {
            let middle = (geometry.block_count - geometry.first_data_block.get()) / 2;
            geometry.first_block_of(GroupNr::new(
                (middle / u64::from(geometry.blocks_per_group)) as u32,
            ))
        }
    };
    let size = u64::from(count) * u64::from(geometry.block_bytes);
    let file = Hidden {
        nr: InodeNr::JOURNAL,
        goal,
        size,
        flags: InodeFlags::empty(),
    };
    let file = hidden_file::add(plan, image, &file)?;
    let mut backup = [0; 17];
    backup[..15].copy_from_slice(&file.words);
    backup[15] = (size >> 32) as u32;
    backup[16] = size as u32;
    image.journal_backup = Some(backup);
    image.journal = file.data;
    Ok(())
}

/// Returns the number of blocks that a journal gets for fast commits.
fn fast_commit_blocks(plan: &Plan) -> u32 {
    if !plan.features.compatible.contains(Compatible::FAST_COMMIT) {
        return 0;
    }
    let default = defaults::journal_blocks(plan.profile, plan.geometry.block_count);
    default.unwrap_or(0) / FAST_COMMIT_SHARE
}

/// Returns the number of blocks of the journal without those for fast commits; none if it is
/// external, or if the volume is too small for one.
fn block_count(plan: &mut Plan, options: &Options, image: &Image) -> Result<Option<u32>> {
    let count = match options.journal {
        JournalOption::External(_) => return Ok(None),
        JournalOption::Blocks(count) => count,
        JournalOption::Megabytes(size) => {
            let blocks = u64::from(size) * ((1 << 20) / u64::from(plan.geometry.block_bytes));
            u32::try_from(blocks).unwrap_or(u32::MAX)
        }
        JournalOption::Default => {
            let Some(count) = defaults::journal_blocks(plan.profile, plan.geometry.block_count)
            else {
                plan.features.compatible.remove(Compatible::HAS_JOURNAL);
                if plan.features.compatible.contains(Compatible::ORPHAN_FILE) {
                    return Err(Error::Invalid(
                        "the volume is too small for a journal, which orphan_file needs",
                    ));
                }
                plan.warnings
                    .push("the volume is too small for a journal and has none".to_owned());
                return Ok(None);
            };
            return Ok(Some(count));
        }
    };
    if !(LOG_BLOCKS_MIN..=LOG_BLOCKS_MAX).contains(&count) {
        return Err(Error::Invalid("a journal has 1024 to 10240000 blocks"));
    }
    if u64::from(count) > image.free_blocks(plan) / 2 {
        return Err(Error::Invalid(
            "the journal would take more than half of the free blocks",
        ));
    }
    Ok(Some(count))
}

/// The description of a journal device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalDevice {
    /// Its UUID, by which a volume refers to it.
    pub uuid: [u8; 16],
    /// Size of its blocks in bytes.
    pub block_bytes: u32,
    /// Number of its blocks.
    pub block_count: u64,
}

/// The parameters of a new journal device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalDeviceOptions {
    /// Size of its blocks in bytes, which must equal that of the volume's blocks.
    pub block_bytes: u32,
    /// Number of its blocks; as many as the device has if it is `None`.
    pub block_count: Option<u64>,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its label, at most 16 bytes.
    pub label: String,
    /// Creation time in seconds since 1970; now if it is `None`.
    pub seconds: Option<i64>,
}

/// Formats a device as the journal of a volume that is created or changed later. All of the device
/// is used.
///
/// # Errors
/// - [`Error::Invalid`] if it is too small for a journal.
/// - [`Error::Journal`] if the device fails.
pub fn format_journal_device(
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    uuid: [u8; 16],
) -> Result<JournalDevice> {
    let options = JournalDeviceOptions {
        block_bytes,
        block_count: None,
        uuid,
        label: String::new(),
        seconds: None,
    };
    format_journal_device_as(device, &options)
}

/// Formats a journal device like [`format_journal_device`], with a size, a label and a time.
///
/// # Errors
/// - [`Error::Invalid`] if the device has fewer blocks, or if the label is too long.
/// - Errors of [`format_journal_device`].
pub fn format_journal_device_as(
    device: &Arc<dyn BlockDevice>,
    options: &JournalDeviceOptions,
) -> Result<JournalDevice> {
    let (block_bytes, uuid) = (options.block_bytes, options.uuid);
    let is_size = block_bytes.is_power_of_two() && (1024..=4096).contains(&block_bytes);
    if !is_size || block_bytes < device.geometry().sector_bytes {
        return Err(Error::Invalid(
            "blocks have 1024, 2048 or 4096 bytes, and no less than a sector",
        ));
    }
    let device_blocks = device.geometry().size_bytes / u64::from(block_bytes);
    let block_count = options.block_count.unwrap_or(device_blocks);
    if block_count > device_blocks {
        return Err(Error::Invalid("the device has fewer blocks"));
    }
    if block_count < u64::from(LOG_BLOCKS_MIN) {
        return Err(Error::Invalid("a journal device has at least 1024 blocks"));
    }
    let mut label = [0; 16];
    let Some(place) = label.get_mut(..options.label.len()) else {
        return Err(Error::Invalid("a label has at most 16 bytes"));
    };
    place.copy_from_slice(options.label.as_bytes());
    let block_count = block_count.min(u64::from(LOG_BLOCKS_MAX));
    let external = jbd2::format::ExternalOptions {
        block_bytes,
        uuid,
        blocks: block_count,
        label,
        seconds: options.seconds.unwrap_or_else(|| rt::wall().seconds),
    };
    jbd2::format::create_external(device, &external)?;
    Ok(JournalDevice {
        uuid,
        block_bytes,
        block_count,
    })
}

/// Returns the description of a journal device.
///
/// # Errors
/// [`Error::Corrupt`] or [`Error::Unsupported`] if the device is no journal device.
pub fn journal_device(device: &Arc<dyn BlockDevice>) -> Result<JournalDevice> {
    let bytes = device.read_block(disk::OFFSET, disk::SIZE as u32)?;
    let (raw, _) = disk::Superblock::read_from_prefix(&bytes).expect("as many bytes were read");
    if raw.magic.get() != disk::MAGIC {
        return Err(Corrupt::Magic {
            magic: raw.magic.get(),
        }
        .into());
    }
    if !raw
        .features()
        .incompatible
        .contains(Incompatible::JOURNAL_DEV)
    {
        return Err(Error::Unsupported(
            "the device is not a journal device".to_owned(),
        ));
    }
    let Some(block_bytes) = raw.block_size() else {
        let value = raw.log_block_size.get().into();
        let why = "blocks have 1 KiB to 64 KiB";
        return Err(Corrupt::Superblock {
            field: "s_log_block_size",
            value,
            why,
        }
        .into());
    };
    Ok(JournalDevice {
        uuid: raw.uuid,
        block_bytes,
        block_count: raw.blocks_count(),
    })
}

/// Returns the log's place on the volume.
pub(super) fn location(
    device: &Arc<dyn BlockDevice>,
    plan: &Plan,
    image: &Image,
) -> jbd2::Location {
    let extents = image.journal.iter().map(|run| jbd2::LogExtent {
        first: BlockNr::new(run.first.get()),
        count: run.count,
    });
    jbd2::Location {
        device: Arc::clone(device),
        block_bytes: plan.geometry.block_bytes,
        extents: extents.collect(),
    }
}
