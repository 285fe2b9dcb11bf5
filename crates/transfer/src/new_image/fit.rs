//! The exact size of an image: the smallest that holds a tree, or leaves a given space free.
//!
//! The blocks that a tree takes cannot be computed from its names and sizes: directories split by
//! the hashes of their names, and attributes share blocks. So they are counted: the tree is made
//! once without the data of its files, in a volume with more than enough space. From the count
//! follows the number of blocks, which the descriptors, tables and journal of the volume depend on;
//! then the tree is made for good.
//!
//! The other way, to cut a filled volume down, would move blocks: the tables of the groups that
//! drop out, the journal in the middle, copies of the superblock, reserved descriptors. Here each
//! image is one that `mkfs` makes with this number of blocks. Only the extents of files over
//! several groups may need other numbers of blocks in the smaller volume: if the tree does not fit
//! after all, the size is searched around the count.

use std::sync::Arc;

use anyhow::{Result, bail};
use block::{BlockDevice, FileDevice, OpenOptions};
use ext::mkfs::{self, Options, Summary};

use super::{BLOCK_BYTES, Trees, geometry, size, used};
use crate::{Tally, Times, scratch};

/// Maximum number of steps to the size of an image.
const STEPS_MAX: u32 = 10_000;
/// Maximum number of smaller sizes that are tried after a size is found: a larger volume may need
/// fewer blocks, since the inodes of a group fill whole blocks.
const STEPS_BACK_MAX: u64 = 64;
/// Largest number of blocks that are added at once to a count that was too small, or the count.
const STEP_MAX: u64 = 1 << 20;
/// Largest number of blocks beyond the double of a number that is none of a volume. The largest
/// journal needs a volume of twice its length.
const INVALID_BLOCKS_MAX: u64 = 1 << 26;
/// Unit of the inodes of a group, and the smallest number of inodes that is asked for.
const INODES_STEP: u32 = 8;
const INODES_MIN: u32 = 16;
/// Largest number of blocks of a volume.
const BLOCKS_MAX: u64 = 1 << 48;

/// Space that a new image leaves free, besides its reserved blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Free {
    /// At least this number of bytes.
    Bytes(u64),
    /// At least this percentage of the blocks of the image.
    Percent(f64),
}

impl Free {
    /// Nothing: the smallest image.
    pub const NONE: Self = Self::Bytes(0);

    /// Returns the number of free blocks of a volume.
    fn blocks(self, summary: &Summary) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.div_ceil(summary.geometry.block_bytes.into()),
            Self::Percent(percent) => {
                (percent / 100.0 * summary.geometry.block_count as f64).ceil() as u64
            }
        }
    }
}

/// Blocks and inodes that a tree took of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Number of blocks, besides those of the empty volume.
    pub blocks: u64,
    /// Number of inodes, with the reserved ones.
    pub inodes: u32,
}

/// Space in the volume in which trees are counted, besides what they are estimated to need, in
/// percent; and the factor of it if that does not suffice.
const COUNTING_SLACK: u32 = 25;
const COUNTING_SLACK_FACTOR: u32 = 16;

/// Makes trees without the data of files in a volume in an unnamed file, and returns what they
/// take.
///
/// # Errors
/// Fails with the first error of reading a tree, or of the file.
pub(super) fn count(trees: &Trees, options: &Options, tally: &Tally, times: Times) -> Result<Used> {
    let mut slack = COUNTING_SLACK;
    loop {
        let bytes = size(options, tally, slack)?;
        match count_in(bytes, trees, options, times) {
            Err(error) if is_full(&error) && slack == COUNTING_SLACK => {
                slack *= COUNTING_SLACK_FACTOR;
            }
            counted => return counted,
        }
    }
}

fn count_in(bytes: u64, trees: &Trees, options: &Options, times: Times) -> Result<Used> {
    let file = scratch::file()?;
    file.set_len(bytes)?;
    let device = FileDevice::of_file(file.into(), "counted image", &OpenOptions::default())?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let empty = mkfs::format(&device, options)?;
    trees.count(&device, times)?;
    used(&device, &empty)
}

/// The judgement of a number of blocks.
enum Judged {
    Fits,
    /// More blocks are missing.
    Short(u64),
    /// No volume has so few.
    Invalid(&'static str),
}

/// Returns the description of the smallest volume that has this number of blocks for a tree, and
/// the free space.
///
/// # Errors
/// Fails if there is none.
pub(super) fn smallest(options: &Options, blocks: u64, free: Free) -> Result<Summary> {
    let block_bytes = options.block_bytes.unwrap_or(BLOCK_BYTES);
    let unit = u64::from(options.allocation_bytes() / block_bytes);
    let judge = |count: u64| judge(options, block_bytes, count, blocks, free);
    let mut count = blocks.max(1).next_multiple_of(unit);
    for _ in 0..STEPS_MAX {
        match judge(count)? {
            Judged::Fits => {
                let mut found = count;
                for fewer in (1..=STEPS_BACK_MAX).map(|steps| steps * unit) {
                    let Some(fewer) = count.checked_sub(fewer).filter(|count| *count > 0) else {
                        break;
                    };
                    if matches!(judge(fewer)?, Judged::Fits) {
                        found = fewer;
                    }
                }
                return Ok(preview(options, block_bytes, found)?);
            }
            Judged::Short(missing) => count += missing.next_multiple_of(unit),
            Judged::Invalid(why) => count = first_valid(count, unit, why, &judge)?,
        }
        if count > BLOCKS_MAX {
            break;
        }
    }
    bail!("no size can be found that holds the tree and the free space");
}

/// Returns the description of the smallest volume that has the blocks and inodes of a tree, and
/// sets the number of inodes. mkfs rounds the inodes of a group down to a multiple of 8.
///
/// # Errors
/// Fails if there is none.
pub(super) fn smallest_of(options: &mut Options, used: Used) -> Result<Summary> {
    let mut inodes = used.inodes.max(INODES_MIN).next_multiple_of(INODES_STEP);
    loop {
        options.inode_count = Some(inodes);
        let found = smallest(options, used.blocks, Free::NONE)?;
        if found.geometry.inode_count >= used.inodes {
            return Ok(found);
        }
        let missing = used.inodes - found.geometry.inode_count;
        inodes = inodes.saturating_add(missing.next_multiple_of(INODES_STEP));
    }
}

type Judge<'j> = &'j dyn Fn(u64) -> Result<Judged>;

/// Returns the smallest number of blocks of a volume above `count`, which is none.
fn first_valid(count: u64, unit: u64, why: &str, judge: Judge<'_>) -> Result<u64> {
    let is_valid = |count| Ok::<_, anyhow::Error>(!matches!(judge(count)?, Judged::Invalid(_)));
    let (mut low, mut high) = (count / unit, count / unit * 2);
    while !is_valid(high * unit)? {
        (low, high) = (high, high * 2);
        if high * unit > count * 2 + INVALID_BLOCKS_MAX {
            bail!("no size can be found that holds the tree: {why}");
        }
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        match is_valid(middle * unit)? {
            true => high = middle,
            false => low = middle,
        }
    }
    Ok(high * unit)
}

fn judge(
    options: &Options,
    block_bytes: u32,
    count: u64,
    blocks: u64,
    free: Free,
) -> Result<Judged> {
    match preview(options, block_bytes, count) {
        Ok(summary) => {
            let has = summary.free_blocks.saturating_sub(summary.reserved_blocks);
            let missing = (blocks + free.blocks(&summary)).saturating_sub(has);
            Ok(match missing {
                0 => Judged::Fits,
                missing => Judged::Short(missing),
            })
        }
        Err(ext::Error::Invalid(why)) => Ok(Judged::Invalid(why)),
        Err(ext::Error::NoSpace) => Ok(Judged::Invalid("the first files have no place")),
        Err(error) => Err(error.into()),
    }
}

fn preview(options: &Options, block_bytes: u32, count: u64) -> ext::Result<Summary> {
    let options = Options {
        block_count: Some(count),
        ..options.clone()
    };
    mkfs::preview(&geometry(count * u64::from(block_bytes)), &options)
}

/// Makes an image of a size that is searched around a count of its blocks. `attempt` makes it in a
/// volume and returns what the tree took; none if it does not fit. The last attempt is successful.
///
/// # Errors
/// Fails with the first error of `attempt`, or if no size is found.
pub(super) fn search(
    options: &Options,
    counted: u64,
    free: Free,
    attempt: &mut dyn FnMut(&Summary) -> Result<Option<Used>>,
) -> Result<()> {
    // The largest number of blocks that was too few, and the smallest that was enough.
    let (mut low, mut high) = (0, None);
    let (mut blocks, mut step) = (counted, 1);
    loop {
        let summary = smallest(options, blocks, free)?;
        match (attempt(&summary)?, high) {
            (Some(used), _) => {
                let fewer = used.blocks.max(low + 1);
                // A few more free blocks than were asked for are not worth another attempt.
                if fewer >= blocks || high == Some(blocks) || free != Free::NONE {
                    return Ok(());
                }
                high = Some(blocks);
                blocks = fewer;
            }
            (None, Some(high)) if blocks < high => {
                low = blocks;
                // The last number that was enough, if none is left between.
                blocks = (low + high).div_ceil(2);
            }
            (None, None) if step <= counted.max(STEP_MAX) => {
                low = blocks;
                blocks += step;
                step *= 2;
            }
            (None, _) => bail!("no size can be found that holds the tree"),
        }
    }
}

/// Returns true if an error says that a volume is full.
pub(super) fn is_full(error: &anyhow::Error) -> bool {
    let is_full = |error: &ext::Error| matches!(error, ext::Error::NoSpace | ext::Error::NoInodes);
    error
        .chain()
        .any(|cause| cause.downcast_ref::<ext::Error>().is_some_and(is_full))
}

#[cfg(test)]
mod tests {
    use ext::mkfs::FileSystemType;

    use super::*;

    fn options(file_system: FileSystemType, block_bytes: u32) -> Options {
        Options {
            file_system,
            block_bytes: Some(block_bytes),
            inode_count: Some(100),
            reserved_percent: 0.0,
            uuid: Some([7; 16]),
            ..Options::default()
        }
    }

    #[test]
    fn no_smaller_volume_has_the_blocks() {
        for (file_system, block_bytes) in [
            (FileSystemType::Ext2, 1024),
            (FileSystemType::Ext3, 2048),
            (FileSystemType::Ext4, 4096),
        ] {
            let options = options(file_system, block_bytes);
            // The last of them lie on both sides of the default journal, and of several groups.
            for blocks in [0, 1, 1900, 8200, 33_000] {
                let found = smallest(&options, blocks, Free::NONE).expect("a size");
                let count = found.geometry.block_count;
                assert!(found.free_blocks >= blocks);
                for fewer in count.saturating_sub(60)..count {
                    let smaller = preview(&options, block_bytes, fewer);
                    let fits = smaller.is_ok_and(|summary| summary.free_blocks >= blocks);
                    assert!(
                        !fits,
                        "{blocks} blocks of {block_bytes}: {fewer}, not {count}"
                    );
                }
            }
        }
    }

    /// The inode tables take more space than the tree.
    #[test]
    fn many_empty_files_have_a_size() {
        let options = Options {
            inode_count: Some(60_000),
            ..options(FileSystemType::Ext4, 4096)
        };
        let found = smallest(&options, 1000, Free::NONE).expect("a size");
        assert_eq!(found.free_blocks, 1000);
    }

    #[test]
    fn free_space_is_left_besides_the_reserve() {
        let options = Options {
            reserved_percent: 10.0,
            ..options(FileSystemType::Ext4, 4096)
        };
        let share = smallest(&options, 10_000, Free::Percent(20.0)).expect("a size");
        let free = share.free_blocks - share.reserved_blocks - 10_000;
        let wanted = share.geometry.block_count / 5;
        assert!((wanted..=wanted + 2).contains(&free), "{free}, {wanted}");
        let bytes = smallest(&options, 10_000, Free::Bytes(5 << 20)).expect("a size");
        let free = bytes.free_blocks - bytes.reserved_blocks - 10_000;
        assert!((1280..=1282).contains(&free), "{free}");
        smallest(&options, 10_000, Free::Percent(95.0)).expect_err("more than is left");
    }

    /// Searches where the tree takes `real` blocks in a volume that has so many.
    fn found(counted: u64, real: u64) -> (u64, u32) {
        let options = options(FileSystemType::Ext4, 4096);
        let (mut attempts, mut last) = (0, None);
        let searched = search(&options, counted, Free::NONE, &mut |summary| {
            attempts += 1;
            let used = Used {
                blocks: real,
                inodes: 20,
            };
            last = Some(summary.free_blocks).filter(|blocks| *blocks >= real);
            Ok(last.map(|_| used))
        });
        searched.expect("a size");
        (last.expect("the last attempt is successful"), attempts)
    }

    #[test]
    fn a_wrong_count_is_corrected() {
        assert_eq!(found(20_000, 20_000), (20_000, 1));
        for (counted, real) in [(20_000, 20_001), (20_000, 20_013), (20_000, 19_990)] {
            let (blocks, attempts) = found(counted, real);
            assert_eq!(blocks, real);
            assert!(attempts < 9, "{counted} {real}: {attempts}");
        }
    }
}
