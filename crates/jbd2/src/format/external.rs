//! External journals: a device that holds a log and nothing else.
//!
//! ```text
//! byte 1024                     an ext superblock with journal_dev as its only incompatible
//!                               feature; its UUID names the journal
//! block 1 (2 with 1 KiB blocks) the journal's superblock
//! the blocks after it           the log; its block numbers are those of the device
//! ```
//!
//! One file system uses it, as in Linux. More users, or another UUID, are recognised and refused.

use std::sync::Arc;

use block::BlockDevice;
use layout::superblock::{self as ext, DYNAMIC_REVISION, MAGIC, State};
use layout::{Block, BlockNr, feature};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{LogOptions, change, contiguous, new_superblock, zero};
use crate::error::{Corrupt, Error, Result};
use crate::location::{Location, LogExtent};
use crate::superblock::Superblock;

/// The device's block that holds the journal's superblock.
fn superblock_place(block_bytes: u32) -> u32 {
    if u64::from(block_bytes) == ext::OFFSET {
        2
    } else {
        1
    }
}

/// Block 0 of the log is the journal's superblock; every other one has the device's number.
pub(super) fn extents(block_bytes: u32, blocks: u32) -> Vec<LogExtent> {
    let place = superblock_place(block_bytes);
    vec![
        LogExtent {
            first: BlockNr::new(place.into()),
            count: 1,
        },
        LogExtent {
            first: BlockNr::new(1),
            count: blocks.saturating_sub(1),
        },
    ]
}

/// The properties of a new external journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalOptions {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Number of blocks of the device that the journal takes.
    pub blocks: u64,
    /// Its label.
    pub label: [u8; 16],
    /// The time of creation, in seconds since 1970.
    pub seconds: i64,
}

/// Makes the first blocks of a device an external journal: zeroes, the journal's superblock, the
/// ext superblock.
///
/// # Errors
/// - [`Error::TooSmall`], or what the device says.
pub fn create_external(device: &Arc<dyn BlockDevice>, options: &ExternalOptions) -> Result<()> {
    let block_bytes = options.block_bytes;
    let blocks = u32::try_from(options.blocks).unwrap_or(u32::MAX);
    let log = contiguous(device, block_bytes, blocks);
    let first = superblock_place(block_bytes) + 1;
    let log_options = LogOptions {
        uuid: options.uuid,
        ..LogOptions::default()
    };
    let mut superblock = new_superblock(block_bytes, blocks, first, &log_options)?;
    superblock.set_users(&[]);
    zero(&log, 1, blocks - 1)?;
    device.submit(superblock.requests(&log)).wait_all()?;
    let image = ext_superblock(blocks, options);
    device.write_blocks(
        ext::OFFSET,
        vec![Block::copy_from(image.as_bytes()).into_arc()],
    )?;
    Ok(device.flush()?)
}

/// The journal on a device, if it is the one with this UUID and has at most one user.
///
/// # Errors
/// - [`Error::Corrupt`] when the device is no external journal.
/// - [`Error::WrongJournal`] when it is another one.
/// - [`Error::InUse`] when several file systems use it.
pub fn open_external(
    device: Arc<dyn BlockDevice>,
    block_bytes: u32,
    journal_uuid: [u8; 16],
) -> Result<Location> {
    let log = locate_external(&device, block_bytes, journal_uuid)?;
    let superblock = Superblock::load(&log)?;
    if superblock.user_count() > 1 {
        return Err(Error::InUse {
            users: superblock.user_count(),
        });
    }
    Ok(log)
}

/// The journal on a device, however many users it has.
fn locate_external(
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    journal_uuid: [u8; 16],
) -> Result<Location> {
    let found = external_superblock(device)?;
    if found.uuid != journal_uuid {
        return Err(Error::WrongJournal {
            found: found.uuid,
            wanted: journal_uuid,
        });
    }
    if found.block_size() != Some(block_bytes) {
        let value = found.block_size().unwrap_or(0).into();
        let why = "the file system has another one";
        return Err(Corrupt::SuperblockField {
            field: "block size",
            value,
            why,
        }
        .into());
    }
    let on_device = device.geometry().size_bytes / u64::from(block_bytes);
    let blocks = found.blocks_count().min(on_device);
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    Ok(contiguous(device, block_bytes, blocks))
}

/// The ext superblock of an external journal device.
///
/// # Errors
/// - [`Error::Corrupt`] when there is none, or it is a file system's.
pub fn external_superblock(device: &Arc<dyn BlockDevice>) -> Result<ext::Superblock> {
    let none = |why| Error::from(Corrupt::NoJournalDevice { why });
    if device.geometry().size_bytes < ext::OFFSET + ext::SIZE as u64 {
        return Err(none("it is too small"));
    }
    let size = u32::try_from(ext::SIZE).expect("1024");
    let block = device.read_block(ext::OFFSET, size)?;
    let Ok(found) = ext::Superblock::read_from_bytes(&block) else {
        return Err(none("it has no superblock"));
    };
    if found.magic.get() != MAGIC {
        return Err(none("it has no superblock"));
    }
    if !found
        .features()
        .incompatible
        .contains(feature::Incompatible::JOURNAL_DEV)
    {
        return Err(none("it holds a file system"));
    }
    Ok(found)
}

/// Notes the file system that uses an external journal. Noting it again changes nothing.
///
/// # Errors
/// - [`Error::Taken`] when another one uses it.
/// - [`Error::NotEmpty`] when its log was not replayed: what stands in it is not for this file
///   system.
/// - Those of [`open_external`].
pub fn add_user(device: &Arc<dyn BlockDevice>, block_bytes: u32, fs_uuid: [u8; 16]) -> Result<()> {
    let journal_uuid = external_superblock(device)?.uuid;
    let log = open_external(Arc::clone(device), block_bytes, journal_uuid)?;
    change(&log, |superblock| {
        check_free(superblock, &[fs_uuid])?;
        if superblock.start().is_some() {
            return Err(Error::NotEmpty);
        }
        superblock.set_users(&[fs_uuid]);
        Ok(())
    })
}

/// Removes a file system from the users of the external journal with this UUID. Changes nothing if
/// it is not among them.
///
/// # Errors
/// - Those of [`open_external`], except for several users: the others remain.
pub fn remove_user(
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    journal_uuid: [u8; 16],
    fs_uuid: [u8; 16],
) -> Result<()> {
    let log = locate_external(device, block_bytes, journal_uuid)?;
    change(&log, |superblock| {
        let mut users = superblock.users().to_vec();
        users.retain(|user| *user != fs_uuid);
        superblock.set_users(&users);
        Ok(())
    })
}

/// Notes that the file system which uses the external journal with this UUID has a new UUID of its
/// own. Repeating it changes nothing.
///
/// # Errors
/// - [`Error::Taken`] when neither the old nor the new one is the journal's user, but another is.
/// - Those of [`open_external`].
pub fn rename_user(
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    journal_uuid: [u8; 16],
    [old, new]: [[u8; 16]; 2],
) -> Result<()> {
    let log = open_external(Arc::clone(device), block_bytes, journal_uuid)?;
    change(&log, |superblock| {
        check_free(superblock, &[old, new])?;
        superblock.set_users(&[new]);
        Ok(())
    })
}

/// Checks that a journal has no users but these.
fn check_free(superblock: &Superblock, own: &[[u8; 16]]) -> Result<()> {
    let mut users = superblock.users().iter();
    match users.find(|user| !own.contains(user)) {
        Some(user) => Err(Error::Taken { user: *user }),
        None => Ok(()),
    }
}

/// Checks that a file system is the user of an external journal.
///
/// # Errors
/// - [`Error::WrongUser`] if it is not.
/// - Those of [`open_external`].
pub fn check_user(
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    fs_uuid: [u8; 16],
) -> Result<()> {
    let journal_uuid = external_superblock(device)?.uuid;
    let log = open_external(Arc::clone(device), block_bytes, journal_uuid)?;
    let superblock = Superblock::load(&log)?;
    match superblock.users() {
        [user] if *user == fs_uuid => Ok(()),
        users => Err(Error::WrongUser {
            found: users.first().copied(),
            wanted: fs_uuid,
        }),
    }
}

/// The ext superblock that names the journal.
fn ext_superblock(blocks: u32, options: &ExternalOptions) -> ext::Superblock {
    let block_bytes = options.block_bytes;
    let mut raw = ext::Superblock::new_zeroed();
    raw.magic = MAGIC.into();
    raw.revision = DYNAMIC_REVISION.into();
    raw.state_bits = State::VALID.bits().into();
    raw.uuid = options.uuid;
    raw.label = options.label;
    raw.incompatible_bits = feature::Incompatible::JOURNAL_DEV.bits().into();
    let log_size = block_bytes.trailing_zeros() - ext::BLOCK_SIZE_MIN.trailing_zeros();
    raw.log_block_size = log_size.into();
    raw.log_cluster_size = log_size.into();
    raw.first_data_block = u32::from(log_size == 0).into();
    raw.set_blocks_count(blocks.into());
    raw.blocks_per_group = (8 * block_bytes).into();
    raw.clusters_per_group = (8 * block_bytes).into();
    raw.max_mount_count = ext::MOUNT_COUNT_UNLIMITED.into();
    raw.error_policy = (ext::ErrorPolicy::Continue as u16).into();
    // Made, written and checked at the same time: 32 bits of it, and 8 more.
    let seconds = options.seconds.max(0).cast_unsigned();
    let (low, high) = ((seconds as u32).into(), (seconds >> 32) as u8);
    (raw.creation_time, raw.creation_time_high) = (low, high);
    (raw.write_time, raw.write_time_high) = (low, high);
    (raw.check_time, raw.check_time_high) = (low, high);
    // There is no inode, but dumpe2fs and e2fsck refuse a superblock whose inodes have no size.
    raw.dynamic_first_inode = ext::GOOD_OLD_FIRST_INODE.into();
    raw.dynamic_inode_size = 256.into();
    raw
}
