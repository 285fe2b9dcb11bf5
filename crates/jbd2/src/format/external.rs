//! External journals: a device that holds a log and nothing else.
//!
//! ```text
//! byte 1024                     an ext superblock with journal_dev as its only incompatible
//!                               feature; its UUID names the journal
//! block 1 (2 with 1 KiB blocks) the journal's superblock
//! the blocks after it           the log; its block numbers are those of the device
//! ```
//!
//! At most one file system uses it, as in Linux. Several users, or another UUID, are detected and
//! refused.
//!
//! When a new image replaces the user's, the new one is announced before, in the last place of the
//! list of users, which their number does not include. So each of the two is known at every moment.

use std::sync::Arc;

use block::BlockDevice;
use layout::superblock::{self as ext, DYNAMIC_REVISION, MAGIC, State};
use layout::{Block, BlockNr, feature};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::{LogOptions, change, contiguous, new_superblock, zero};
use crate::error::{Corrupt, Error, Result};
use crate::location::{Location, LogExtent};
use crate::superblock::Superblock;

/// Returns the device's block that holds the journal's superblock.
fn superblock_place(block_bytes: u32) -> u32 {
    if u64::from(block_bytes) == ext::OFFSET {
        2
    } else {
        1
    }
}

/// Returns the extents of the log. Block 0 is the journal's superblock; every other block has its
/// number on the device.
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
    /// Size of a block in bytes.
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

/// Formats the first blocks of a device as an external journal: zeroes, the journal's superblock,
/// the ext superblock.
///
/// # Errors
/// - [`Error::TooSmall`], and the errors of the device.
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
    device.request(superblock.requests(&log)).wait_all()?;
    let image = ext_superblock(blocks, options);
    device.write_blocks(
        ext::OFFSET,
        vec![Block::copy_from(image.as_bytes()).into_arc()],
    )?;
    Ok(device.flush()?)
}

/// Returns the location of the journal on a device, if it has this UUID and at most one user.
///
/// # Errors
/// - [`Error::Corrupt`] if the device is not an external journal.
/// - [`Error::WrongJournal`] if it has another UUID.
/// - [`Error::InUse`] if several file systems use it.
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

/// Returns the location of the journal on a device, regardless of its number of users.
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

/// Returns the ext superblock of an external journal device.
///
/// # Errors
/// - [`Error::Corrupt`] if there is none, or it belongs to a file system.
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

/// Adds the file system that uses an external journal. Does nothing if it is already added.
///
/// # Errors
/// - [`Error::Taken`] if another file system uses the journal.
/// - [`Error::NotEmpty`] if its log was not replayed: the transactions belong to another file
///   system.
/// - Errors of [`open_external`].
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

/// The file systems of an external journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Users {
    /// UUID of the one that uses it.
    pub present: Option<[u8; 16]>,
    /// UUID of the one that was about to take its place, and may have.
    pub announced: Option<[u8; 16]>,
}

/// Returns the users of an external journal, for another that would take their place.
///
/// # Errors
/// - [`Error::NotEmpty`] if its log was not replayed: the transactions belong to the user.
/// - Errors of [`open_external`].
pub fn users_of_empty(device: &Arc<dyn BlockDevice>, block_bytes: u32) -> Result<Users> {
    let journal_uuid = external_superblock(device)?.uuid;
    let log = open_external(Arc::clone(device), block_bytes, journal_uuid)?;
    let mut superblock = Superblock::load(&log)?;
    match superblock.start() {
        Some(_) => Err(Error::NotEmpty),
        None => Ok(Users {
            present: superblock.users().first().copied(),
            announced: Some(*superblock.announced()).filter(|uuid| *uuid != [0; 16]),
        }),
    }
}

/// Announces the file system that is about to take the place of the user of the external journal
/// with this UUID; none takes an announcement back. The user stays until [`rename_user`].
///
/// # Errors
/// - Errors of [`open_external`].
pub fn announce_user(
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    journal_uuid: [u8; 16],
    fs_uuid: Option<[u8; 16]>,
) -> Result<()> {
    let log = open_external(Arc::clone(device), block_bytes, journal_uuid)?;
    change(&log, |superblock| {
        *superblock.announced() = fs_uuid.unwrap_or_default();
        Ok(())
    })
}

/// Removes a file system from the users of the external journal with this UUID. Does nothing if it
/// is not among them.
///
/// # Errors
/// - Errors of [`open_external`], except for several users: the others remain.
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

/// Changes the UUID of the file system that uses the external journal with this UUID. Does nothing
/// if it is already changed.
///
/// # Errors
/// - [`Error::Taken`] if the user of the journal has neither the old nor the new UUID.
/// - Errors of [`open_external`].
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

/// Checks that a journal has no other users than these.
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
/// - Errors of [`open_external`].
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

/// Returns the ext superblock of the journal device.
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
    // Created, written and checked at the same time, in fields of 32 and 8 bits.
    let seconds = options.seconds.max(0).cast_unsigned();
    let (low, high) = ((seconds as u32).into(), (seconds >> 32) as u8);
    (raw.creation_time, raw.creation_time_high) = (low, high);
    (raw.write_time, raw.write_time_high) = (low, high);
    (raw.check_time, raw.check_time_high) = (low, high);
    // There are no inodes, but dumpe2fs and e2fsck refuse a superblock with an inode size of 0.
    raw.dynamic_first_inode = ext::GOOD_OLD_FIRST_INODE.into();
    raw.dynamic_inode_size = 256.into();
    raw
}
