//! An image of a tree: its number of inodes, its size, and the copy of the tree.
//!
//! The volume is sized for its contents, filled without its journal, and sealed as if it had never
//! been mounted.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use block::BlockDevice;
use ext::mkfs::{self, Options};
use ext::options::{AccessTime, Memory};
use ext::{MountOptions, Volume};
use layout::inode::EXTRA_SIZE;

use super::{Filling, Origin, Tally};

/// Default block size in bytes.
pub const BLOCK_BYTES: u32 = 4096;
/// Supported block sizes in bytes.
pub const BLOCK_BYTES_ALL: [u32; 3] = [1024, 2048, BLOCK_BYTES];
/// Memory budget while the image is filled, in bytes.
const MEMORY_BYTES: u64 = 64 << 20;
/// Inodes in addition to those of the tree: the reserved ones, and a few free ones.
const INODES_MORE: u64 = 64;
/// Maximum number of attempts to find a size.
const SIZE_ROUNDS_MAX: u32 = 64;

/// Returns the number of inodes for a tree, if the options do not have it.
///
/// # Errors
/// Fails if there would be more than 2^32.
pub fn inode_count(options: &Options, tally: &Tally) -> Result<u32> {
    if let Some(count) = options.inode_count {
        return Ok(count);
    }
    let by_share = options
        .bytes_per_inode
        .and_then(|bytes| tally.bytes.checked_div(bytes.into()));
    let count = tally.inodes + INODES_MORE + by_share.unwrap_or(tally.inodes / 10);
    u32::try_from(count).context("more than 2^32 inodes")
}

/// Returns the geometry of an image of this size in bytes.
#[must_use]
pub fn geometry(size_bytes: u64) -> block::Geometry {
    block::Geometry {
        size_bytes,
        sector_bytes: 512,
        has_volatile_cache: false,
        has_force_unit_access: false,
        can_flush: true,
        atomic_write_bytes: 512,
        queue_depth: 1,
        is_read_only: false,
    }
}

/// Returns the smallest size in bytes that holds the tree, the reserved blocks and the slack, which
/// is a percentage of the space that the tree needs.
///
/// # Errors
/// Fails if no size allows the options.
pub fn size(options: &Options, tally: &Tally, slack_percent: u32) -> Result<u64> {
    let block_bytes = u64::from(options.block_bytes.unwrap_or(BLOCK_BYTES));
    // The tree was counted in clusters, where blocks are allocated by them.
    let in_unit = u64::from(options.allocation_bytes()) / block_bytes;
    let units = tally.blocks + tally.blocks * u64::from(slack_percent) / 100 + 16;
    let needed = units * in_unit;
    let inode_bytes = u64::from(options.inode_bytes.unwrap_or(128 + EXTRA_SIZE as u16));
    let tables = u64::from(options.inode_count.unwrap_or_default()) * inode_bytes / block_bytes;
    let mut blocks = needed + tables + 2048;
    let mut refused = None;
    for _ in 0..SIZE_ROUNDS_MAX {
        let geometry = geometry((blocks * block_bytes).next_multiple_of(u64::from(BLOCK_BYTES)));
        let free = match mkfs::preview(&geometry, options) {
            Ok(summary) => summary.free_blocks.saturating_sub(summary.reserved_blocks),
            // Too small for the requested options, such as the number of inodes or the journal
            // size.
            Err(ext::Error::Invalid(why)) => {
                refused = Some(why);
                0
            }
            Err(error) => return Err(error.into()),
        };
        if free >= needed {
            return Ok(geometry.size_bytes);
        }
        blocks += (needed - free) + (needed - free) / 16 + 8;
    }
    match refused {
        Some(why) => bail!("no size can be found that holds the tree: {why}"),
        None => bail!("no size can be found that holds the tree; give one"),
    }
}

/// Fills a newly made volume with trees, one after another, and seals it. A later tree replaces
/// files of an earlier one.
///
/// # Errors
/// Fails with the first error of reading a tree or of the volume.
pub fn fill(
    device: &Arc<dyn BlockDevice>,
    origins: &[Origin],
    filling: &Filling<'_>,
) -> Result<()> {
    for (number, origin) in origins.iter().enumerate() {
        let options = MountOptions {
            is_being_made: true,
            privileged: true,
            access_time: AccessTime::Never,
            memory: Memory {
                budget_bytes: MEMORY_BYTES,
                ..Memory::default()
            },
            ..MountOptions::default()
        };
        let volume = Volume::open(Arc::clone(device), None, options)?;
        match number {
            0 => origin.fill(device, volume, filling)?,
            _ => origin.add_to(volume, filling)?,
        }
    }
    Ok(mkfs::seal(device, filling.times.seconds)?)
}
