//! Creating logs, inside a file system and on separate devices.

mod external;

use std::sync::Arc;

use block::BlockDevice;
use layout::{Block, Tid};

use crate::error::{Error, Result};
use crate::location::Location;
use crate::space::Limits;
use crate::superblock::Superblock;
pub use crate::superblock::{BLOCKS_MIN, Checksums};
pub use external::{
    ExternalOptions, Users, add_user, announce_user, check_user, create_external,
    external_superblock, open_external, remove_user, rename_user, users_of_empty,
};

/// The properties of a new log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// The journal's UUID.
    pub uuid: [u8; 16],
    /// Superblock version 1 (without features) or 2.
    pub version: Version,
    /// Features beyond version 1; ignored there.
    pub features: Features,
    /// The number in the superblock. The journal continues with the next one.
    pub sequence: Tid,
    /// Number of blocks at the end of the journal that may be used for fast commits; 0 for Linux's
    /// default. Ignored in version 1.
    pub fast_commit_blocks: u32,
}

/// The version of a journal's superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Version {
    /// Without features.
    V1,
    /// With features.
    #[default]
    V2,
}

/// The features of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Features {
    /// True to allow revoke records. The journal sets this itself when needed.
    pub revoke: bool,
    /// True for block numbers of 64 bits.
    pub is_64bit: bool,
    /// The protection of blocks.
    pub checksums: Checksums,
}

impl Default for LogOptions {
    /// Returns the options of `mke2fs -t ext3`.
    fn default() -> Self {
        Self {
            uuid: [0; 16],
            version: Version::V2,
            features: Features::default(),
            sequence: Tid::new(1),
            fast_commit_blocks: 0,
        }
    }
}

/// Returns the superblock of a new, empty log of `blocks` blocks, itself included.
///
/// # Errors
/// - [`Error::TooSmall`].
pub fn superblock(block_bytes: u32, blocks: u32, options: &LogOptions) -> Result<Block> {
    new_superblock(block_bytes, blocks, 1, options).map(|superblock| superblock.encode())
}

/// Checks that handles on a log may request this number of blocks, and of revokes.
///
/// # Errors
/// - [`Error::TooSmall`], and the errors of reading the superblock.
pub fn check_room(log: &Location, blocks: u32) -> Result<()> {
    let superblock = Superblock::load(log)?;
    let limits = Limits::new(&superblock, &superblock.format());
    if limits.handle_max() < blocks {
        return Err(Error::TooSmall {
            blocks: superblock.length(),
            least: limits.length_for(blocks),
        });
    }
    Ok(())
}

/// Creates an empty log: zeroes, then its superblock, then a flush. All mapped blocks are used.
///
/// # Errors
/// - [`Error::TooSmall`], and the errors of the device.
pub fn create(log: &Location, options: &LogOptions) -> Result<()> {
    let blocks = u32::try_from(log.block_count()).unwrap_or(u32::MAX);
    let superblock = new_superblock(log.block_bytes, blocks, 1, options)?;
    zero(log, 1, blocks - 1)?;
    log.device.request(superblock.requests(log)).wait_all()?;
    Ok(log.device.flush()?)
}

/// Adds features that the file system requires to an empty log: block numbers of 64 bits, and
/// checksums v3. A log that has them is not written.
///
/// # Errors
/// - [`Error::NotRecovered`] if the log is not empty, and the errors of the device.
pub fn add_features(log: &Location, is_64bit: bool, has_checksums: bool) -> Result<()> {
    let mut superblock = Superblock::load(log)?;
    if !superblock.add_features(is_64bit, has_checksums) {
        return Ok(());
    }
    if superblock.start().is_some() {
        return Err(Error::NotRecovered);
    }
    log.device.request(superblock.requests(log)).wait_all()?;
    Ok(log.device.flush()?)
}

fn new_superblock(
    block_bytes: u32,
    blocks: u32,
    first: u32,
    options: &LogOptions,
) -> Result<Superblock> {
    if blocks < first + BLOCKS_MIN {
        return Err(Error::TooSmall {
            blocks,
            least: first + BLOCKS_MIN,
        });
    }
    let mut superblock = Superblock::new(block_bytes, blocks, first, options.uuid);
    superblock.set_tail(None, options.sequence);
    match options.version {
        Version::V1 => superblock.set_version_1(),
        Version::V2 => {
            let Features {
                revoke,
                is_64bit,
                checksums,
            } = options.features;
            superblock.set_features(revoke, is_64bit, checksums);
            superblock.set_fast_commit_blocks(options.fast_commit_blocks);
        }
    }
    Ok(superblock)
}

/// Zeroes a part of a log, so that no old block in it can be taken for a part of a transaction.
fn zero(log: &Location, first: u32, count: u32) -> Result<()> {
    let ranges = log.pieces(first, count).map(|piece| {
        let start = piece.sector.byte_offset();
        start..start + u64::from(piece.count) * u64::from(log.block_bytes)
    });
    Ok(log.device.zero(&ranges.collect::<Vec<_>>())?)
}

/// Reads the superblock of a log, changes it and writes it durably.
fn change(log: &Location, change: impl FnOnce(&mut Superblock) -> Result<()>) -> Result<()> {
    let mut superblock = Superblock::load(log)?;
    change(&mut superblock)?;
    log.device.request(superblock.requests(log)).wait_all()?;
    Ok(log.device.flush()?)
}

/// Returns the location of a log that fills a device's blocks from `first` on.
fn contiguous(device: &Arc<dyn BlockDevice>, block_bytes: u32, blocks: u32) -> Location {
    Location {
        device: Arc::clone(device),
        block_bytes,
        extents: external::extents(block_bytes, blocks),
    }
}
